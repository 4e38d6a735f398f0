"""Recovers IndexTables errors from Spark exceptions.

An error raised by an executor or a planning process comes back as text within a Spark exception: its type and its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from indextables import errors
from indextables.errors import IndexTablesError, SourceUnreadable

_OUR_ERROR = re.compile(r"indextables\.errors\.([A-Za-z]+): ([^\r\n]*)")
# Spark error classes that mean: the files to read are missing, or not in the expected format.
_SOURCE_ERROR = re.compile(
    r"\[(?:PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|COLUMN_ALREADY_EXISTS|CANNOT_READ_FILE_FOOTER|FAILED_READ_FILE|MALFORMED_\w+|CANNOT_MERGE_\w+|CONFLICTING_\w+"
    r"|CANNOT_PARSE_\w+|UNSUPPORTED_FEATURE\.QUERY_ONLY_CORRUPT_RECORD_COLUMN|INVALID_PARTITION\w*|PARQUET_\w+)\b[^\]]*\]"
)
_HEADER = re.compile(r"CSV header does not conform to the schema\.\s+Header: (.*)\s+Schema: (.*)\s+Expected.*\s+CSV file: (.*)")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}\b.*$")


def our_error(error: BaseException) -> IndexTablesError | None:
    """The IndexTables error within a Spark exception, as it was raised; None if there is none."""
    if isinstance(error, IndexTablesError):
        return error
    for name, message in reversed(_OUR_ERROR.findall(str(error))):
        error_type = getattr(errors, name, None)
        if isinstance(error_type, type) and issubclass(error_type, IndexTablesError):
            return error_type.with_message(message.strip())
    return None


@contextmanager
def spark_errors_as_ours(source: str | None = None) -> Iterator[None]:
    """Raises the IndexTables error within a Spark exception, or with `source`, the problem that Spark has with the files it reads.

    Spark's other exceptions pass unchanged.
    """
    try:
        yield
    except IndexTablesError:
        raise
    except Exception as error:
        ours = our_error(error) if source is None else source_error(error, source)
        if ours is None:
            raise
        raise ours from error


def source_error(error: BaseException, source: str) -> SourceUnreadable | None:
    """SourceUnreadable if Spark reports a problem with the files it reads, with Spark's innermost reason; else None."""
    text = str(error)
    header = _HEADER.search(text)
    if header is not None:
        found, expected, file = header.groups()
        return SourceUnreadable(f"{file!r} cannot be read: its first line is {found[:80]!r}, but other files have {expected[:80]!r}")
    reasons = [match.end() for match in _SOURCE_ERROR.finditer(text)]
    if not reasons:
        return None
    reason = _SQLSTATE.sub("", first_line(text[reasons[-1] :])).strip(" .")
    return SourceUnreadable(f"{source!r} cannot be read: {reason[:1].lower()}{reason[1:]}")


def first_line(text: str) -> str:
    """The first line of an exception's text, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else "no reason given"
