"""Whether a csv file begins with a line of column names, separated by commas. Any other file is refused before a table is made of it.

Where there is a table, its columns decide: a first line that consists of them is a header. Elsewhere the first line itself has to look
like names. It does not where a cell is empty, a number, a time, a truth value or an address, where two cells are equal, where a cell comes
again further down in its column, as `INFO` does, or where a cell is the line of a log: it contains a time or an address, or begins a JSON
object. A line without a comma is a header only if it is one word, since the columns may be separated by something else. Texts that could be
names, such as `alice,paris`, are taken for names.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import islice

from indextables.errors import SourceUnreadable

HEAD_BYTES = 1 << 16  # of a file, for the check
HEAD_LINES = 100
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_DATA = {
    "a time": r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}( .*)?|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?",
    "an address": r"(\d{1,3}\.){3}\d{1,3}(:\d+)?|[^@\s]+@[^@\s]+\.[^@\s]+|[a-z][a-z0-9+.-]*://\S+",
    "an identifier": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "a number": r"[-+]?[$€£]?(\d[\d.,_' ]*|[.,]\d+)(e[-+]?\d+)?\s?[%$€£]?|0x[0-9a-f]+|[-+]?(nan|inf|infinity)",
    "a truth value": r"true|false",
    "no value": r"null",
    "a note for Excel": r"sep=.?",
}
_KINDS = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _DATA.items()]
_INSIDE = [
    ("contains a time", re.compile(r"\d:\d{2}:\d{2}")),
    ("contains an address", re.compile(r"(?<![\d.])(\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    ("begins a JSON object", re.compile(r"^\[?\s*\{")),
]
_ONE_WORD = re.compile(r"[\w.-]+")
_ADVICE = "a csv file must begin with a line of column names"
_OTHERWISE = "if it does, make the table first, with `create --schema`, and append the file then"


def check_header(head: str, source: str, columns: Sequence[str] | None) -> None:
    """SourceUnreadable for a file that begins like this, if its first line is no header for a table of these columns, or for a new one."""
    lines = _parsed(head, ",")
    if not lines or (columns is not None and set(lines[0]) <= set(columns)):
        return
    header, rows = lines[0], lines[1:]
    delimiter = _delimiter(head, len(header))
    if delimiter is not None:
        raise SourceUnreadable(
            f"{source!r} cannot be read: its first line, {_shown(head)}, is separated by {_DELIMITERS[delimiter]}, not by commas; "
            "convert the file to commas"
        )
    if columns is None:
        why = _not_names(header, rows)
        if why is not None:
            raise SourceUnreadable(f"{source!r} cannot be read: its first line is not a header: {why}; {_ADVICE} ({_OTHERWISE})")
    elif not set(header) & set(columns):
        raise SourceUnreadable(
            f"{source!r} cannot be read: its first line, {_shown(head)}, has none of the table's columns ({', '.join(columns)}); {_ADVICE}"
        )


def _parsed(head: str, delimiter: str) -> list[list[str]]:
    """The cells of the first lines that are not empty; nothing where they are no csv, which the reader of the file reports."""
    try:
        return list(islice(filter(None, csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)), HEAD_LINES))
    except csv.Error:
        return []


def _delimiter(head: str, by_commas: int) -> str | None:
    """What separates the columns instead of commas: it gives the first line more cells, and other lines as many as the first."""
    for delimiter in _DELIMITERS:
        lines = _parsed(head, delimiter) if delimiter in head else []
        cells = len(lines[0]) if lines else 0
        if cells > by_commas:
            fitting, others = sum(len(line) == cells for line in lines[1:]), len(lines) - 1
            # One cell with commas, and several with something else: a few lines that do not fit change nothing.
            if 2 * fitting >= others if by_commas == 1 else fitting == others > 0:
                return delimiter
    return None


def _not_names(header: list[str], rows: list[list[str]]) -> str | None:
    """Why these are not the names of columns, if they are not."""
    for at, given in enumerate(header):
        cell = given.strip()
        if not cell:
            return f"column {at + 1} has no name"
        for kind, pattern in _KINDS:
            if pattern.fullmatch(cell):
                return f"column {at + 1} is {cell[:80]!r}, {kind}"
        for what, pattern in _INSIDE:
            if pattern.search(cell):
                return f"column {at + 1} is {cell[:80]!r}, which {what}"
        if given in header[:at]:
            return f"columns {header.index(given) + 1} and {at + 1} are both {cell[:80]!r}"
        if any(len(row) > at and row[at] == given for row in rows):
            return f"column {at + 1} is {cell[:80]!r}, which is also a value of that column"
    if len(header) == 1 and not _ONE_WORD.fullmatch(header[0].strip()):
        return f"{header[0].strip()[:80]!r} has no comma and is not one word"
    return None


def _shown(head: str) -> str:
    return repr((head.lstrip().splitlines() or [""])[0][:80])
