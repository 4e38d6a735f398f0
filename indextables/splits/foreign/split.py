"""Rewrites splits of upstream's writers (Quickwit's envelope around an index with stored documents) as IndexTables splits.

tantivy opens such an index here, but cannot search its terms, because their dictionary is of another kind. So the split is rewritten once,
rows and index, and everything else uses the rewritten split. The file is not trusted: the envelope, the file names, the checksum that
tantivy stores in each of its files, and `meta.json` against the table's schema are verified here; a child process (worker.py) decodes the
documents, because crafted bytes can abort the process that decodes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.splits.foreign.worker import Job, decode
from indextables.splits.format import INDEX_META, Range, check_body, check_ranges, has_our_hotcache, map_split, read_files
from indextables.splits.index import IndexMeta, parse_meta
from indextables.splits.writer import SplitSettings

_FILE_NAME = re.compile(r"[0-9a-f]{32}\.([a-z]{1,16}|[0-9]{1,19}\.del)|meta\.json|\.managed\.json|split_fields")
_UNCHECKED = (INDEX_META, ".managed.json", "split_fields")  # files without a tantivy footer
_STORED_TYPES = (
    (pa.types.is_string, ("text", "ip_addr", "json_object")),
    (pa.types.is_integer, ("i64", "u64")),
    (pa.types.is_floating, ("f64",)),
    (pa.types.is_boolean, ("bool",)),
    (pa.types.is_temporal, ("date",)),
    (pa.types.is_binary, ("bytes",)),
    (pa.types.is_decimal, ("f64", "text")),
)


def is_upstream_split(path: Path) -> bool:
    """Whether the file is a split without our hotcache, damaged or not; SplitCorrupted if it is not a split at all."""
    data = memoryview(map_split(path))
    if has_our_hotcache(data, path):
        return False
    refuse_our_files(data, path)
    return True


def refuse_our_files(data: memoryview, path: Path) -> None:
    """SplitCorrupted if a split without our hotcache has files that upstream does not write, e.g. ours with a damaged hotcache."""
    odd = [name for name in read_files(data, path)[0] if not _FILE_NAME.fullmatch(name)]
    if odd:
        raise SplitCorrupted(f"split {path} is damaged: it contains a file named {odd[0][:80]!r}, but its footer is not ours")


def rewrite_upstream_split(path: Path, target: Path, settings: SplitSettings, partition_values: Mapping[str, str]) -> None:
    """Rewrites an upstream split as one of ours; SplitCorrupted says what is wrong with it. A failure leaves no file behind."""
    data = memoryview(map_split(path))
    files = _files(data, path)
    meta = _checked_meta(data, files, path)
    _check_fields(meta, settings, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    decode(Job(path, files, meta.segments, target, settings, dict(partition_values)))


def verified_rows(path: Path) -> int:
    """The number of rows of an upstream split, after verifying its envelope and checksums; SplitCorrupted says what is wrong."""
    data = memoryview(map_split(path))
    meta = _checked_meta(data, _files(data, path), path)
    return sum(segment.max_doc - (segment.deletes.num_deleted_docs if segment.deletes else 0) for segment in meta.segments)


def _files(data: memoryview, path: Path) -> dict[str, Range]:
    """The verified ranges of the files: names match the pattern (they become paths), ranges do not overlap, checksums match."""
    files, end = read_files(data, path)
    in_order = sorted(files.items(), key=lambda item: (item[1].start, item[1].end))
    check_ranges(in_order, _FILE_NAME, end, path)
    for name, span in in_order:
        if name not in _UNCHECKED:
            try:
                check_body(data[span.start : span.end])
            except ValueError as cause:
                raise SplitCorrupted(f"split {path} is damaged: its file {name} is invalid: {cause}") from cause
    if INDEX_META not in files:
        raise SplitCorrupted(f"split {path} is damaged: its files are {', '.join(files)[:200] or 'none'}")
    return files


def _checked_meta(data: memoryview, files: Mapping[str, Range], path: Path) -> IndexMeta:
    meta = parse_meta(data[files[INDEX_META].start : files[INDEX_META].end], path)
    missing = [segment.stem for segment in meta.segments if f"{segment.stem}.store" not in files or segment.max_doc < 1]
    stems = [segment.stem for segment in meta.segments]
    if missing or not stems or len(set(stems)) < len(stems):
        raise SplitCorrupted(f"split {path} is damaged: its index has the segments {', '.join(stems)[:200] or 'none'}")
    return meta


def _check_fields(meta: IndexMeta, settings: SplitSettings, path: Path) -> None:
    """Checks that each column has a field of the type that upstream uses; otherwise it would read as null or as another value."""
    found = {str(field.get("name")): str(field.get("type")) for field in meta.schema}
    for field in settings.schema:
        if field.name not in settings.partition_columns and found.get(field.name) not in stored_types(field.type):
            has = found.get(field.name, "none")
            raise SplitCorrupted(f"split {path} is damaged: the field of column {field.name!r} ({field.type}) has the type {has[:40]!r}")


def stored_types(kind: pa.DataType) -> Sequence[str]:
    """The tantivy types in which upstream stores a column of an Arrow type."""
    return next((names for is_kind, names in _STORED_TYPES if is_kind(kind)), ("json_object",))


def fingerprint(settings: SplitSettings, partition_values: Mapping[str, str]) -> bytes:
    """Identifies everything besides the file that the rewritten split depends on."""
    values: list[Any] = [settings.schema.to_string(), settings.mapping.to_json(), sorted(partition_values.items()), settings.stats_length]
    return msgspec.json.encode([limits.UPSTREAM_FORM, *values, settings.partition_columns])
