"""The actions of the log, one frozen Struct each, with the field names of the wire (camelCase there, nulls left out)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field, structs

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # a Java long, as other readers use
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class _Wire(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Unknown fields are ignored; absent and null are the same for optional fields."""


class Protocol(_Wire, frozen=True):
    """The minimum versions and the features that a program must support to read or write the table."""

    min_reader_version: Int32
    min_writer_version: Int32
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None

    @classmethod
    def of(cls, version: int, *features: str) -> Protocol:
        """The protocol with this version and these features, for readers and writers."""
        names = sorted(features) or None
        return cls(min_reader_version=version, min_writer_version=version, reader_features=names, writer_features=names)


MAPPING_PREFIX = "docMappingSchema."  # prefix of configuration keys that hold a doc mapping; its hash follows


class FileFormat(Struct, frozen=True):
    provider: str = "indextables"
    options: dict[str, str] = field(default_factory=dict)


class Metadata(Struct, frozen=True, rename="camel", kw_only=True):
    """Schema, partition columns and configuration of the table. Always written in full; null means the same as absent (see `nulls`)."""

    id: str
    format: FileFormat = field(default_factory=FileFormat)
    schema_string: str
    partition_columns: list[str] = field(default_factory=list)
    configuration: dict[str, str] = field(default_factory=dict)
    created_time: Int64 | UnsetType = UNSET
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET

    def following(self, old: Metadata | None) -> Metadata:
        """This metadata as the successor of `old`: doc mappings of `old` are kept, because files refer to them."""
        kept = {key: text for key, text in old.configuration.items() if key.startswith(MAPPING_PREFIX)} if old is not None else {}
        if kept.keys() <= self.configuration.keys():
            return self
        return structs.replace(self, configuration={**kept, **self.configuration})


class Add(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Adds a split to the table. It cannot be part of a reference cycle, so the garbage collector skips it (`gc=False`)."""

    path: str
    partition_values: dict[str, str]  # a null value has no key
    size: Count
    modification_time: Int64
    data_change: bool
    stats: str | None = None
    tags: dict[str, str] | None = None
    min_values: dict[str, str] | None = None
    max_values: dict[str, str] | None = None
    num_records: Count | None = None
    footer_start_offset: Int64 | None = None
    footer_end_offset: Int64 | None = None
    hotcache_start_offset: Int64 | None = None
    hotcache_length: Int64 | None = None
    has_footer_offsets: bool | None = None
    time_range_start: str | None = None
    time_range_end: str | None = None
    split_tags: list[str] | None = None
    delete_opstamp: Int64 | None = None
    num_merge_ops: Int32 | None = None
    doc_mapping_json: str | None = None
    doc_mapping_ref: str | None = None
    uncompressed_size_bytes: Int64 | None = None
    # The commit that added it: set when its version file is read and kept in checkpoints; a value in the version file is ignored.
    added_at_version: Int64 | None = None
    added_at_timestamp: Int64 | None = None  # None: the commit states no time


class Remove(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Removes a split from the table; its file stays until purge."""

    path: str
    deletion_timestamp: Int64 | None = None
    data_change: bool = field(default_factory=lambda: True)  # a factory, so that it is always written
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str] | None = None
    size: Count | None = None
    tags: dict[str, str] | None = None

    @classmethod
    def of(cls, add: Add, now_ms: int, *, data_change: bool) -> Remove:
        return cls(path=add.path, deletion_timestamp=now_ms, data_change=data_change, partition_values=add.partition_values, size=add.size)


class Skip(_Wire, frozen=True):
    """Records a split that an operation could not use. It stays in the table, and operations leave it alone until `retry_after`."""

    path: str
    skip_timestamp: Int64
    reason: str
    operation: str | None = None
    partition_values: dict[str, str] | None = None
    size: Count | None = None
    retry_after: Int64 | None = None
    skip_count: Int32 | None = None  # null stands for 1

    @property
    def count(self) -> int:
        return 1 if self.skip_count is None else self.skip_count

    def is_cooling(self, now_ms: int) -> bool:
        """Whether operations still leave the split alone (SKP-03)."""
        return self.retry_after is not None and self.retry_after > now_ms


class CommitInfo(_Wire, frozen=True):
    """Who made this commit, and how. Other readers ignore it; a writer recognises its own commit by the id."""

    id: str = ""  # other programs write none
    timestamp: Int64 | None = None
    operation: str | None = None
    user: str | None = None
    engine: str | None = None
    job_id: str | None = None
    attempt: Int32 | None = None
    read_version: Int64 | None = None
    metrics: dict[str, Any] | None = None
    new_paths: bool | None = None  # whether every added path is newly generated, so that replay need not look for it among live files


class Txn(_Wire, frozen=True):
    """An application's transaction number: a write with the same or a lower number is not committed again."""

    app_id: str
    version: Int64
    last_updated: Int64 | None = None


Action = Protocol | Metadata | Add | Remove | Skip | CommitInfo | Txn
