"""Ctrl-C: the error says whether a version was committed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables import interrupts
from indextables.cli.main import INTERRUPTED, main
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.tables import ids, make, rows, tree


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Installs Python's handler: tests with Spark may have run in this process, whose driver installs its own."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_at(table: Path, *, before: bool, at: Callable[[Call], bool] = lambda call: call.commits) -> AbstractContextManager[None]:
    """Sends SIGINT right before or after the store calls that `at` selects: commits by default."""

    def interrupted(call: Call, perform: Perform) -> Any:
        if before and at(call):
            interrupt()
        result = perform()
        if not before and at(call):
            interrupt()
        return result

    return intercepting(table, interrupted)


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_during_the_commit_is_raised_after_it(tmp_path: Path, before: bool) -> None:
    table = make(tmp_path / "t", 1)
    with (
        interrupt_at(tmp_path / "t", before=before),
        pytest.raises(interrupts.InterruptedAfterCommit, match="version 2 was committed") as caught,
    ):
        it.open(tmp_path / "t").append(rows(10, 10))
    assert caught.value.version == 2
    assert not getattr(caught.value, "__notes__", [])  # no note about splits left behind
    assert ids(it.open(table.path)) == list(range(20))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_during_create_reports_the_commit(tmp_path: Path) -> None:
    with interrupt_at(tmp_path / "t", before=False), pytest.raises(interrupts.InterruptedAfterCommit, match="version 0 was committed"):
        make(tmp_path / "t")
    assert it.open(tmp_path / "t").version == 0


def test_an_interrupt_after_the_commit_reports_it(tmp_path: Path) -> None:
    make(tmp_path / "t", **{"checkpoint.interval": "1"})

    def writes_a_checkpoint(call: Call) -> bool:
        return call.changes and not call.commits and call.path.startswith("_transaction_log/")

    with (
        interrupt_at(tmp_path / "t", before=True, at=writes_a_checkpoint),
        pytest.raises(interrupts.InterruptedAfterCommit, match="version 1 was committed"),
    ):
        it.open(tmp_path / "t").append(rows(0, 10))


def test_the_terminal_reports_the_committed_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, data = make(tmp_path / "t"), tmp_path / "rows.jsonl"
    data.write_text('{"id": 1, "date": "2024-01-01"}\n')
    with interrupt_at(tmp_path / "t", before=False):
        assert main(["append", table.path, str(data)]) == INTERRUPTED
    assert capsys.readouterr().err == "error: interrupted; version 1 was committed\n"


def test_an_interrupt_that_a_library_suppresses_is_raised_before_the_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, data = make(tmp_path / "t"), tmp_path / "rows.jsonl"
    data.write_text('{"id": 1, "date": "2024-01-01"}\n')
    before = tree(tmp_path / "t" / "_transaction_log")

    def suppress_interrupt(call: Call, perform: Perform) -> Any:
        if call.verb == "upload":
            with contextlib.suppress(KeyboardInterrupt):
                interrupt()
        return perform()

    with intercepting(tmp_path / "t", suppress_interrupt):
        assert main(["append", table.path, str(data)]) == INTERRUPTED
    assert capsys.readouterr().err.endswith("error: interrupted\n")
    assert tree(tmp_path / "t" / "_transaction_log") == before


def test_an_existing_signal_handler_is_called_after_the_commit(tmp_path: Path) -> None:
    """Such as that of Spark's driver, which cancels its jobs and raises."""
    received: list[int] = []

    def other_handler(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, other_handler)
    make(tmp_path / "t")
    with interrupt_at(tmp_path / "t", before=True), pytest.raises(interrupts.InterruptedAfterCommit, match="version 1 was committed"):
        it.open(tmp_path / "t").append(rows(0, 10))
    assert received == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is other_handler


def test_a_failure_takes_precedence_over_an_interrupt() -> None:
    def failing() -> None:
        with interrupts.defer_interrupts():
            interrupt()
            raise it.CommitUnknown("version 1 may have been written")

    with interrupts.record_interrupts():
        with pytest.raises(it.CommitUnknown):
            failing()
        with pytest.raises(KeyboardInterrupt):
            failing()  # the interrupt is raised before the next commit
