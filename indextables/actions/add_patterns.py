"""Adds that are spelt like others before them, as nearly all adds of a table are: checked by a pattern, and decoded when asked for.

A pattern is made of one line that was decoded and checked in full. It has that line's keys, each in its place, and lets only such values
differ that cannot make it wrong: a text for a text, a number that fits for a number, true for false. So a line that matches is as good
as checked: nothing in it is malformed, unknown, or said twice. This takes half the time of decoding it, and a third of the memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from indextables import limits
from indextables.actions.model import Add, Int32

PATIENCE = 200  # adds that are decoded before a pattern is made, which takes as long; each one made doubles it, up to
MOST_PATIENCE = 50_000
KEPT = 4  # patterns
LONGEST = 4096  # characters of a line that becomes a pattern
_LONGEST_MATCH = limits.LINE_CHECKED_BYTES // 4 - 16  # whatever its characters take, the line is short enough

Texts = Sequence[str]

_ADD = msgspec.json.Decoder(Add)
_ADDS = msgspec.json.Decoder(list[Add])
_TOKEN = re.compile(r'(?P<key>"[^"\\]*":)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>[0-9]+)|(?P<truth>true|false)|(?P<sign>null|[{}\[\],])')
_TEXT = r'[^"\\\x00-\x1f]*+'
_ESCAPED_TEXT = rf'{_TEXT}(?:\\["\\/bfnrt]{_TEXT})*+'
_NAME = r"[A-Za-z0-9_=-][A-Za-z0-9_.=-]*+"
_PATH = rf"{_NAME}(?:/{_NAME})*+"  # what `paths.are_plain` says of it, but for its length
_PICKED = {'"path":': "path", '"size":': "size", '"numRecords":': "num_records"}
_SMALL = frozenset(f'"{field.encode_name}":' for field in structs.fields(Add) if field.type in (Int32, Int32 | None))


class AddBlock(Struct, frozen=True, gc=False):
    """Adds of one version that follow each other, as its file has them. They were checked; their paths are plain, and different."""

    version: int
    texts: dict[str, str]  # by path
    size: int
    num_records: int  # where they are known
    timestamp: int | None = None  # of the commit

    def add(self, path: str) -> Add:
        return with_commit(_ADD.decode(self.texts[path]), self.version, self.timestamp)


Source = Add | AddBlock  # where the add of a path is


def decoded(files: Sequence[tuple[str, Source]]) -> list[Add]:
    """The adds of paths, in their order."""
    adds = iter(_ADDS.decode(f"[{','.join([source.texts[path] for path, source in files if isinstance(source, AddBlock)])}]"))
    return [with_commit(next(adds), source.version, source.timestamp) if isinstance(source, AddBlock) else source for _, source in files]


def with_commit(add: Add, version: int, timestamp: int | None) -> Add:
    """An add that was just decoded, so that no one else has it yet, with what is known of its commit."""
    structs.force_setattr(add, "added_at_version", version)
    structs.force_setattr(add, "added_at_timestamp", timestamp)
    return add


class AddPatterns:
    """The patterns of this process. Threads may share them: at worst one is learnt twice."""

    def __init__(self, patience: int = PATIENCE) -> None:
        self._patterns: tuple[re.Pattern[str], ...] = ()
        self._patience = patience
        self._decoded = 0

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    def learn(self, line: str, decoded: int) -> None:
        """Takes a checked line, the last of so many adds that matched no pattern."""
        self._decoded += decoded
        if self._decoded < self._patience:
            return
        self._decoded = 0
        self._patience = min(2 * self._patience, MOST_PATIENCE)
        pattern = pattern_of(line)
        if pattern is not None and pattern not in (known.pattern for known in self._patterns):
            self._patterns = (re.compile(pattern), *self._patterns[: KEPT - 1])

    def split(self, text: str, version: int) -> list[str | AddBlock]:
        """The text of a version, with blocks in the place of the lines that match; joined again it would be the same."""
        return _split(text, version, self._patterns)


def _split(text: str, version: int, patterns: Sequence[re.Pattern[str]]) -> list[str | AddBlock]:
    if not patterns:
        return [text]
    pattern, others = patterns[0], patterns[1:]
    pieces = pattern.split(text)  # nothing, then the groups of a line, and so on: one list is half the work of tuples
    width = pattern.groups + 1
    other: list[str | None] = pieces[pattern.groupindex["other"] :: width]
    found: list[str | AddBlock] = []
    start = 0
    while start < len(other):
        end = _end_of_run(other, start)
        if other[start] is not None:
            rest = "".join(other[start:end])  # type: ignore[arg-type]
            found += _split(rest, version, others) if others else [rest]
        else:
            columns = {name: pieces[start * width + at : end * width : width] for name, at in pattern.groupindex.items() if name != "other"}
            block = _block(version, **columns)
            found.append(block if block is not None else "".join([f'{{"add":{line}}}\n' for line in columns["text"]]))
        start = end
    return found


def _end_of_run(other: list[str | None], start: int) -> int:
    """Where the lines end that match like the first, or do not."""
    is_add = other[start] is None
    for at in range(start + 1, len(other)):
        if (other[at] is None) != is_add:
            return at
    return len(other)


def _block(version: int, text: Texts, path: Texts, size: Texts, num_records: Texts = ()) -> AddBlock | None:
    """None where a path comes twice or may be too long, or a line is so long that its bytes have to be counted."""
    texts = dict(zip(path, text, strict=True))
    longest = max(map(len, text))
    if len(texts) < len(path) or longest > _LONGEST_MATCH or (longest > limits.PATH_CHARACTERS < max(map(len, path))):
        return None
    return AddBlock(version, texts, sum(map(int, size)), sum(map(int, num_records)))


def pattern_of(line: str) -> str | None:
    """Of a checked line, without its end, that begins with `{"add":`; None where it has something that only decoding can judge.

    Every line matches it: one that is spelt otherwise as `other`. Without that, the search would go on within the line.
    """
    if len(line) > LONGEST:
        return None
    made: list[str] = []
    depth, key, at = 0, "", len('{"add":')
    while at < len(line) - 1:
        token = _TOKEN.match(line, at)
        if token is None:
            return None
        found = token[0]
        at = token.end()
        match token.lastgroup:
            case "key":
                key = found
                made.append(re.escape(found))
                continue
            case "sign":
                depth += (found in "{[") - (found in "}]")
                made.append(re.escape(found))
            case kind:
                value = _value(kind or "", found, key)
                name = _PICKED.get(key) if depth == 1 else None
                if name == "path":
                    value = f'"(?P<path>{_PATH})"'
                    if not re.fullmatch(value, found):
                        return None
                elif name is not None:
                    value = f"(?P<{name}>{value})"
                made.append(value)
        if depth == 0 and at < len(line) - 1:
            return None
    return rf'\{{"add":(?P<text>{"".join(made)})\}}\n|(?P<other>[^\n]*+\n|[^\n]++)'


def _value(kind: str, found: str, key: str) -> str:
    if kind == "truth":
        return "(?:true|false)"
    if kind == "number":
        return rf"(?:0|[1-9][0-9]{{0,{8 if key in _SMALL else 17}}}+)"
    return f'"{_ESCAPED_TEXT if chr(92) in found else _TEXT}"'


ADD_PATTERNS = AddPatterns()
