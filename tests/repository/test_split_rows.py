"""Rows of splits come in and go out at one place each: `LiveSplit` reads them, `SplitTask` conforms them to the table's schema."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READERS = {"SplitReader", "SplitPlace", "View", "cached_view", "open_split", "open_view", "rewrite_upstream_split"}  # of indextables.splits
ROWS_OF_READERS = {"batches", "take", "search", "numbers", "extract"}
FILES_OF_STORES = {"local_path", "partial_file", "fresh_copy"}
# Verify compares bytes with checksums, and what a file holds with the log, whichever of its rows count.
INSPECTS_FILES = "indextables/operations/inspect/verify_splits.py"
# `splits` has the readers, `rows` has LiveSplit, and `storage` has the stores.
OUTSIDE = [
    path.relative_to(ROOT).as_posix()
    for folder in ("indextables", "jobs", "dags")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.relative_to(ROOT).parts[:2] not in {("indextables", "splits"), ("indextables", "rows"), ("indextables", "storage")}
]


def readings(source: str) -> Iterator[str]:
    """The names by which a module could read rows of a split without LiveSplit."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("indextables.splits"):
            yield from (alias.name for alias in node.names if alias.name in READERS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("indextables.rows"):
            yield from (alias.name for alias in node.names if alias.name == "path_in_our_format")
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("indextables.splits"))
        elif isinstance(node, ast.Attribute) and node.attr in FILES_OF_STORES:
            yield node.attr


@pytest.mark.parametrize("name", OUTSIDE)
def test_rows_of_a_split_are_read_through_live_split(name: str) -> None:
    allowed = {"SplitReader", "fresh_copy"} if name == INSPECTS_FILES else set()
    assert not set(readings((ROOT / name).read_text("utf-8"))) - allowed


def test_verify_reads_files_and_no_rows() -> None:
    tree = ast.parse((ROOT / INSPECTS_FILES).read_text("utf-8"))
    assert not [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in ROWS_OF_READERS]


def test_another_reader_is_found() -> None:
    assert list(readings("from indextables.splits import DocMapping, open_split")) == ["open_split"]
    assert list(readings("from indextables.splits.reader import SplitReader")) == ["SplitReader"]
    assert list(readings("import indextables.splits.view")) == ["indextables.splits.view"]
    assert list(readings("path = context.store.local_path(add.path, add.size)")) == ["local_path"]
    assert list(readings("from indextables.rows import LiveSplit")) == []


def test_batches_are_conformed_once() -> None:
    """Only `SplitTask.write` does: rows of every write pass it, in this process and on Spark's executors."""
    calls = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "indextables").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "conform"
    }
    assert calls == {"indextables/rows/split_task.py"}
