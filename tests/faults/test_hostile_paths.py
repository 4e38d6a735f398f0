"""R13 for the log: paths that point outside of the table, in every field that holds a path, for every verb.

All are refused and nothing outside is touched: all files that Python opens, lists, moves or deletes there are recorded.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from tests.support.logs import add, lines, log_folder, metadata, protocol, remove, skip
from tests.support.states import entry, write_manifest, write_state
from tests.support.tables import make, rows, tree, write_version

OUTSIDE = "outside"  # a folder next to the table; nothing in it may be opened, listed, linked, moved or deleted
NEXT = 3  # the next version of the template table


def hostile_paths(table: Path) -> list[str]:
    beside = table.parent
    return [
        "../outside/x.split",
        "a/../../outside/x.split",
        "a/b/../../../outside/x.split",
        "..",
        ".",
        "",
        "/",
        "a//b.split",
        "./x.split",
        "a/./x.split",
        "a/",
        "/etc/passwd",
        f"{beside}/outside/x.split",
        f"{table}-other/x.split",
        f"{table}/../outside/x.split",
        f"file:{beside}/outside/x.split",
        f"file://{beside}/outside/x.split",
        f"FILE://{beside}/outside/x.split",
        "file:///etc/passwd",
        "s3://other-bucket/x.split",
        "s3a://other-bucket/x.split",
        "hdfs://host/x.split",
        "http://host/x.split",
        "%2e%2e/outside/x.split",
        "%2E%2E%2Foutside%2Fx.split",
        "%252e%252e/outside/x.split",
        "a/%2e%2e/%2e%2e/outside/x.split",
        "..%2foutside/x.split",
        "%2e%2e%2f%2e%2e%2foutside%2fx.split",
        "a/..%2f..%2foutside/x.split",
        "..\\outside\\x.split",
        "a\x00b.split",
        "a\nb.split",
        "a\x7fb.split",
        "x" * 5000,
        "a/" * 3000 + "x.split",
    ]


Plant = Callable[[Path, str], Any]


def _version(*actions: Callable[[str], dict[str, Any]]) -> Plant:
    return lambda table, path: write_version(table, NEXT, *(action(path) for action in actions))


def _checkpoint(body: Callable[[str], bytes]) -> Plant:
    def plant(table: Path, path: str) -> None:
        (log_folder(table) / f"{NEXT:020d}.checkpoint.json").write_bytes(body(path))

    return plant


def _object(path: str, **more: Any) -> bytes:
    return json.dumps({**protocol(), **metadata(), "add": [add(path)["add"]], **more}).encode()


def _state(manifest: str | None = None, path: str | None = None, tombstone: str | None = None, form: str = "avro") -> Plant:
    def plant(table: Path, hostile: str) -> None:
        name = "manifests/m.avro"
        write_manifest(log_folder(table), name, [entry(hostile if path else "fine.split"), entry("other.split")])
        sizes = {hostile: 2} if manifest else {name: 2}
        write_state(log_folder(table), NEXT, sizes, form=form, tombstones=[hostile] if tombstone else [])

    return plant


FIELDS: dict[str, Plant] = {
    "add": _version(add),
    "remove": _version(remove),
    "mergeskip": _version(skip),
    "add, after a good one": _version(lambda _: add("fine.split"), add),
    "checkpoint's add, object": _checkpoint(_object),
    "checkpoint's add, lines": _checkpoint(lambda path: lines(protocol(), metadata(), add(path))),
    "checkpoint's mergeskip": _checkpoint(lambda path: _object("fine.split", mergeskip=[skip(path)["mergeskip"]])),
    "checkpoint's parts": _checkpoint(lambda path: json.dumps({"parts": [path]}).encode()),
    "state's manifest, Avro": _state(manifest="x"),
    "state's manifest, JSON": _state(manifest="x", form="json"),
    "state's entry": _state(path="x"),
    "state's tombstone": _state(tombstone="x"),
}
VERBS: dict[str, Callable[[it.Table], Any]] = {
    "open": lambda table: it.open(table.path),
    "refresh": lambda table: table.refresh(),
    "append": lambda table: table.append(rows(100, 1)),
    "merge_splits": lambda table: table.merge_splits(),
    "checkpoint": lambda table: table.checkpoint(),
    "purge": lambda table: table.purge(older_than="1d", log_retention="0s"),
    "purge, dry run": lambda table: table.purge(dry_run=True),
}

_TOUCHING = ("open", "remove", "unlink", "rename", "replace", "link", "symlink", "scandir", "listdir", "mkdir", "rmdir", "truncate")

_touched: list[str] = []


def _watch(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Records every path in `folder` that Python opens, lists, moves or deletes from now on.

    An audit hook cannot be removed again, and in Python 3.11 it makes two starting threads collide in `sys.settrace`.
    """

    def recording(call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any, **options: Any) -> Any:
            paths = [os.path.realpath(a) for a in (*arguments, *options.values()) if isinstance(a, str | os.PathLike)]
            _touched.extend(path for path in paths if Path(path).is_relative_to(folder))
            return call(*arguments, **options)

        return recorded

    for module, name in [(builtins, "open"), (io, "open"), *((os, name) for name in _TOUCHING)]:
        monkeypatch.setattr(module, name, recording(getattr(module, name)))
    _touched.clear()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "t"
    make(path, appends=2, each=4, **{"purge.retentionCheckEnabled": "false"})
    return path


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / OUTSIDE).mkdir()
    (tmp_path / OUTSIDE / "x.split").write_text("precious")
    shutil.copytree(template, tmp_path / "t")
    _watch(monkeypatch, tmp_path / OUTSIDE)
    return tmp_path / "t"


def test_access_outside_the_table_is_recorded(place: Path) -> None:
    """Otherwise the other tests could not fail."""
    outside = place.parent / OUTSIDE
    for access in (
        (outside / "x.split").read_bytes,
        lambda: open(place / ".." / OUTSIDE / "x.split").close(),
        lambda: os.listdir(outside),
        lambda: os.link(outside / "x.split", place / "x.split"),
        lambda: (outside / "x.split").rename(outside / "y.split"),
        (outside / "y.split").unlink,
    ):
        _touched.clear()
        access()
        assert _touched != []


@pytest.mark.parametrize("field", FIELDS)
def test_every_verb_refuses_a_hostile_path_in(field: str, place: Path, template: Path) -> None:
    cases = 0
    for path in hostile_paths(place):
        shutil.rmtree(place)
        shutil.copytree(template, place)
        handles = {verb: it.open(place) for verb in VERBS}
        FIELDS[field](place, path)
        before = tree(place.parent)
        _touched.clear()  # discard what the test itself touched
        for verb, run in VERBS.items():
            with pytest.raises(it.UnsafePath, match="path"):
                run(handles[verb])
            cases += 1
        assert _touched == [], path
        assert tree(place.parent) == before, path
    assert cases == len(hostile_paths(place)) * len(VERBS) >= 30


def test_there_are_enough_cases(tmp_path: Path) -> None:
    assert len(FIELDS) * len(hostile_paths(tmp_path)) * len(VERBS) >= 300


@pytest.mark.parametrize("number", range(36))
def test_the_state_folder_named_by_the_pointer_is_ignored(place: Path, number: int) -> None:
    path = hostile_paths(place)[number]
    (log_folder(place) / "_last_checkpoint").write_text(json.dumps({"version": 1, "format": "avro-state", "stateDir": path}))
    _touched.clear()
    table = it.open(place)
    assert (table.count(), table.warnings, _touched) == (8, [], [])


@pytest.mark.parametrize("verb", ["scan", "merge_splits", "purge"])
def test_a_link_out_of_the_table_is_not_followed(place: Path, verb: str) -> None:
    (place / "link").symlink_to(place.parent / OUTSIDE)
    write_version(
        place,
        NEXT,
        add("link/x.split", partitionValues={"date": "2024-01-01"}),
        add("link/y.split", partitionValues={"date": "2024-01-01"}),
    )
    table = it.open(place)
    _touched.clear()
    if verb == "purge":
        table.purge(older_than="1d", log_retention="0s")
    else:
        with pytest.raises(it.UnsafePath, match="symbolic link"):
            table.scan().read_all() if verb == "scan" else table.merge_splits()
    assert _touched == []
    assert (place.parent / OUTSIDE / "x.split").read_text() == "precious"


@pytest.mark.parametrize("action", [add, remove, skip])
def test_log_commit_refuses_hostile_paths(place: Path, action: Callable[[str], dict[str, Any]]) -> None:
    table = it.open(place)
    before = tree(place)
    for path in hostile_paths(place):
        with pytest.raises(it.UnsafePath):
            table.log.commit([action(path)])
    assert tree(place) == before
