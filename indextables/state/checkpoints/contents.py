"""What a checkpoint of any format contains, the options for writing it, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from indextables.actions import LayeredFiles, Metadata, Protocol, Skip, Totals, Txn
from indextables.config import Config

AVRO_STATE_PROTOCOL = 4  # the minimum protocol of a table with Avro states (PRT-01)


class Format(StrEnum):
    """Checkpoint formats, with the value of `format` in `_last_checkpoint`."""

    JSON = "json"
    JSON_PARTS = "json-multipart"
    AVRO = "avro-state"
    PARQUET = "parquet"


FAMILIES: dict[str, str] = {  # format -> value of the option `state.format`
    Format.AVRO: "avro",
    Format.JSON: "json",
    Format.JSON_PARTS: "json",
    Format.PARQUET: "parquet",
}


def _from(key: str) -> Any:
    """A field of CheckpointOptions with the value of this option of the table."""
    return field(metadata={"option": key})


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """The options for writing checkpoints."""

    format: str = _from("state.format")
    manifest_format: str = _from("state.manifestFormat")
    compression: str = _from("state.compression")  # of manifests
    compression_level: int = _from("state.compressionLevel")
    entries_per_manifest: int = _from("state.entriesPerManifest")
    tombstone_threshold: float = _from("state.compaction.tombstoneThreshold")
    max_manifests: int = _from("state.compaction.maxManifests")
    large_remove_threshold: int = _from("state.compaction.largeRemoveThreshold")
    multi_part: bool = _from("checkpoint.multiPart.enabled")
    actions_per_part: int = _from("checkpoint.actionsPerPart")
    parquet_compression: str = _from("checkpoint.compression")
    parquet_file_size: int = _from("checkpoint.maxFileSize")
    gzip: bool = _from("transaction.compression.enabled")  # of JSON checkpoints
    both_manifest_forms: bool = False  # also write the state manifest in the other form

    @classmethod
    def of(cls, config: Config) -> CheckpointOptions:
        return cls(**{each.name: config.get(each.metadata["option"]) for each in fields(cls) if each.metadata})


@dataclass(frozen=True, slots=True)
class Contents:
    """The table at one version, without expired application transactions and without skips whose cooldown is over."""

    version: int
    protocol: Protocol | None  # None: the table has none
    metadata: Metadata
    files: LayeredFiles
    totals: Totals  # of the live files
    txns: Sequence[Txn]
    skips: Sequence[Skip]

    @property
    def num_files(self) -> int:
        return self.totals.num_files

    @property
    def num_actions(self) -> int:
        return self.num_files + 1 + (self.protocol is not None) + len(self.txns) + len(self.skips)

    def written(self, form: Format, size: int, bytes_written: int, **more: Any) -> WrittenCheckpoint:
        return WrittenCheckpoint(self.version, form, self.num_files, self.num_actions, size, bytes_written, **more)


@dataclass(frozen=True, slots=True)
class WrittenCheckpoint:
    """A checkpoint that was written and verified."""

    version: int
    format: Format
    num_files: int
    num_actions: int
    size: int  # bytes of all its files, including shared ones
    bytes_written: int
    manifests_written: int = 0
    manifests_reused: int = 0
    state_dir: str | None = None
    parts: int | None = None
    checkpoint_id: str | None = None
    unpacked_size: int = 0  # uncompressed size of `bytes_written`

    @property
    def compression_percent(self) -> int:
        """Written bytes relative to uncompressed bytes; 0 if nothing was written."""
        return round(100 * self.bytes_written / self.unpacked_size) if self.unpacked_size else 0
