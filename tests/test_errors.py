"""The error tree: the type of an error determines the exit code and whether a retry may help."""

from __future__ import annotations

import inspect

import pytest

from indextables import errors
from indextables.errors import (
    CommitUnknown,
    ConcurrentConflict,
    ConfigError,
    IndexTablesError,
    InvalidArgument,
    InvalidPredicate,
    InvalidQuery,
    LogCorrupted,
    ProtocolUnsupported,
    StorageError,
    TableNotFound,
)

ALL = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, IndexTablesError)]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (InvalidArgument, 2),
        (InvalidPredicate, 2),
        (InvalidQuery, 2),
        (ConfigError, 78),
        (TableNotFound, 78),
        (ProtocolUnsupported, 78),
        (ConcurrentConflict, 75),
        (StorageError, 75),
        (LogCorrupted, 1),
        (CommitUnknown, 1),
    ],
)
def test_exit_codes(kind: type[IndexTablesError], code: int) -> None:
    assert kind.exit_code == code


def test_errors_are_retryable_exactly_if_their_exit_code_is_75() -> None:
    assert {kind for kind in ALL if kind.retryable} == {kind for kind in ALL if kind.exit_code == 75} == {ConcurrentConflict, StorageError}


def test_exit_codes_are_the_documented_ones() -> None:
    assert {kind.exit_code for kind in ALL} == {1, 2, 75, 78}


def test_the_caret_points_at_the_position() -> None:
    shown = InvalidPredicate("unexpected '&'", "a = 1 & b", 6).caret()
    assert shown is not None
    text, caret = shown.splitlines()
    assert text == "  a = 1 & b"
    assert text[caret.index("^")] == "&"


def test_the_caret_of_a_long_text_is_shown_with_its_surroundings_on_one_line() -> None:
    text = "x\n" * 500 + "!" + "\ty" * 500
    shown = InvalidQuery("unexpected '!'", text, 1000).caret()
    assert shown is not None
    line, caret = shown.splitlines()
    assert len(line) == 2 + 100
    assert line[caret.index("^")] == "!"
    assert "\t" not in line


@pytest.mark.parametrize("error", [InvalidQuery("bad"), InvalidQuery("bad", "a b"), InvalidQuery("bad", "", 0)])
def test_no_caret_without_a_known_position(error: InvalidQuery) -> None:
    assert error.caret() is None
    assert str(error) == "bad"
