"""What went wrong inside Spark, said as if it had gone wrong here.

An error that an executor or a planning process raises comes back as text in an exception of Spark's, with its type and its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from indextables import errors
from indextables.errors import IndexTablesError, SourceUnreadable

_OURS = re.compile(r"indextables\.errors\.([A-Za-z]+): ([^\r\n]*)")
# Error classes of Spark's that mean: the files to read are not there, or not what they are said to be.
_SOURCE = re.compile(
    r"\[(?:PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|CANNOT_READ_FILE_FOOTER|FAILED_READ_FILE|MALFORMED_\w+|CANNOT_MERGE_\w+|CONFLICTING_\w+"
    r"|CANNOT_PARSE_\w+|UNSUPPORTED_FEATURE\.QUERY_ONLY_CORRUPT_RECORD_COLUMN|INVALID_PARTITION\w*|PARQUET_\w+)\b[^\]]*\]"
)
_HEADER = re.compile(r"CSV header does not conform to the schema\.\s+Header: (.*)\s+Schema: (.*)\s+Expected.*\s+CSV file: (.*)")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}\b.*$")


def our_error(error: BaseException) -> IndexTablesError | None:
    """The error of ours that Spark's exception carries, as raised where it happened; None where there is none."""
    if isinstance(error, IndexTablesError):
        return error
    for name, sentence in reversed(_OURS.findall(str(error))):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, IndexTablesError):
            return kind(sentence.strip())
    return None


@contextmanager
def translated() -> Iterator[None]:
    """Errors of ours keep their type on the way through Spark; Spark's own pass unchanged."""
    try:
        yield
    except IndexTablesError:
        raise
    except Exception as error:
        ours = our_error(error)
        if ours is None:
            raise
        raise ours from error


def source_error(error: BaseException, source: str) -> SourceUnreadable | None:
    """SourceUnreadable where Spark says that what it was to read is at fault; the innermost of its reasons says most."""
    text = str(error)
    header = _HEADER.search(text)
    if header is not None:
        found, expected, file = header.groups()
        return SourceUnreadable(f"{file!r} cannot be read: its first line is {found[:80]!r}, and the header is {expected[:80]!r} elsewhere")
    reasons = [match.end() for match in _SOURCE.finditer(text)]
    if not reasons:
        return None
    reason = _SQLSTATE.sub("", first_line(text[reasons[-1] :])).strip(" .")
    return SourceUnreadable(f"{source!r} cannot be read: {reason[:1].lower()}{reason[1:]}")


def first_line(text: str) -> str:
    """One line of an exception's text, short enough to be read."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else "no reason given"
