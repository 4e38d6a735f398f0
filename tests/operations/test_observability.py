"""Log lines, structured log fields and metrics of checkpoints, clean-up and loading (OBS-01 to OBS-08)."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import indextables as it
from indextables import logs
from indextables.state.checkpoints.contents import Format
from indextables.table.metrics import Metrics, metrics_of
from tests.support.avro_tables import commit, file, start
from tests.support.checkpoints import EVERY_FORMAT
from tests.support.tables import make, rows, version_file


@pytest.fixture
def table(tmp_path: Path) -> it.Table:
    off = {"checkpoint.enabled": "false", "checkpoint.retention": "0", "logRetention.duration": "0"}
    return make(tmp_path / "t", appends=3, **off, **{"state.format": "json"})


def test_log_lines_have_the_specified_text(table: it.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """OBS-05."""
    for number in range(4):
        os.utime(version_file(tmp_path / "t", number), (10**9, 10**9))
    with caplog.at_level(logging.DEBUG, "indextables"):
        table.checkpoint()
        it.open(tmp_path / "t", options={"transaction.cache.enabled": "false"})
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [line for line in lines if "Deleted" in line[1]] == [("DEBUG", f"Deleted old transaction file: {v}") for v in (1, 2)]
    assert ("INFO", "Cleaned up 2 transaction files before version 3") in lines
    created = [line for line in lines if re.fullmatch(r"Created checkpoint at version 3: 8 entries, [0-9]+\.[0-9]{2}MB", line[1])]
    loaded = [line for line in lines if re.fullmatch(r"Table state loaded from checkpoint in [0-9]+ms", line[1])]
    assert [level for level, _ in created] == ["INFO"]
    assert {level for level, _ in loaded} == {"DEBUG"}


def test_reports_and_tables_have_the_metrics(table: it.Table, tmp_path: Path) -> None:
    """OBS-01 to OBS-04, OBS-06, OBS-08."""
    before = table.metrics()
    for number in range(4):
        os.utime(version_file(tmp_path / "t", number), (10**9, 10**9))
    report = table.checkpoint()
    assert report.metrics["size_bytes"] == (tmp_path / "t" / "_transaction_log" / f"{3:020d}.checkpoint.json").stat().st_size
    assert 0 < report.metrics["compression_percent"] < 100
    assert report.metrics["duration_ms"] >= 0
    assert all(isinstance(number, int) for number in report.metrics.values())
    it.open(tmp_path / "t", options={"transaction.cache.enabled": "false"})
    after = table.metrics()
    grown = {name: after[name] - before[name] for name in ("checkpoints_created", "log_files_cleaned_up")}  # type: ignore[operator]
    assert grown == {"checkpoints_created": 1, "log_files_cleaned_up": 2}
    assert after["last_checkpoint_bytes"] == report.metrics["size_bytes"]
    assert after["last_checkpoint_compression_percent"] == report.metrics["compression_percent"]
    assert after["loads_from_checkpoint"] > before["loads_from_checkpoint"]  # type: ignore[operator]
    assert after["loads_from_log"] > 0  # type: ignore[operator]
    assert (before["versions"], before["last_checkpoint"], before["versions_since_checkpoint"]) == (4, None, 4)
    assert (after["versions"], after["last_checkpoint"], after["versions_since_checkpoint"]) == (2, 3, 0)
    assert {name for name in after if name.endswith("HitRate")} == {
        f"{kind}HitRate" for kind in ("protocol", "metadata", "version", "files", "versionsList")
    }
    assert table.describe()["metrics"].keys() == after.keys()


def test_health_counts_the_versions_since_the_last_checkpoint_as_the_metrics_do(tmp_path: Path) -> None:
    """Version 0 is one of them: a reader replays it too."""
    table = make(tmp_path / "t", appends=3)
    assert (table.health()["versions_since_checkpoint"], table.metrics()["versions_since_checkpoint"]) == (4, 4)
    table.checkpoint()
    assert (table.health()["versions_since_checkpoint"], table.metrics()["versions_since_checkpoint"]) == (0, 0)
    table.append(rows(100, 1))
    assert (table.health()["versions_since_checkpoint"], table.metrics()["versions_since_checkpoint"]) == (1, 1)


@pytest.mark.parametrize("kind", EVERY_FORMAT)
def test_every_format_reports_its_compression_ratio(tmp_path: Path, kind: Format) -> None:
    """OBS-02: for hundreds of similar files."""
    here = start(tmp_path / "t")
    commit(here, *(file(f"a-path-of-some-length/f{number:05d}", number % 7) for number in range(500)))
    options = {**EVERY_FORMAT[kind], "state.entriesPerManifest": 200}
    assert 0 < it.open(here, options=options).checkpoint().metrics["compression_percent"] < 60


def test_without_compression_the_ratio_is_one(tmp_path: Path) -> None:
    here = start(tmp_path / "t", **{"state.compression": "none"})
    commit(here, *(file(f"f{number}") for number in range(500)))
    assert it.open(here).checkpoint().metrics["compression_percent"] == 100


def test_metrics_are_cumulative_for_each_table() -> None:
    numbers = metrics_of("one")
    assert numbers is metrics_of("one")
    assert numbers is not metrics_of("two")
    fresh = Metrics()
    for ms in (5, 7):
        fresh.checkpoint_created(ms, 100 * ms, ms)
        fresh.state_loaded(ms, from_checkpoint=True)
        fresh.state_loaded(2 * ms, from_checkpoint=False)
        fresh.cleaned_up(ms)
    assert fresh.to_dict() == {
        "checkpoints_created": 2, "checkpoint_ms": 12, "last_checkpoint_ms": 7, "last_checkpoint_bytes": 700,
        "last_checkpoint_compression_percent": 7, "loads_from_checkpoint": 2, "load_from_checkpoint_ms": 12, "loads_from_log": 2,
        "load_from_log_ms": 24, "log_files_cleaned_up": 12,
    }  # fmt: skip


@contextmanager
def configured(*, verbose: bool) -> Iterator[io.StringIO]:
    """Logging as the command line configures it, without the handlers of pytest."""
    root, stream = logging.getLogger(), io.StringIO()
    kept, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        logs.configure(stream, verbose=verbose)
        yield stream
    finally:
        root.handlers[:] = kept
        root.setLevel(level)


def test_json_log_lines_are_objects_with_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(logs.FORMAT, "json")
    logger = logging.getLogger("indextables")
    with configured(verbose=True) as stream:
        logger.info("Cleaned up %s files", 3, extra={"event": "cleaned_up", "files": 3, "place": Path("x")})
        try:
            raise ValueError("bad")
        except ValueError:
            logger.exception("failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert re.fullmatch(r"20[0-9-]{8}T[0-9:.]{12}Z", first.pop("time"))
    assert first == {
        "level": "info", "logger": "indextables", "message": "Cleaned up 3 files", "event": "cleaned_up", "files": 3, "place": "x",
    }  # fmt: skip
    assert (second["level"], second["message"], second["error"].splitlines()[-1]) == ("error", "failed", "ValueError: bad")


def test_plain_log_lines_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(logs.FORMAT, raising=False)
    with configured(verbose=False) as stream:
        logging.getLogger("indextables").info("not shown")
        logging.getLogger("indextables").warning("shown", extra={"event": "x"})
    assert stream.getvalue() == "WARNING: shown\n"


def test_the_trace_of_an_interrupt_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j logs it; the programs print one line instead."""
    monkeypatch.delenv(logs.FORMAT, raising=False)
    with configured(verbose=False) as stream:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")
        logging.getLogger("indextables").warning("kept", exc_info=False)
    assert stream.getvalue() == "WARNING: kept\n"


def test_the_terminal_can_log_json(tmp_path: Path) -> None:
    make(tmp_path / "t").append(rows(0, 3))
    command = [sys.executable, "-m", "indextables", "checkpoint", str(tmp_path / "t"), "--json", "--verbose"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, logs.FORMAT: "json"}, timeout=120, check=True)
    assert json.loads(done.stdout)["metrics"]["num_files"] == 2
    (line,) = [line for line in map(json.loads, done.stderr.splitlines()) if line.get("event") == "checkpoint_created"]
    assert (line["version"], line["size_bytes"]) == (1, json.loads(done.stdout)["metrics"]["size_bytes"])
