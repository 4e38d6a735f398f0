"""Splits of other programs in a table: told by the log or by the file, and read or merged in our form."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from indextables.actions import Add
from indextables.config import Config
from indextables.errors import StorageError
from indextables.paths import is_our_split
from indextables.splits import DocMapping, UpstreamTable, fingerprint, fitting, is_upstream_split, translate
from indextables.storage import Downloads, cache_folder
from indextables.table import Snapshot, TableContext

_LOG = logging.getLogger("indextables")


def is_upstream(add: Add) -> bool:
    """By the log alone: our doc mappings are objects, upstream's are lists of fields; without one the name decides."""
    if add.doc_mapping_json is not None:
        return add.doc_mapping_json.lstrip()[:1] == "["
    return not is_our_split(add.path)


def upstream_table(snapshot: Snapshot, config: Config) -> UpstreamTable:
    """What a translation needs to know of the table; `config` includes the table's own."""
    config = fitting(config, snapshot.schema, snapshot.partition_columns)
    mapping = DocMapping.for_table(snapshot.schema, snapshot.partition_columns, config.typemap(), config.tokenizers())
    return UpstreamTable(
        snapshot.schema,
        snapshot.partition_columns,
        mapping,
        int(config.get("stats.truncation.maxLength")),
        str(config.get("split.rowStore.compression")),
    )


def native_split_path(context: TableContext, version: int, add: Add, path: Path) -> Path:
    """The file itself if it is ours, else what the cache has, or now gets, in its place."""
    if not is_upstream(add) or not is_upstream_split(path):
        return path
    snapshot = context.snapshot(version)
    config = context.for_table(snapshot).config
    table = upstream_table(snapshot, config)
    status = path.stat()
    place = f"{context.root}\0{add.path}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}".encode()
    key = hashlib.sha256(place + b"\0" + fingerprint(table, add.partition_values)).hexdigest()
    folder = cache_folder() / "upstream"

    def make(file: Path) -> None:
        _warn(str(context.root), folder)
        translate(path, file, table, add.partition_values)

    try:
        return Downloads(folder, str(context.root), config.get("cache.maxSize")).get_or_make(key, make)
    except OSError as cause:
        raise StorageError(f"the rows of split {add.path!r} could not be kept in {folder}: {cause}") from cause


def _warn(root: str, folder: Path) -> None:
    """Once for each table: it may have thousands of splits."""
    if root not in _warned:
        _warned.add(root)
        _LOG.warning(
            "the table at %s has splits of another program, which are indexed once into %s; "
            "merge_splits with storage.takeOver=true makes that permanent",
            root,
            folder,
        )


_warned: set[str] = set()
