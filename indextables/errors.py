"""All errors of the package: one tree below IndexTablesError. The type of an error answers "may I retry?" and "which exit code?"."""

from __future__ import annotations

from typing import Any, Self


class IndexTablesError(Exception):
    """Base of all errors of this package: one lowercase sentence that names the value.

    The sentence is the only element of `args`, whatever the constructor takes. All errors can be pickled.
    """

    retryable: bool = False
    exit_code: int = 1

    @classmethod
    def with_message(cls, message: str) -> Self:
        """An error of this type with this sentence, as it is read from text; attributes that only its constructor sets are missing."""
        error = cls.__new__(cls)
        error.args = (message,)
        return error

    def add(self, note: str) -> None:
        """Appends a note to the sentence."""
        self.args = (f"{self}; {note}",)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).with_message, (str(self),), self.__dict__


class InvalidArgument(IndexTablesError):
    """A value given by the caller is malformed (size, duration, limit, column …)."""

    exit_code = 2


class PointedError(InvalidArgument):
    """An error in a text given by the caller, with its position (0-based) if known."""

    text: str = ""
    position: int | None = None

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        super().__init__(message)
        self.text = text
        self.position = position

    def caret(self) -> str | None:
        """The text with a caret under the position, for terminals; None if the position is not known."""
        if self.position is None or not self.text:
            return None
        start = max(0, self.position - 60)
        line = self.text[start : self.position + 40].replace("\n", " ").replace("\t", " ")
        return f"  {line}\n  {' ' * (self.position - start)}^"


class InvalidPredicate(PointedError):
    """`where` does not parse, or names a column that is unknown or not allowed."""


class InvalidQuery(PointedError):
    """`query` does not parse, or names an unknown field."""


class InvalidCommand(PointedError):
    """A SQL command does not parse, or is not supported."""


class ConfigError(IndexTablesError):
    """An option key is unknown, or its value is invalid."""

    exit_code = 78


class TableNotFound(IndexTablesError):
    """There is no table at that path."""

    exit_code = 78

    @classmethod
    def without_log(cls, root: object, why: str = "") -> TableNotFound:
        """There is no transaction log at `root`; `why` says how that is known."""
        return cls(f"no transaction log found at {root}{why and f': {why}'}")


class TableExists(IndexTablesError):
    """There is already a table at that path."""


class SchemaMismatch(IndexTablesError):
    """The data does not fit the table."""


class ReplaceWhereViolation(SchemaMismatch):
    """A row does not match the predicate whose rows it replaces."""


class SourceUnreadable(IndexTablesError):
    """The data to load cannot be read."""


class ProtocolUnsupported(IndexTablesError):
    """The table needs a newer reader or writer."""

    exit_code = 78


class VersionNotFound(IndexTablesError):
    """The version never existed, or has expired."""


class LogCorrupted(IndexTablesError):
    """The transaction log is damaged."""


class VersionGap(LogCorrupted):
    """A version file is missing between others."""


class UnsafePath(LogCorrupted):
    """A path in the log points outside the table."""


class CheckpointError(IndexTablesError):
    """A checkpoint could not be written, validated or read."""


class CheckpointWriteError(CheckpointError):
    """The store or the encoding failed; nothing refers to the unfinished checkpoint. Retryable if its cause is."""

    def __init__(self, version: int, cause: Exception) -> None:
        super().__init__(f"checkpoint {version} could not be written: {cause}")
        self.version = version
        self.cause = cause
        if isinstance(cause, IndexTablesError):
            self.retryable, self.exit_code = cause.retryable, cause.exit_code


class CheckpointValidationError(CheckpointError):
    """The written checkpoint does not read back as intended."""

    def __init__(self, version: int, reason: str) -> None:
        super().__init__(f"checkpoint {version} does not read back as it was written: {reason}")
        self.version = version
        self.reason = reason


class CheckpointCorruptionError(CheckpointError, LogCorrupted):
    """An existing checkpoint is damaged (also a LogCorrupted)."""

    def __init__(self, path: str, reason: str = "it is damaged") -> None:
        super().__init__(f"checkpoint file {path!r} cannot be used: {reason}")
        self.path = path
        self.reason = reason


class SplitCorrupted(IndexTablesError):
    """A split's bytes are not those that were written."""


class ConcurrentConflict(IndexTablesError):
    """Another writer was first; nothing was committed."""

    retryable = True
    exit_code = 75


class CommitUnknown(IndexTablesError):
    """The commit may have succeeded; nothing was cleaned up."""


class StorageError(IndexTablesError):
    """The store did not answer."""

    retryable = True
    exit_code = 75


class StorageRefused(StorageError):
    """The store refused the request; a retry will not help."""

    retryable = False
    exit_code = 78
