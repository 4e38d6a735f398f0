"""The error tree: the type of an error determines the exit code and whether a retry may help."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path

import pytest

from indextables import errors
from indextables.errors import (
    CheckpointCorruptionError,
    CheckpointValidationError,
    CheckpointWriteError,
    CommitUnknown,
    ConcurrentConflict,
    ConfigError,
    IndexTablesError,
    InvalidArgument,
    InvalidPredicate,
    InvalidQuery,
    LogCorrupted,
    PointedError,
    ProtocolUnsupported,
    StorageError,
    TableNotFound,
)
from indextables.rows import add_to_error
from indextables.splits.merge import BrokenSource

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


EXAMPLES: list[IndexTablesError] = [
    InvalidQuery("bad", "a b", 2),
    CheckpointWriteError(3, StorageError("no answer")),
    CheckpointValidationError(3, "it is short"),
    CheckpointCorruptionError("_transaction_log/x", "it is cut"),
    BrokenSource("split is damaged", Path("x")),
    *(kind("message") for kind in ALL if kind.__init__ in (IndexTablesError.__init__, PointedError.__init__)),
]


def test_the_examples_are_of_all_types() -> None:
    assert {type(error) for error in EXAMPLES} == {*ALL, BrokenSource}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_a_note_is_appended_to_the_message_and_survives_pickling(error: IndexTablesError) -> None:
    error = copy.copy(error)
    before, attributes = str(error), {**vars(error)}
    add_to_error(error, "2 splits are left")
    assert str(error) == f"{before}; {'unless that version contains them, ' if type(error) is CommitUnknown else ''}2 splits are left"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.retryable, again.exit_code) == (type(error), str(error), error.retryable, error.exit_code)
    assert vars(again).keys() == attributes.keys() == vars(error).keys()


@pytest.mark.parametrize("kind", dict.fromkeys(type(error) for error in EXAMPLES), ids=lambda kind: kind.__name__)
def test_every_type_can_be_made_from_its_message_alone(kind: type[IndexTablesError]) -> None:
    """As in the text of a Spark exception, which has the message and not the constructor's arguments."""
    error = kind.with_message("checkpoint 3 could not be written: no answer")
    assert (type(error), str(error)) == (kind, "checkpoint 3 could not be written: no answer")


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


@pytest.mark.parametrize(
    "error", [InvalidQuery("bad"), InvalidQuery("bad", "a b"), InvalidQuery("bad", "", 0), InvalidQuery.with_message("bad")]
)
def test_no_caret_without_a_known_position(error: InvalidQuery) -> None:
    assert error.caret() is None
    assert str(error) == "bad"
