"""Splits of other programs ("upstream"): recognized by the log or by the file, and translated to our format for reading and merging."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from indextables.actions import Add
from indextables.config import Config
from indextables.errors import StorageError
from indextables.logs import logger
from indextables.paths import is_our_split
from indextables.splits import SplitSettings, fingerprint, is_upstream_split, rewrite_upstream_split, without_invalid_column_options
from indextables.storage import FileCache, cache_folder
from indextables.table import Snapshot, TableContext


def is_upstream(add: Add) -> bool:
    """Whether another program wrote the split, by the log alone: our doc mappings are objects, upstream's are lists of fields.

    Without a doc mapping, the file name decides.
    """
    if add.doc_mapping_json is not None:
        return add.doc_mapping_json.lstrip()[:1] == "["
    return not is_our_split(add.path)


def split_settings(snapshot: Snapshot, config: Config) -> SplitSettings:
    """How splits of the table are merged and translated; `config` must include the table's configuration."""
    config = without_invalid_column_options(config, snapshot.schema, snapshot.partition_columns)
    return SplitSettings.of_config(config, snapshot.schema, snapshot.partition_columns)


def path_in_our_format(context: TableContext, version: int, add: Add, path: Path) -> Path:
    """The split in our format: the file itself, or its translation, which is cached on this machine."""
    if not is_upstream(add) or not is_upstream_split(path):
        return path
    snapshot = context.snapshot(version)
    config = context.for_table(snapshot).config
    settings = split_settings(snapshot, config)
    status = path.stat()
    place = f"{context.root}\0{add.path}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}".encode()
    key = hashlib.sha256(place + b"\0" + fingerprint(settings, add.partition_values)).hexdigest()
    folder = cache_folder() / "upstream"

    def make(file: Path) -> None:
        _warn_once(str(context.root), folder)
        rewrite_upstream_split(path, file, settings, add.partition_values)

    try:
        return FileCache(folder, str(context.root), config.get("cache.maxSize")).get_or_make(key, make)
    except OSError as cause:
        raise StorageError(f"the rows of split {add.path!r} could not be kept in {folder}: {cause}") from cause


@cache
def _warn_once(root: str, folder: Path) -> None:
    """Warns once for each table, which may have thousands of such splits."""
    logger.warning(
        "the table at %s has splits of another program, which are translated into the cache %s; "
        "merge_splits with storage.takeOver=true replaces them in the table",
        root,
        folder,
    )
