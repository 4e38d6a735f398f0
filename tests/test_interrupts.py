"""Ctrl-C: whoever is interrupted hears whether a version was committed, and nothing else is claimed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables import interrupts
from indextables.cli.main import INTERRUPTED, main
from indextables.log.log import TransactionLog
from indextables.operations.checkpoint import automatic as after_commit
from indextables.operations.write import run as write
from tests.support.tables import ids, make, rows, tree


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Python's own: tests with Spark may have run in this process, and its driver has another."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def strike() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def striking(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, before: bool) -> None:
    real = getattr(owner, name)

    def struck(*arguments: Any, **more: Any) -> Any:
        if before:
            strike()
        result = real(*arguments, **more)
        if not before:
            strike()
        return result

    monkeypatch.setattr(owner, name, struck)


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_within_the_commit_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    table = make(tmp_path / "t", 1)
    striking(monkeypatch, TransactionLog, "write", before=before)
    with pytest.raises(interrupts.InterruptedAfterCommit, match="version 2 was committed") as caught:
        table.append(rows(10, 10))
    assert caught.value.version == 2
    assert not getattr(caught.value, "__notes__", [])  # no split is said to be left behind
    monkeypatch.undo()
    assert ids(it.open(table.path)) == list(range(20))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_a_table_is_made_says_that_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    striking(monkeypatch, TransactionLog, "write", before=False)
    with pytest.raises(interrupts.InterruptedAfterCommit, match="version 0 was committed"):
        make(tmp_path / "t")
    assert it.open(tmp_path / "t").version == 0


def test_an_interrupt_after_the_commit_says_that_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", **{"checkpoint.interval": "1"})
    striking(monkeypatch, after_commit.checkpoint, "prepare", before=True)
    with pytest.raises(interrupts.InterruptedAfterCommit, match="version 1 was committed"):
        table.append(rows(0, 10))


def test_the_terminal_tells_what_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    table, data = make(tmp_path / "t"), tmp_path / "rows.jsonl"
    data.write_text('{"id": 1, "date": "2024-01-01"}\n')
    striking(monkeypatch, TransactionLog, "write", before=False)
    assert main(["append", table.path, str(data)]) == INTERRUPTED
    assert capsys.readouterr().err == "error: interrupted; version 1 was committed\n"


def test_an_interrupt_that_a_library_swallows_strikes_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table, data = make(tmp_path / "t"), tmp_path / "rows.jsonl"
    data.write_text('{"id": 1, "date": "2024-01-01"}\n')
    before = tree(tmp_path / "t" / "_transaction_log")
    committing = write.commit_write

    def swallowing(*arguments: Any, **more: Any) -> Any:
        with contextlib.suppress(KeyboardInterrupt):
            strike()
        return committing(*arguments, **more)

    monkeypatch.setattr(write, "commit_write", swallowing)
    assert main(["append", table.path, str(data)]) == INTERRUPTED
    assert capsys.readouterr().err.endswith("error: interrupted\n")
    assert tree(tmp_path / "t" / "_transaction_log") == before


def test_the_handler_of_another_program_hears_of_it_after_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of Spark's driver, which cancels its jobs and raises."""
    heard: list[int] = []

    def cancelling(number: int, _: object) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, cancelling)
    table = make(tmp_path / "t")
    striking(monkeypatch, TransactionLog, "write", before=True)
    with pytest.raises(interrupts.InterruptedAfterCommit, match="version 1 was committed"):
        table.append(rows(0, 10))
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
