"""The rows of tables written by upstream, if these are available next to the repository, and of one that the tests build in that format.

`expected.json` has the SHA-256 of all rows as read by upstream.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from tests.support.upstream import bundle, index_files, make_upstream_table, upstream_rows

OURS = "ours"


def _vectors() -> Path | None:
    places = [folder / "shared" / "vectors" for folder in Path(__file__).resolve().parents]
    return next((place for place in places if place.is_dir()), None)


VECTORS = _vectors()


def _tables() -> dict[str, tuple[Path, dict[str, Any]]]:
    found: dict[str, tuple[Path, dict[str, Any]]] = {OURS: (Path(), {"rows": 20})}
    for folder in ("upstream_tables", "upstream_tables_053"):
        file = (VECTORS or Path("nowhere")) / folder / "expected.json"
        for name, facts in json.loads(file.read_text()).items() if file.is_file() else ():
            found[name] = (file.parent / name, facts)
    return found


TABLES = _tables()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(folder))
    return folder


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def digests(rows: list[dict[str, Any]]) -> set[str]:
    lines = sorted(json.dumps(plain(row), sort_keys=True, ensure_ascii=False) for row in rows)
    escaped = sorted(json.dumps(plain(row), sort_keys=True) for row in rows)
    return {hashlib.sha256("\n".join(spelling).encode() + end).hexdigest() for spelling in (lines, escaped) for end in (b"", b"\n")}


def located(name: str, folder: Path) -> Path:
    """A writable copy of the table."""
    if name == OURS:
        rows = upstream_rows(20)
        return make_upstream_table(folder, [(bundle(index_files(rows[:13])), 13), (bundle(index_files(rows[13:])), 7)])
    shutil.copytree(TABLES[name][0], folder, copy_function=shutil.copyfile)
    for inner in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        inner.chmod(0o755)
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_exact(name: str, tmp_path: Path) -> None:
    expected = TABLES[name][1]
    rows = it.open(located(name, tmp_path / "t")).scan().read_all().to_pylist()
    assert len(rows) == expected.get("docs", expected.get("rows"))
    if "digest" in expected:
        assert expected["digest"] in digests(rows)


def test_all_available_vectors_are_used() -> None:
    assert len(TABLES) == (13 if VECTORS is not None else 1)


@pytest.mark.parametrize("name", [name for name in (OURS, "t10_types", "t11_nullpart", "04_partitioned") if name in TABLES])
def test_a_merge_with_take_over_converts_a_table(name: str, tmp_path: Path) -> None:
    """A-06."""
    path = located(name, tmp_path / "t")
    before = sorted(map(repr, it.open(path).scan().read_all().to_pylist()))
    it.open(path, options={"storage.takeOver": True}).merge_splits()
    table = it.open(path)
    assert sorted(map(repr, table.scan().read_all().to_pylist())) == before
    assert all(file.startswith(("splits/split-", "date=")) for file in table.files().column("path").to_pylist())


COUNTS = {
    OURS: {"id = 2": 1, "text LIKE '%refused%'": 10, "tags IS NULL": 0},
    "t10_types": {
        "i = 2": 1, "l = -9223372036854775808": 1, "f < 0": 1, "d > 1e308": 1, "b": 2, "s = ''": 1, "dt < DATE '1970-01-01'": 2,
        "ts = TIMESTAMP '2024-01-01 01:02:03.456789'": 1, "bin IS NULL": 1, "arr IS NULL": 2, "st IS NOT NULL": 3, "s > 'b'": 2,
    },
    "t11_nullpart": {"date IS NULL": 6, "date IS NULL AND id < 5": 1, "name IS NULL": 15, "date = '2024-01-01' OR id = 0": 9},
}  # fmt: skip
SEARCHES = {
    OURS: {"refused": 10, "text:timed AND id:[0 TO 3]": 2},
    "t10_types": {"hello": 2, "s:a": 1, "txt:*": 4, "i:>2": 1},
    "t11_nullpart": {"fox": 30, '"quick brown"': 10, "date:*": 24, "body:12": 1},
}


@pytest.mark.parametrize("name", [name for name in COUNTS if name in TABLES])
def test_predicates_and_searches(name: str, tmp_path: Path) -> None:
    """`date IS NULL` on a null partition gives 0 with upstream."""
    table = it.open(located(name, tmp_path / "t"))
    assert {where: table.count(where) for where in COUNTS[name]} == COUNTS[name]
    assert {query: table.search(query, limit=100).num_rows for query in SEARCHES[name]} == SEARCHES[name]
