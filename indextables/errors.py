"""One tree of errors; the type answers "may I retry?" and "which exit code?".

IndexTablesError
├── InvalidArgument         a value the caller gave is malformed (size, duration, limit, column …)
│   ├── InvalidPredicate    `where` does not parse, or names what it must not
│   ├── InvalidQuery        `query` does not parse, or names a field that is not there
│   └── InvalidCommand      a SQL command does not parse, or asks for what is not supported
├── ConfigError             an option key is unknown, or its value is bad
├── TableNotFound           no table at that path
├── TableExists             there is one already
├── SchemaMismatch          the data does not fit the table
│   └── ReplaceWhereViolation   a row lies outside the predicate it is to replace
├── SourceUnreadable        the data to load cannot be read
├── ProtocolUnsupported     the table needs a newer reader or writer
├── VersionNotFound         that version never existed, or has expired
├── LogCorrupted            the transaction log is damaged; what is missing is named
│   ├── VersionGap          a version file is missing in the middle
│   └── UnsafePath          a path in the log points out of the table
├── CheckpointError         a checkpoint could not be written, validated or read
│   ├── CheckpointWriteError        the store or the encoding failed; nothing points to what was begun
│   ├── CheckpointValidationError   it does not read back as it was written
│   └── CheckpointCorruptionError   what is there cannot be used (it is a LogCorrupted, too)
├── SplitCorrupted          a split's bytes are not what was written
├── ConcurrentConflict      another writer was first; nothing was written
├── CommitUnknown           may have been written; nothing was cleaned up
└── StorageError            the store did not answer
    └── StorageRefused      it answered, and will not do it however often it is asked
"""

from __future__ import annotations


class IndexTablesError(Exception):
    """Base of all errors of this package: one lowercase sentence that names the value."""

    retryable: bool = False
    exit_code: int = 1


class InvalidArgument(IndexTablesError):
    exit_code = 2


class PointedError(InvalidArgument):
    """An error in a text the caller gave, with the place in it (0-based) where it is known."""

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        super().__init__(message)
        self.text = text
        self.position = position

    def caret(self) -> str | None:
        """The text with a caret under the place, for terminals; None where the place is not known."""
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
    """May be tried again where its cause may."""

    def __init__(self, version: int, cause: Exception) -> None:
        super().__init__(version, cause)  # the arguments as they are, so that it can be pickled
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
