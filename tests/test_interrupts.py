"""Ctrl-C: whoever is interrupted hears whether a version was committed, and nothing else is claimed."""

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
    """Python's own: tests with Spark may have run in this process, and its driver has another."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def strike() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def striking(table: Path, *, before: bool, at: Callable[[Call], bool] = lambda call: call.commits) -> AbstractContextManager[None]:
    def struck(call: Call, perform: Perform) -> Any:
        if before and at(call):
            strike()
        result = perform()
        if not before and at(call):
            strike()
        return result

    return intercepting(table, struck)


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_within_the_commit_waits_for_it(tmp_path: Path, before: bool) -> None:
    table = make(tmp_path / "t", 1)
    with (
        striking(tmp_path / "t", before=before),
        pytest.raises(interrupts.InterruptedAfterCommit, match="version 2 was committed") as caught,
    ):
        it.open(tmp_path / "t").append(rows(10, 10))
    assert caught.value.version == 2
    assert not getattr(caught.value, "__notes__", [])  # no split is said to be left behind
    assert ids(it.open(table.path)) == list(range(20))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_a_table_is_made_says_that_it_was(tmp_path: Path) -> None:
    with striking(tmp_path / "t", before=False), pytest.raises(interrupts.InterruptedAfterCommit, match="version 0 was committed"):
        make(tmp_path / "t")
    assert it.open(tmp_path / "t").version == 0


def test_an_interrupt_after_the_commit_says_that_it_stands(tmp_path: Path) -> None:
    make(tmp_path / "t", **{"checkpoint.interval": "1"})

    def writes_a_checkpoint(call: Call) -> bool:
        return call.changes and not call.commits and call.path.startswith("_transaction_log/")

    with (
        striking(tmp_path / "t", before=True, at=writes_a_checkpoint),
        pytest.raises(interrupts.InterruptedAfterCommit, match="version 1 was committed"),
    ):
        it.open(tmp_path / "t").append(rows(0, 10))


def test_the_terminal_tells_what_was_committed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, data = make(tmp_path / "t"), tmp_path / "rows.jsonl"
    data.write_text('{"id": 1, "date": "2024-01-01"}\n')
    with striking(tmp_path / "t", before=False):
        assert main(["append", table.path, str(data)]) == INTERRUPTED
    assert capsys.readouterr().err == "error: interrupted; version 1 was committed\n"


def test_an_interrupt_that_a_library_swallows_strikes_before_the_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, data = make(tmp_path / "t"), tmp_path / "rows.jsonl"
    data.write_text('{"id": 1, "date": "2024-01-01"}\n')
    before = tree(tmp_path / "t" / "_transaction_log")

    def swallowing(call: Call, perform: Perform) -> Any:
        if call.verb == "upload":
            with contextlib.suppress(KeyboardInterrupt):
                strike()
        return perform()

    with intercepting(tmp_path / "t", swallowing):
        assert main(["append", table.path, str(data)]) == INTERRUPTED
    assert capsys.readouterr().err.endswith("error: interrupted\n")
    assert tree(tmp_path / "t" / "_transaction_log") == before


def test_the_handler_of_another_program_hears_of_it_after_the_commit(tmp_path: Path) -> None:
    """As that of Spark's driver, which cancels its jobs and raises."""
    heard: list[int] = []

    def cancelling(number: int, _: object) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, cancelling)
    make(tmp_path / "t")
    with striking(tmp_path / "t", before=True), pytest.raises(interrupts.InterruptedAfterCommit, match="version 1 was committed"):
        it.open(tmp_path / "t").append(rows(0, 10))
    assert heard == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is cancelling


def test_a_failure_is_told_before_an_interrupt() -> None:
    def failing() -> None:
        with interrupts.defer_interrupts():
            strike()
            raise it.CommitUnknown("version 1 may have been written")

    with interrupts.record_interrupts():
        with pytest.raises(it.CommitUnknown):
            failing()
        with pytest.raises(KeyboardInterrupt):
            failing()  # it strikes before the next commit
