"""The actions of the log, one frozen Struct each, with the field names of the wire (camelCase there, nulls left out)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # what a column of 64 bits holds


class _Wire(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Unknown fields are ignored; absent and null are the same for optional fields."""


class Protocol(_Wire, frozen=True):
    """What a program must understand to read or write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class FileFormat(Struct, frozen=True):
    provider: str = "indextables"
    options: dict[str, str] = field(default_factory=dict)


class Metadata(Struct, frozen=True, rename="camel", kw_only=True):
    """What the table is. Written in full, as the seeds list it as required."""

    id: str
    format: FileFormat = field(default_factory=FileFormat)
    schema_string: str
    partition_columns: list[str] = field(default_factory=list)
    configuration: dict[str, str] = field(default_factory=dict)
    created_time: int | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET


class Add(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """A split that belongs to the table from this version on. It cannot be part of a cycle, so the collector need not visit it."""

    path: str
    partition_values: dict[str, str]  # a null value has no key
    size: Long
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str] | None = None
    min_values: dict[str, str] | None = None
    max_values: dict[str, str] | None = None
    num_records: Long | None = None
    footer_start_offset: Long | None = None
    footer_end_offset: Long | None = None
    hotcache_start_offset: Long | None = None
    hotcache_length: Long | None = None
    has_footer_offsets: bool | None = None
    time_range_start: str | None = None
    time_range_end: str | None = None
    split_tags: list[str] | None = None
    delete_opstamp: Long | None = None
    num_merge_ops: Long | None = None
    doc_mapping_json: str | None = None
    doc_mapping_ref: str | None = None
    uncompressed_size_bytes: Long | None = None
    added_at_version: Long | None = None  # set by replay and kept in checkpoints; never in a version file


class Remove(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """A split that no longer belongs to the table; its file stays until purge."""

    path: str
    deletion_timestamp: int | None = None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str] | None = None
    size: int | None = None
    tags: dict[str, str] | None = None


class CommitInfo(_Wire, frozen=True):
    """Who made this commit; other readers ignore it, and we recognise our own by its id."""

    id: str
    timestamp: int
    operation: str | None = None
    user: str | None = None
    engine: str | None = None
    job_id: str | None = None
    attempt: int | None = None
    read_version: int | None = None
    metrics: dict[str, Any] | None = None


class Txn(_Wire, frozen=True):
    """An application's own counter: what it wrote under a number is written once."""

    app_id: str
    version: int
    last_updated: int | None = None


Action = Protocol | Metadata | Add | Remove | CommitInfo | Txn
