"""Purge of a log with states and manifests, its limits and retries, and known failures of similar systems."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.clock import UNKNOWN_MS
from indextables.errors import StorageError, StorageRefused
from indextables.operations import verbs
from indextables.storage import Entry, generic
from indextables.table.context import TableContext
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.states import entry, write_manifest, write_state
from tests.support.tables import SCHEMA, tree, version_file, write_version

LOG = "_transaction_log"
ADD = {"size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {}}
PROTOCOL = '{"minReaderVersion":2,"minWriterVersion":2}'
AT_ONCE = {"purge.retentionCheckEnabled": "false"}


def age_all(table: Path, days: float) -> None:
    """Makes all files this old. The commits here have no timestamp, so that the times of the files count."""
    for file in table.rglob("*"):
        if file.is_file() and not file.is_symlink():
            then = file.stat().st_mtime_ns - int(days * 86_400 * 10**9)
            os.utime(file, ns=(then, then))


def split(table: Path, number: int, size: int = 1) -> str:
    path = f"splits/split-00000000-0000-4000-8000-{number:012d}.split"
    (table / "splits").mkdir(exist_ok=True)
    (table / path).write_bytes(b"x" * size)
    return path


def state(
    table: Path, version: int, manifests: dict[str, list[str]], *, written: Collection[str] | None = None, form: str = "avro"
) -> None:
    """Writes a state with these manifests. `written` limits which of the manifest files are written."""
    metadata = json.dumps({"metaData": {"id": "m", "schemaString": '{"type":"struct","fields":[]}', "partitionColumns": []}})
    for name, paths in manifests.items():
        if written is None or name in written:
            write_manifest(table / LOG, name, [entry(path) for path in paths])
    protocol: Any = PROTOCOL if form == "avro" else json.loads(PROTOCOL)
    counts = {name: len(paths) for name, paths in manifests.items()}
    write_state(table / LOG, version, counts, form=form, metadata=metadata, protocol=protocol)
    (table / LOG / "_last_checkpoint").write_text(json.dumps({"version": version, "size": 1}))


def name(number: int) -> str:
    return f"manifests/manifest-{number:016x}.avro"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Versions 1 to 6 add one split each, 4 removes the first one. There are states at 2, 4, 5 and 6; the last three share a manifest."""
    path = tmp_path / "t"
    it.create(path, SCHEMA, options={"checkpoint.enabled": "false"})
    splits = [split(path, number) for number in range(1, 7)]
    for number, added in enumerate(splits, start=1):
        gone = [{"remove": {"path": splits[0], "dataChange": True}}] if number == 4 else []
        write_version(path, number, {"add": {"path": added, **ADD}}, *gone)
    state(path, 2, {name(1): splits[:2]})
    state(path, 4, {name(2): splits[1:4]}, form="json")
    state(path, 5, {name(2): splits[1:4], name(3): splits[4:5]}, written=[name(3)])
    state(path, 6, {name(2): splits[1:4], name(3): splits[4:5], name(4): splits[5:]}, written=[name(4)])
    write_manifest(path / LOG, name(99), [])
    return path


def live(table: Path, version: int | None = None) -> set[int]:
    return {int(path[-18:-6]) for path in it.open(table, version).files().column("path").to_pylist()}


def test_old_states_and_their_manifests_are_deleted(table: Path) -> None:
    """GC-03, RET-08, and the kinds of files that a dry run reports."""
    age_all(table, 8)
    handle = it.open(table)
    dry = handle.purge(dry_run=True).to_dict()
    before = tree(table)
    expected = {
        f"{LOG}/state-v{2:020d}/_manifest.avro": "state",
        f"{LOG}/state-v{4:020d}/_manifest.json": "state",
        f"{LOG}/{name(1)}": "manifest",
        f"{LOG}/{name(99)}": "manifest",
        "splits/split-00000000-0000-4000-8000-000000000001.split": "split",
    }
    assert {step["path"]: step["kind"] for step in dry["plan"]} == expected
    assert all(step["bytes"] == len(before[step["path"]]) and step["reason"] for step in dry["plan"])
    assert tree(table) == before
    report = handle.purge()
    counts = {"files_deleted": 1, "versions_deleted": 0, "checkpoints_deleted": 0, "states_deleted": 2, "manifests_deleted": 2}
    assert report.metrics == counts | {"bytes_deleted": sum(len(before[path]) for path in expected)} == dry["metrics"]
    assert tree(table) == {path: data for path, data in before.items() if path not in expected}
    assert not (table / LOG / f"state-v{2:020d}").exists(), "the empty folder is deleted, too"
    assert [live(table, version) for version in (1, 3, 6)] == [{1}, {1, 2, 3}, {2, 3, 4, 5, 6}]
    assert handle.purge().status == "no_action"


def test_versions_and_states_expire_together(table: Path) -> None:
    age_all(table, 31)
    report = it.open(table).purge()
    assert (report.metrics["versions_deleted"], report.metrics["states_deleted"]) == (5, 2)
    assert live(table) == {2, 3, 4, 5, 6}
    with pytest.raises(it.VersionNotFound, match="expired"):
        it.open(table, 3)


def test_a_configured_minimum_of_versions_holds_in_purge_too(table: Path) -> None:
    """C-19: without it, only the retention of purge counts."""
    age_all(table, 31)
    report = it.open(table, options={"checkpoint.retention": "2"}).purge()
    assert report.metrics["versions_deleted"] == 3, "4 and 5 are kept, and 4 is their base"
    assert [live(table, version) for version in (4, 5, 6)] == [{2, 3, 4}, {2, 3, 4, 5}, {2, 3, 4, 5, 6}]


def test_the_retention_of_versions_is_an_option(table: Path) -> None:
    """RET-07, C-19."""
    age_all(table, 3)
    assert it.open(table).purge().metrics["versions_deleted"] == 0
    assert it.open(table, options={"purge.txLogRetentionHours": "48"}).purge("30d").metrics["versions_deleted"] == 5


def test_less_than_a_day_requires_disabling_the_check(table: Path) -> None:
    before = tree(table)
    with pytest.raises(it.InvalidArgument, match=r"older_than '23h' is less than 24h.*purge\.retentionCheckEnabled=false") as caught:
        it.open(table).purge("23h")
    assert caught.value.exit_code == 2
    assert tree(table) == before
    assert it.open(table, options=AT_ONCE).purge("0s").metrics["files_deleted"] == 1


def test_an_unreadable_state_keeps_all_manifests(table: Path) -> None:
    """C-49: its manifests are unknown."""
    age_all(table, 8)
    broken = table / LOG / f"state-v{5:020d}" / "_manifest.avro"
    then = broken.stat().st_mtime_ns
    broken.write_bytes(b"Obj\x01cut")
    before = tree(table)
    os.utime(broken, ns=(then + 2 * 86_400 * 10**9,) * 2)  # younger than a week, so it is retained
    report = it.open(table).purge()
    assert report.metrics["manifests_deleted"] == 0
    assert "state 5 cannot be read, so all manifests are kept" in report.warnings[0]
    assert {path for path in before if "manifest-" in path} <= set(tree(table))
    assert live(table) == {2, 3, 4, 5, 6}


def test_a_state_written_during_the_purge_keeps_all_manifests(table: Path) -> None:
    """It may reference a manifest that was unreferenced before."""
    age_all(table, 8)

    def delete_after_a_new_state(call: Call, perform: Perform) -> Any:
        if call.verb == "delete":
            folder = table / LOG / f"state-v{7:020d}"
            folder.mkdir(exist_ok=True)
            (folder / "_manifest.json").write_text("{}")
        return perform()

    with intercepting(table, delete_after_a_new_state):
        report = it.open(table).purge()
    assert (report.metrics["states_deleted"], report.metrics["manifests_deleted"]) == (2, 0)
    assert "written during this run" in report.warnings[0]
    assert (table / LOG / name(1)).exists()


def test_a_manifest_rewritten_during_the_purge_is_kept(table: Path) -> None:
    age_all(table, 8)

    def write_again(call: Call, perform: Perform) -> Any:
        if call.verb == "delete" and "/manifests/" not in call.path:
            (table / LOG / name(99)).touch()
        return perform()

    with intercepting(table, write_again):
        assert it.open(table).purge().metrics["manifests_deleted"] == 1
    assert (table / LOG / name(99)).exists()


def test_hadoop_checksum_files_are_deleted_with_their_file(table: Path) -> None:
    """Hadoop writes `.<name>.crc` beside a file; it is never deleted alone."""
    names = [f"{LOG}/.{1:020d}.json.crc", "splits/.split-00000000-0000-4000-8000-000000000001.split.crc"]
    kept = [f"{LOG}/.{6:020d}.json.crc", "splits/.split-00000000-0000-4000-8000-000000000002.split.crc", f"{LOG}/.{77:020d}.json.crc"]
    for path in [*names, *kept]:
        (table / path).write_bytes(b"crc!")
    age_all(table, 31)
    report = it.open(table).purge()
    assert (report.metrics["versions_deleted"], report.metrics["files_deleted"]) == (5, 1)
    assert [path for path in [*names, *kept] if (table / path).exists()] == kept


def test_with_a_limit_the_largest_files_are_deleted_first(table: Path) -> None:
    sizes = {number: number % 7 for number in range(20, 40)}
    for number, size in sizes.items():
        split(table, number, size)
    age_all(table, 8)
    handle = it.open(table, options={"purge.maxFilesToDelete": "5"})
    for left in (21, 16, 11, 6):
        report = handle.purge()
        assert report.metrics["files_deleted"] == 5
        assert report.warnings == [f"5 of {left} dead splits are deleted, largest first (purge.maxFilesToDelete); purge again"]
        there = [size for number, size in sizes.items() if (table / f"splits/split-00000000-0000-4000-8000-{number:012d}.split").exists()]
        assert len(there) + 1 - (left == 6) >= left - 5
        assert max(there, default=0) <= sorted(sizes.values())[len(there)] if len(there) < len(sizes) else True
    assert (handle.purge().metrics["files_deleted"], handle.purge().status) == (1, "no_action")
    assert live(table) == {2, 3, 4, 5, 6}


def test_a_failed_deletion_is_retried(table: Path) -> None:
    age_all(table, 8)
    tried, lock = dict[str, int](), threading.Lock()

    def busy(call: Call, perform: Perform) -> Any:
        path = call.path
        if call.verb != "delete":
            return perform()
        with lock:
            tried[path] = tried.get(path, 0) + 1
        if path.endswith("1.split") and tried[path] <= 3:
            raise StorageError(f"{path!r}: the store is busy")
        if path.endswith(name(99)):
            raise StorageRefused(f"{path!r}: not allowed")
        return perform()

    with intercepting(table, busy):
        report = it.open(table).purge()
    assert (report.status, report.metrics["files_deleted"], report.metrics["manifests_deleted"]) == ("partial", 1, 1)
    assert "not allowed" in report.warnings[0]
    assert sorted(tried.values()) == [1, 1, 1, 1, 4]
    assert it.open(table).purge().metrics["manifests_deleted"] == 1, "the next purge deletes the rest"


def test_splits_referenced_only_by_a_checkpoint_are_live(table: Path) -> None:
    """All version files are deleted. Every split in the state is kept, also by a second purge."""
    for number in range(1, 7):
        version_file(table, number).unlink()
    age_all(table, 100)
    for _ in range(2):
        report = it.open(table).purge(log_retention="0s")
        assert report.metrics["files_deleted"] == 0
        assert live(table) == {2, 3, 4, 5, 6}
    assert len(list((table / "splits").iterdir())) == 6, "split 1 is kept, since its removal may be recent"


def test_splits_in_a_retained_checkpoint_are_kept(table: Path) -> None:
    """Another program deleted versions 1 to 5: the removal of split 1 may be recent, and the retained state of version 2 contains it."""
    for number in (1, 2, 3, 4, 5):
        version_file(table, number).unlink()
    for version in (4, 5):
        (table / LOG / f"state-v{version:020d}" / ("_manifest.json" if version == 4 else "_manifest.avro")).unlink()
    age_all(table, 10)
    report = it.open(table).purge(log_retention="30d")
    assert report.metrics["files_deleted"] == 0
    assert live(table, 2) == {1, 2}
    orphan = split(table, 50)
    age_all(table, 10)
    assert it.open(table).purge(log_retention="30d").metrics["files_deleted"] == 1
    assert not (table / orphan).exists()
    (table / LOG / f"state-v{2:020d}" / "_manifest.avro").write_bytes(b"cut")
    split(table, 51)
    age_all(table, 9)
    report = it.open(table).purge(log_retention="30d")
    assert report.metrics["files_deleted"] == 0
    assert any("an old checkpoint cannot be read, so 2 splits that no version references are kept" in text for text in report.warnings)


def test_splits_added_by_a_retained_version_are_kept(table: Path) -> None:
    """Another program deleted version 4, which removed the split."""
    version_file(table, 4).unlink()
    age_all(table, 10)
    assert it.open(table).purge().metrics["files_deleted"] == 0
    assert live(table, 3) == {1, 2, 3}


def test_files_of_unknown_age_are_kept(table: Path) -> None:
    split(table, 77)
    age_all(table, 20)
    before = tree(table)

    def ageless(call: Call, perform: Perform) -> Any:
        if call.verb != "list":
            return perform()
        are_unknown = [(entry, entry.path.endswith(".split") or "manifest" in entry.path) for entry in perform()]
        return [Entry(entry.path, entry.size, UNKNOWN_MS) if is_unknown else entry for entry, is_unknown in are_unknown]

    with intercepting(table, ageless):
        report = it.open(table, options=AT_ONCE).purge("0s")
    assert (report.status, tree(table)) == ("no_action", before)
    assert report.warnings == ["the store does not report the age of 2 splits: they are kept"]


@pytest.mark.parametrize("info", [{"size": 3}, {"size": 3, "mtime": 0}, {"size": 3, "LastModified": "1970-01-01T00:00:00+00:00"}])
def test_a_prefix_of_an_object_store_has_no_age(info: dict[str, Any]) -> None:
    assert generic._entry("p", info) == Entry("p", 3, UNKNOWN_MS)
    assert generic._entry("p", info | {"created": 1.5}).modified_ms == 1500


@pytest.mark.parametrize("spelling", ["file:{0}", "file://{0}", "{0}"])
def test_other_spellings_of_the_table_path_make_no_orphans(table: Path, spelling: str) -> None:
    """Paths are compared relative to the table."""
    absolute = spelling.format(f"{table}/splits/split-00000000-0000-4000-8000-000000000002.split")
    write_version(table, 7, {"add": {"path": absolute, **ADD}})
    age_all(table, 100)
    report = TableContext.at(f"file://{table}")
    from indextables.operations.expire.purge_files import purge

    assert purge(verbs.Purge("1d", "30d"), report).metrics["files_deleted"] == 1
    assert live(table) == {2, 3, 4, 5, 6}
    assert {int(p.name[-18:-6]) for p in (table / "splits").iterdir()} == {2, 3, 4, 5, 6}


def test_a_path_outside_the_table_stops_purge(table: Path) -> None:
    write_version(table, 7, {"add": {"path": "hdfs://host/elsewhere/splits/x.split", **ADD}})
    age_all(table, 100)
    before = tree(table)
    with pytest.raises(it.UnsafePath):
        it.open(table, 6).purge()
    assert tree(table) == before


def test_the_base_of_a_retained_version_is_kept_at_any_age(table: Path) -> None:
    age_all(table, 900)
    write_version(table, 7, {"add": {"path": split(table, 7), **ADD}})
    for _ in range(2):
        it.open(table, options={"state.retention.hours": "0", "state.retention.versions": "1"}).purge(log_retention="30d")
    assert live(table) == live(table, 7) == {2, 3, 4, 5, 6, 7}
    assert sorted(p.name for p in (table / LOG).glob("state-v*")) == [f"state-v{6:020d}"]


def test_a_split_that_was_added_again_is_live(table: Path) -> None:
    write_version(table, 7, {"add": {"path": "splits/split-00000000-0000-4000-8000-000000000001.split", **ADD}})
    age_all(table, 100)
    report = it.open(table).purge(log_retention="0s")
    assert report.metrics["files_deleted"] == 0
    assert live(table) == {1, 2, 3, 4, 5, 6}
