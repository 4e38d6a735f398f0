"""The options for writing checkpoints, from the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from indextables.config import Config


@dataclass(frozen=True, slots=True)
class StateOptions:
    format: str  # avro | json | parquet
    manifest_format: str  # json | avro
    both_manifest_forms: bool  # also write the state manifest in the other form
    compression: str  # for manifests: zstd | snappy | none
    compression_level: int
    entries_per_manifest: int
    renormalize_threshold: int
    tombstone_threshold: float
    max_manifests: int
    large_remove_threshold: int
    multi_part: bool
    actions_per_part: int
    parquet_compression: str  # snappy | zstd | gzip | none
    parquet_file_size: int
    gzip: bool  # compress JSON checkpoints

    @classmethod
    def of(cls, config: Config) -> StateOptions:
        return cls(
            format=config.get("state.format"),
            manifest_format=config.get("state.manifestFormat"),
            both_manifest_forms=False,
            compression=config.get("state.compression"),
            compression_level=config.get("state.compressionLevel"),
            entries_per_manifest=config.get("state.entriesPerManifest"),
            renormalize_threshold=config.get("state.schema.renormalizeThreshold"),
            tombstone_threshold=config.get("state.compaction.tombstoneThreshold"),
            max_manifests=config.get("state.compaction.maxManifests"),
            large_remove_threshold=config.get("state.compaction.largeRemoveThreshold"),
            multi_part=config.get("checkpoint.multiPart.enabled"),
            actions_per_part=config.get("checkpoint.actionsPerPart"),
            parquet_compression=config.get("checkpoint.compression"),
            parquet_file_size=config.get("checkpoint.maxFileSize"),
            gzip=config.get("transaction.compression.enabled"),
        )
