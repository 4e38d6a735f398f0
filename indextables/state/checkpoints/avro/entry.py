"""FileEntry, the record of a manifest: the 18 fields that other programs write, then nullable fields for the rest of an add (C-38, C-39).

The vectorised encoder and decoder are driven by `FIELDS`; other readers use the Avro schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

NAMESPACE = "io.indextables.spark.transaction.avro"


class FieldType(Enum):
    BOOLEAN = "boolean"
    LONG = "long"
    INT = "int"
    STRING = "string"
    MAP = "map"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: FieldType
    number: int
    column: str  # a column of `actions.columns.SCHEMA`, or UNSTATED
    nullable: bool = True

    @property
    def schema(self) -> dict[str, Any]:
        inner = {FieldType.MAP: "values", FieldType.ARRAY: "items"}.get(self.kind)
        plain: Any = self.kind.value if inner is None else {"type": self.kind.value, inner: "string"}
        if self.nullable:
            return {"name": self.name, "type": ["null", plain], "default": None, "field-id": self.number}
        with_default = {"default": False} if self.column == "has_footer_offsets" else {}
        return {"name": self.name, "type": plain, **with_default, "field-id": self.number}


UNSTATED = "footer_offsets_unstated"  # hasFooterOffsets cannot be null in the schema of other programs, but can be absent from an add

FIELDS = (
    Field("path", FieldType.STRING, 100, "path", nullable=False),
    Field("partitionValues", FieldType.MAP, 101, "partition_values", nullable=False),
    Field("size", FieldType.LONG, 102, "size", nullable=False),
    Field("modificationTime", FieldType.LONG, 103, "modification_time", nullable=False),
    Field("dataChange", FieldType.BOOLEAN, 104, "data_change", nullable=False),
    Field("stats", FieldType.STRING, 110, "stats"),
    Field("minValues", FieldType.MAP, 111, "min_values"),
    Field("maxValues", FieldType.MAP, 112, "max_values"),
    Field("numRecords", FieldType.LONG, 113, "num_records"),
    Field("footerStartOffset", FieldType.LONG, 120, "footer_start_offset"),
    Field("footerEndOffset", FieldType.LONG, 121, "footer_end_offset"),
    Field("hasFooterOffsets", FieldType.BOOLEAN, 122, "has_footer_offsets", nullable=False),
    Field("splitTags", FieldType.ARRAY, 130, "split_tags"),
    Field("numMergeOps", FieldType.INT, 131, "num_merge_ops"),
    Field("docMappingRef", FieldType.STRING, 132, "doc_mapping_ref"),
    Field("uncompressedSizeBytes", FieldType.LONG, 133, "uncompressed_size_bytes"),
    Field("addedAtVersion", FieldType.LONG, 140, "added_at_version", nullable=False),
    Field("addedAtTimestamp", FieldType.LONG, 141, "added_at_timestamp", nullable=False),
    Field("tags", FieldType.MAP, 109, "tags"),
    Field("timeRangeStart", FieldType.STRING, 118, "time_range_start"),
    Field("timeRangeEnd", FieldType.STRING, 119, "time_range_end"),
    Field("hotcacheStartOffset", FieldType.LONG, 128, "hotcache_start_offset"),
    Field("hotcacheLength", FieldType.LONG, 129, "hotcache_length"),
    Field("deleteOpstamp", FieldType.LONG, 139, "delete_opstamp"),
    Field("docMappingJson", FieldType.STRING, 153, "doc_mapping_json"),
    Field("footerOffsetsUnstated", FieldType.BOOLEAN, 154, UNSTATED),
)
SCHEMA = {"type": "record", "name": "FileEntry", "namespace": NAMESPACE, "fields": [field.schema for field in FIELDS]}
SCHEMA_TEXT = msgspec.json.encode(SCHEMA)  # our manifests contain exactly these bytes
