"""All errors of the package; the type of an error answers "may I retry?" and "which exit code?".

IndexTablesError
├── InvalidArgument         a value given by the caller is malformed (size, duration, limit, column …)
│   └── PointedError        a text given by the caller is malformed, at a position if known
│       ├── InvalidPredicate    `where` does not parse, or names a column that is unknown or not allowed
│       ├── InvalidQuery        `query` does not parse, or names an unknown field
│       └── InvalidCommand      a SQL command does not parse, or is not supported
├── ConfigError             an option key is unknown, or its value is invalid
├── TableNotFound           there is no table at that path
├── TableExists             there is already a table at that path
├── SchemaMismatch          the data does not fit the table
│   └── ReplaceWhereViolation   a row does not match the predicate whose rows it replaces
├── SourceUnreadable        the data to load cannot be read
├── ProtocolUnsupported     the table needs a newer reader or writer
├── VersionNotFound         the version never existed, or has expired
├── LogCorrupted            the transaction log is damaged
│   ├── VersionGap          a version file is missing between others
│   └── UnsafePath          a path in the log points outside the table
├── CheckpointError         a checkpoint could not be written, validated or read
│   ├── CheckpointWriteError        the store or the encoding failed; nothing refers to the unfinished checkpoint
│   ├── CheckpointValidationError   the written checkpoint does not read back as intended
│   └── CheckpointCorruptionError   an existing checkpoint is damaged (also a LogCorrupted)
├── SplitCorrupted          a split's bytes are not those that were written
├── ConcurrentConflict      another writer was first; nothing was written
├── CommitUnknown           the commit may have succeeded; nothing was cleaned up
└── StorageError            the store did not answer
    └── StorageRefused      the store refused the request; a retry will not help
"""

from __future__ import annotations


class IndexTablesError(Exception):
    """Base of all errors of this package: one lowercase sentence that names the value."""

    retryable: bool = False
    exit_code: int = 1


class InvalidArgument(IndexTablesError):
    exit_code = 2


class PointedError(InvalidArgument):
    """An error in a text given by the caller, with its position (0-based) if known."""

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
    pass


class InvalidQuery(PointedError):
    pass


class InvalidCommand(PointedError):
    pass


class ConfigError(IndexTablesError):
    exit_code = 78


class TableNotFound(IndexTablesError):
    exit_code = 78

    @classmethod
    def without_log(cls, root: object, why: str = "") -> TableNotFound:
        """There is no transaction log at `root`; `why` says how that is known."""
        return cls(f"no transaction log found at {root}{why and f': {why}'}")


class TableExists(IndexTablesError):
    pass


class SchemaMismatch(IndexTablesError):
    pass


class ReplaceWhereViolation(SchemaMismatch):
    pass


class SourceUnreadable(IndexTablesError):
    pass


class ProtocolUnsupported(IndexTablesError):
    exit_code = 78


class VersionNotFound(IndexTablesError):
    pass


class LogCorrupted(IndexTablesError):
    pass


class VersionGap(LogCorrupted):
    pass


class UnsafePath(LogCorrupted):
    pass


class CheckpointError(IndexTablesError):
    pass


class CheckpointWriteError(CheckpointError):
    """Retryable if its cause is."""

    def __init__(self, version: int, cause: Exception) -> None:
        super().__init__(version, cause)  # the constructor's arguments, so that it can be pickled
        self.version = version
        self.cause = cause
        if isinstance(cause, IndexTablesError):
            self.retryable, self.exit_code = cause.retryable, cause.exit_code

    def __str__(self) -> str:
        return f"checkpoint {self.version} could not be written: {self.cause}"


class CheckpointValidationError(CheckpointError):
    def __init__(self, version: int, reason: str) -> None:
        super().__init__(version, reason)
        self.version = version
        self.reason = reason

    def __str__(self) -> str:
        return f"checkpoint {self.version} does not read back as it was written: {self.reason}"


class CheckpointCorruptionError(CheckpointError, LogCorrupted):
    def __init__(self, path: str, reason: str = "it is damaged") -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"checkpoint file {self.path!r} cannot be used: {self.reason}"


class SplitCorrupted(IndexTablesError):
    pass


class ConcurrentConflict(IndexTablesError):
    retryable = True
    exit_code = 75


class CommitUnknown(IndexTablesError):
    pass


class StorageError(IndexTablesError):
    retryable = True
    exit_code = 75


class StorageRefused(StorageError):
    retryable = False
    exit_code = 78
