"""FileEntry, the record of a manifest: Appendix B's 18 fields first, then nullable fields for whatever else an add can hold (C-38, C-39).

The vectorised reader and writer go by `FIELDS`; to everyone else it is an Avro schema like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

NAMESPACE = "io.indextables.spark.transaction.avro"


class Kind(Enum):
    BOOLEAN = "boolean"
    LONG = "long"
    INT = "int"
    STRING = "string"
    MAP = "map"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    number: int
    column: str  # of `actions.columns.SCHEMA`, or the one below
    nullable: bool = True

    @property
    def schema(self) -> dict[str, Any]:
        plain: Any = self.kind.value
        if self.kind is Kind.MAP:
            plain = {"type": "map", "values": "string"}
        elif self.kind is Kind.ARRAY:
            plain = {"type": "array", "items": "string"}
        if self.nullable:
            return {"name": self.name, "type": ["null", plain], "default": None, "field-id": self.number}
        with_default = {"default": False} if self.column == "has_footer_offsets" else {}
        return {"name": self.name, "type": plain, **with_default, "field-id": self.number}


UNSTATED = "footer_offsets_unstated"  # hasFooterOffsets cannot be null in Appendix B, and can in an add

FIELDS = (
    Field("path", Kind.STRING, 100, "path", nullable=False),
    Field("partitionValues", Kind.MAP, 101, "partition_values", nullable=False),
    Field("size", Kind.LONG, 102, "size", nullable=False),
    Field("modificationTime", Kind.LONG, 103, "modification_time", nullable=False),
    Field("dataChange", Kind.BOOLEAN, 104, "data_change", nullable=False),
    Field("stats", Kind.STRING, 110, "stats"),
    Field("minValues", Kind.MAP, 111, "min_values"),
    Field("maxValues", Kind.MAP, 112, "max_values"),
    Field("numRecords", Kind.LONG, 113, "num_records"),
    Field("footerStartOffset", Kind.LONG, 120, "footer_start_offset"),
    Field("footerEndOffset", Kind.LONG, 121, "footer_end_offset"),
    Field("hasFooterOffsets", Kind.BOOLEAN, 122, "has_footer_offsets", nullable=False),
    Field("splitTags", Kind.ARRAY, 130, "split_tags"),
    Field("numMergeOps", Kind.INT, 131, "num_merge_ops"),
    Field("docMappingRef", Kind.STRING, 132, "doc_mapping_ref"),
    Field("uncompressedSizeBytes", Kind.LONG, 133, "uncompressed_size_bytes"),
    Field("addedAtVersion", Kind.LONG, 140, "added_at_version", nullable=False),
    Field("addedAtTimestamp", Kind.LONG, 141, "added_at_timestamp", nullable=False),
    Field("tags", Kind.MAP, 109, "tags"),
    Field("timeRangeStart", Kind.STRING, 118, "time_range_start"),
    Field("timeRangeEnd", Kind.STRING, 119, "time_range_end"),
    Field("hotcacheStartOffset", Kind.LONG, 128, "hotcache_start_offset"),
    Field("hotcacheLength", Kind.LONG, 129, "hotcache_length"),
    Field("deleteOpstamp", Kind.LONG, 139, "delete_opstamp"),
    Field("docMappingJson", Kind.STRING, 153, "doc_mapping_json"),
    Field("footerOffsetsUnstated", Kind.BOOLEAN, 154, UNSTATED),
)
SCHEMA = {"type": "record", "name": "FileEntry", "namespace": NAMESPACE, "fields": [field.schema for field in FIELDS]}
SCHEMA_TEXT = msgspec.json.encode(SCHEMA)  # our manifests carry exactly these bytes
