"""Merge keeps all rows, groups splits as planned, and revalidates sources at commit."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import indextables as it
from indextables.actions import Add, Metadata
from indextables.actions.layers import EMPTY
from indextables.actions.live import LiveFiles
from indextables.api import open_table
from indextables.clock import Clock
from indextables.log.cache import Anchor
from indextables.operations import verbs
from indextables.operations.merge import run as merge_splits
from indextables.operations.merge.plan import MergeOptions, merge_options, plan_merge
from indextables.schema import to_spark_json
from indextables.table.context import TableContext
from indextables.table.protocol import CURRENT
from indextables.table.snapshot import LoadedSnapshot
from tests.support.logs import protocol
from tests.support.tables import ids, make, rows, tree, write_version

MIB = 1024 * 1024
QUERIES = ["refused", "connection AND disk", "user OR login", "host3 AND NOT failed", '"disk full"', "message:retry level:warn"]


def answers(table: it.Table) -> dict[str, list[int]]:
    return {query: sorted(table.search(query, limit=1000).column("id").to_pylist()) for query in QUERIES}


def snapshot_of(*files: tuple[str, int, int]) -> LoadedSnapshot:
    """A snapshot of splits, each given as (partition, size, time)."""
    adds = {
        f"{n}": Add(path=f"{n}", partition_values={"p": p} if p else {}, size=size, modification_time=at, data_change=True, num_records=1)
        for n, (p, size, at) in enumerate(files)
    }
    schema = to_spark_json(pa.schema([("p", pa.string()), ("v", pa.int64())]))
    metadata = Metadata(id="x", schema_string=schema, partition_columns=["p"])
    return LoadedSnapshot(1, CURRENT, metadata, EMPTY, {}, None, None, Anchor("", None, None), files=LiveFiles(recent=adds))


def grouped(snapshot: LoadedSnapshot, **options: int) -> list[list[str]]:
    return [list(group.paths) for group in plan_merge(snapshot, MergeOptions(**{"target_size": 100, **options})).groups]


def test_plans() -> None:
    assert grouped(snapshot_of(("a", 10, 1), ("b", 10, 2), ("a", 10, 3), ("", 10, 4), ("", 10, 5))) == [["0", "2"], ["3", "4"]]
    assert grouped(snapshot_of(("a", 40, 3), ("a", 40, 2), ("a", 40, 1))) == [["2", "1"]], (
        "the oldest splits are grouped first, up to the target size"
    )
    assert grouped(snapshot_of(("a", 45, 1), ("a", 44, 2), ("a", 44, 3))) == [["1", "2"]], "large splits are not merged"
    assert grouped(snapshot_of(*[("a", 1, n) for n in range(5)]), max_source_splits=2) == [["0", "1"], ["2", "3"]]
    many = snapshot_of(("a", 1, 1), ("a", 1, 2), ("b", 1, 3), ("b", 1, 4), ("b", 1, 5))
    assert grouped(many) == [["2", "3", "4"], ["0", "1"]], "groups with most sources come first"
    assert grouped(many, max_dest_splits=1) == [["2", "3", "4"]]
    assert grouped(snapshot_of(("a", 1, 1), ("b", 1, 1))) == []


def test_rows_and_answers_stay_the_same(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=6, each=25)
    before, found = table.scan().read_all().sort_by("id"), answers(table)
    dry = table.merge_splits(dry_run=True)
    assert [len(step["sources"]) for step in dry.to_dict()["plan"]] == [6, 6]
    assert table.version == 6
    report = table.merge_splits(target_size="10M")
    assert report.to_dict()["metrics"] | {"bytes_added": 0, "bytes_removed": 0} == {
        "groups": 2, "files_added": 2, "files_removed": 12, "bytes_added": 0, "bytes_removed": 0, "rows": 150, "files_skipped": 0,
        "commits": 1,
    }  # fmt: skip
    assert (report.version, table.version) == (7, 7)
    assert table.scan().read_all().sort_by("id").equals(before)
    assert answers(table) == found
    assert table.files().column("num_merge_ops").to_pylist() == [1, 1]
    assert table.files("id > 1000").num_rows == 0, "statistics are kept"
    assert table.merge_splits().status == "no_action"
    assert it.open(tmp_path / "t", 6).scan().read_all().sort_by("id").equals(before)
    table.append(rows(150, 25))
    table.merge_splits()
    assert sorted(table.files().column("num_merge_ops").to_pylist()) == [2, 2]
    assert ids(table) == list(range(175))


def test_where_selects_partitions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=2)
    table.merge_splits(where="date = '2024-01-01'")
    assert table.files("date = '2024-01-01'").num_rows == 1
    assert table.files("date = '2024-01-02'").num_rows == 2


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"target_size": "lots"}, it.InvalidArgument, "lots"),
        ({"target_size": "10K"}, it.InvalidArgument, "10K"),
        ({"where": "level = 'x'"}, it.InvalidPredicate, "level"),
        ({"where": "date ="}, it.InvalidPredicate, "."),
        ({"max_dest_splits": 0}, it.InvalidArgument, "0"),
        ({"max_dest_splits": "2"}, it.InvalidArgument, "'2'"),
        ({"max_source_splits": 1}, it.InvalidArgument, "1"),
        ({"max_source_splits": 2.5}, it.InvalidArgument, "2.5"),
    ],
)
def test_invalid_arguments_change_nothing(tmp_path: Path, arguments: dict[str, object], error: type[Exception], named: str) -> None:
    table = make(tmp_path / "t", appends=2)
    before = tree(tmp_path)
    with pytest.raises(error, match=named):
        table.merge_splits(**arguments)
    assert tree(tmp_path) == before


def test_concurrent_merges_do_not_duplicate_rows(tmp_path: Path) -> None:
    """600 rows stay 600; in upstream they become 1,200."""
    make(tmp_path / "t", appends=6, each=100)
    context = TableContext.at(tmp_path / "t")
    base = context.snapshot()
    planned = plan_merge(context.load(base), merge_options(verbs.MergeSplits(), context.config, base))
    report, _ = merge_splits.run_merge(context, planned)
    with pytest.raises(it.ConcurrentConflict, match="removed; nothing was committed"):
        merge_splits.run_merge(context, planned)
    table = it.open(tmp_path / "t")
    assert table.version == report.version
    assert ids(table) == list(range(600))


def test_an_overwrite_during_a_merge_wins(tmp_path: Path) -> None:
    """The old rows do not come back, as they do in upstream."""
    table = make(tmp_path / "t", appends=4)
    context = TableContext.at(tmp_path / "t")
    base = context.snapshot()
    planned = plan_merge(context.load(base), merge_options(verbs.MergeSplits(), context.config, base))
    table.overwrite(rows(1000, 7))
    with pytest.raises(it.ConcurrentConflict):
        merge_splits.run_merge(context, planned)
    assert ids(it.open(tmp_path / "t")) == list(range(1000, 1007))


def test_an_append_during_a_merge_is_kept(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=4)
    context = TableContext.at(tmp_path / "t")
    base = context.snapshot()
    planned = plan_merge(context.load(base), merge_options(verbs.MergeSplits(), context.config, base))
    table.append(rows(40, 10))
    report, _ = merge_splits.run_merge(context, planned)
    assert report.version == 6
    assert ids(it.open(tmp_path / "t")) == list(range(50))


def test_a_group_that_lost_its_sources_is_dropped(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=4)
    context = TableContext.at(tmp_path / "t")
    base = context.snapshot()
    planned = plan_merge(context.load(base), merge_options(verbs.MergeSplits(), context.config, base))
    table.overwrite([], where="date = '2024-01-01'")
    report, _ = merge_splits.run_merge(context, planned)
    assert (report.status, report.metrics["groups"]) == ("partial", 1)
    assert "removed" in report.warnings[0]
    assert ids(it.open(tmp_path / "t")) == [i for i in range(40) if i % 2]


def damaged(table: it.Table, where: str) -> Path:
    """Flips a bit in a split of the table. Returns its path."""
    bad = Path(table.path, table.files(where).column("path")[0].as_py())
    data = bytearray(bad.read_bytes())
    data[100] ^= 1
    bad.write_bytes(bytes(data))
    return bad


def test_a_damaged_source_is_skipped_and_the_rest_is_merged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SKP-01, SKP-05, SKP-06, SKP-07, SKP-08."""
    caplog.set_level("INFO", "indextables")
    table = make(tmp_path / "t", appends=3)
    bad = damaged(table, "date = '2024-01-01'")
    path = str(bad.relative_to(tmp_path / "t"))
    report = table.merge_splits()
    assert (report.status, report.metrics["groups"], report.metrics["files_skipped"]) == ("partial", 2, 1)
    assert bad.name in report.warnings[0]
    assert set(table.files("date = '2024-01-01'").column("num_merge_ops").to_pylist()) == {0, 1}
    assert table.files("date = '2024-01-02'").num_rows == 1
    (skip,) = [line["mergeskip"] for line in table.log.actions(report.version or 0) if "mergeskip" in line]
    assert skip["path"] == path
    assert (skip["skipCount"], skip["operation"]) == (1, "merge_splits")
    assert skip["retryAfter"] == skip["skipTimestamp"] + 24 * 3_600_000
    assert f"Recorded skipped file: {path} (skip count: 1, retry after: 2" in caplog.text
    assert table.log.files_in_cooldown() == {path: skip["retryAfter"]}
    assert table.log.is_in_cooldown(path)
    table.append(rows(100, 10))
    caplog.clear()
    assert table.merge_splits().status == "success", "splits in cooldown are not read"
    assert caplog.text.count("Filtered out 1 files currently in cooldown period") == 1
    assert path in table.files().column("path").to_pylist(), "a skipped split stays in the table"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_is_refused_where_the_merge_is(tmp_path: Path, dry_run: bool) -> None:
    """A table of another program, one with an invalid option, and one with a gap in its log."""
    foreign = make(tmp_path / "foreign", appends=3, partition_by=[])
    write_version(tmp_path / "foreign", 4, protocol(3, 3))
    invalid = make(tmp_path / "invalid", appends=3, partition_by=[])
    metadata = invalid.log.actions(0)[1]["metaData"]
    configuration = {"spark.indextables.purge.txLogRetentionHours": "long"}
    write_version(tmp_path / "invalid", 4, {"metaData": {**metadata, "configuration": configuration}})
    gap = make(tmp_path / "gap", appends=3, partition_by=[])
    (tmp_path / "gap" / "_transaction_log" / f"{2:020d}.json").unlink()
    for table, error in ((foreign, it.ProtocolUnsupported), (invalid, it.ConfigError), (gap, it.VersionGap)):
        with pytest.raises(error):
            it.open(table.path).merge_splits(dry_run=dry_run)
    taken = it.open(foreign.path, options={"storage.takeOver": True})
    assert taken.merge_splits(dry_run=dry_run).status == "success"


def test_only_a_merge_logs_which_splits_are_in_cooldown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A plan is pure: doctor and dry runs plan a merge too, and a merge plans several times."""
    caplog.set_level("INFO", "indextables")
    table = make(tmp_path / "t", appends=6, partition_by=[])
    path = table.files().column("path")[0].as_py()
    table.log.record_skipped_file(path, "unreadable", "verify", cooldown_hours=1)
    table = table.refresh()
    table.doctor()
    assert table.merge_splits(dry_run=True).status == "success"
    assert "Filtered out" not in caplog.text
    report = table.merge_splits(max_source_splits=2)
    assert report.metrics["groups"] == 4, "several passes"
    assert caplog.text.count("Filtered out 1 files currently in cooldown period") == 1


def test_splits_whose_number_of_rows_is_not_in_the_log_are_merged(tmp_path: Path) -> None:
    """`numRecords` is optional in the log."""
    table = make(tmp_path / "t", appends=3, each=5, partition_by=[])
    first, *_ = (action["add"] for action in table.log.actions(1) if "add" in action)
    del first["numRecords"]
    table.log.commit([{"remove": {"path": first["path"]}}])
    table.log.commit([{"add": first}])
    expected = ids(table)
    assert table.merge_splits("100M").status == "success"
    assert (ids(it.open(tmp_path / "t")), it.open(tmp_path / "t").files().column("num_records").to_pylist()) == (expected, [15])


def test_a_group_of_damaged_sources_is_skipped(tmp_path: Path) -> None:
    """After the cooldown it is retried and its count increases. A checkpoint keeps unexpired skips."""
    table = make(tmp_path / "t", appends=2, partition_by=[])
    bad = damaged(table, "id < 10")
    now = [1_800_000_000_000]
    table = open_table(tmp_path / "t", clock=Clock(now_ms=lambda: now[0]))
    report = table.merge_splits()
    assert (report.status, report.version, report.metrics["files_skipped"]) == ("partial", 3, 1)
    assert table.merge_splits().status == "no_action"
    table.checkpoint()
    (tmp_path / "t" / "_transaction_log" / f"{3:020d}.json").unlink()
    fresh = open_table(tmp_path / "t", clock=Clock(now_ms=lambda: now[0]))
    assert list(fresh.log.files_in_cooldown()) == [f"splits/{bad.name}"]
    now[0] += 24 * 3_600_000
    assert fresh.log.files_in_cooldown() == {}, "strictly later than now"
    report = fresh.merge_splits()
    assert report.status == "partial"
    (skip,) = [line["mergeskip"] for line in fresh.log.actions(report.version or 0) if "mergeskip" in line]
    assert skip["skipCount"] == 2


def test_a_missing_source_that_is_no_longer_live_is_not_skipped(tmp_path: Path) -> None:
    table = make(tmp_path / "t", appends=2, partition_by=[])
    context = TableContext.at(tmp_path / "t")
    planned = plan_merge(context.load(context.snapshot()), merge_options(verbs.MergeSplits(), context.config, context.snapshot()))
    gone = [tmp_path / "t" / path for path in table.files().column("path").to_pylist()]
    table.overwrite(rows(0, 5))
    for split in gone:
        split.unlink()
    report, _ = merge_splits.run_merge(context, planned)
    assert (report.status, report.version, report.warnings) == ("no_action", None, [])


def test_skips_can_be_recorded_explicitly(tmp_path: Path) -> None:
    """SKP-01, SKP-02: each skip increases the count; removing the file resets it (C-35)."""
    table = make(tmp_path / "t", appends=2, partition_by=[])
    path = table.files().column("path")[0].as_py()
    assert table.log.record_skipped_file(path, "unreadable", "verify", cooldown_hours=1) == 3
    assert table.log.record_skipped_file(path, "unreadable", "verify", cooldown_hours=0.5) == 4
    first, second = (table.log.actions(v)[-1]["mergeskip"] for v in (3, 4))
    assert (first["skipCount"], second["skipCount"]) == (1, 2)
    assert table.log.files_in_cooldown() == {path: first["retryAfter"]}, "the latest end of all cooldowns counts"
    for bad in ("splits/none.split", "", 3):
        with pytest.raises(it.IndexTablesError):
            table.log.record_skipped_file(bad, "x")  # type: ignore[arg-type]
    with pytest.raises(it.IndexTablesError, match="cooldown_hours -1"):
        table.log.record_skipped_file(path, "x", cooldown_hours=-1)
    table.overwrite(rows(0, 5))
    assert table.version == 5
    assert table.log.files_in_cooldown() == {}


def test_a_skip_upgrades_an_old_table_to_protocol_2(tmp_path: Path) -> None:
    """SKP-09."""
    table = make(tmp_path / "t", appends=1, partition_by=[])
    zero = tmp_path / "t" / "_transaction_log" / f"{0:020d}.json"
    protocol, *rest = gzip.decompress(zero.read_bytes()).splitlines(keepends=True)
    assert b"minReaderVersion" in protocol
    zero.write_bytes(b'{"protocol":{"minReaderVersion":1,"minWriterVersion":1}}\n' + b"".join(rest))
    table = it.open(tmp_path / "t")
    assert table.protocol.min_reader_version == 1
    table.log.record_skipped_file(table.files().column("path")[0].as_py(), "unreadable")
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (2, 2)


def test_a_merge_killed_halfway_can_be_repeated(tmp_path: Path) -> None:
    """SIGKILL after increasing times: the table is either unchanged or merged, and the next merge succeeds."""
    make(tmp_path / "t", appends=8, each=40, partition_by=[])
    before = it.open(tmp_path / "t").scan().read_all().sort_by("id")
    command = [sys.executable, "-m", "indextables", "merge-splits", str(tmp_path / "t")]
    killed = 0
    for delay in (0.4, 0.8, 1.2, 1.6, 2.0, 2.5, 3.0):
        child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            killed += 1
        child.wait()
        table = it.open(tmp_path / "t")
        assert table.scan().read_all().sort_by("id").equals(before)
        if table.version == 9:
            break
    assert killed >= 1
    table = it.open(tmp_path / "t")
    report = table.merge_splits()
    assert report.status == ("no_action" if table.version == 9 and report.version is None else "success")
    assert table.files().num_rows == 1
    assert table.scan().read_all().sort_by("id").equals(before)
    assert answers(table) == answers(it.open(tmp_path / "t", 8))
    # Files of killed attempts are not part of the table; purge finds them when they are old.
    live = set(table.files().column("path").to_pylist())
    for split in (tmp_path / "t" / "splits").iterdir():
        if f"splits/{split.name}" not in live:
            os.utime(split, (1000, 1000))
    it.open(tmp_path / "t", options={"purge.retentionCheckEnabled": "false"}).purge(older_than="0s")
    assert {f"splits/{p.name}" for p in (tmp_path / "t" / "splits").iterdir()} == live
