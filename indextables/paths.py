"""Places: the root of a table, and paths inside it that cannot point out of it.

A log may be written by anyone who can write the bucket, and purge deletes files: so every path of a log goes through
`TableRoot.relative` before anything acts on it.
"""

from __future__ import annotations

import os
import posixpath
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from indextables import limits
from indextables.errors import ConfigError, InvalidArgument, UnsafePath

LOG_FOLDER = "_transaction_log"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# What usual paths are made of; anything else is looked at closely.
_PLAIN = (string.ascii_letters + string.digits + "_.=/-\n").encode()
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
# What Hive escapes in a partition folder's name: control characters and these.
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f")
# Names that our writers give to splits; purge touches no other.
_SPLIT_NAME = re.compile(r"(?:[^/]+=[^/]*/)*splits/split-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.split")


@dataclass(frozen=True, slots=True)
class TableRoot:
    """The absolute local folder of a table, without a trailing slash."""

    path: str

    @classmethod
    def parse(cls, given: str | os.PathLike[str]) -> TableRoot:
        """From what a user wrote: a path, or a `file:` URI."""
        text = os.fspath(given)
        if not text or "\0" in text:
            raise InvalidArgument(f"{text!r} is not a path")
        local = _without_file_scheme(text)
        if local is None:
            raise ConfigError(f"{text!r}: only local folders are supported yet, not {text.split(':', 1)[0]!r}")
        return cls(os.path.abspath(os.path.expanduser(local)))

    def relative(self, logged: str) -> str:
        """The path of the log relative to this root, checked; UnsafePath where it is not inside."""
        if are_plain([logged]):
            return logged
        local = _without_file_scheme(logged)
        if local is None:
            raise UnsafePath(f"path {logged!r} in the log points to another store than {self.path!r}")
        if local.startswith("/"):
            inside = self.path.rstrip("/") + "/"
            if not local.startswith(inside):
                raise UnsafePath(f"path {logged!r} in the log lies outside of the table {self.path!r}")
            local = local[len(inside) :]
        return check_relative(local)

    def join(self, relative: str) -> str:
        return posixpath.join(self.path, relative)

    def __str__(self) -> str:
        return self.path


def _without_file_scheme(text: str) -> str | None:
    """The path of a plain path or a `file:` URI; None for any other scheme."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return text
    if scheme[1].lower() != "file":
        return None
    return "/" + text[5:].lstrip("/")


def are_plain(paths: Sequence[str]) -> bool:
    """Whether all are relative paths of letters, digits and `_ . = -`, without segments that are empty or begin with a dot.

    False says nothing: then `TableRoot.relative` decides. Most paths of most logs are plain, and this takes a tenth of the time.
    """
    joined = "\n" + "\n".join(paths) + "\n"
    return (
        joined.isascii()
        and not joined.encode().translate(None, _PLAIN)
        and joined.count("\n") == len(paths) + 1
        and not any(sign in joined for sign in ("//", "/.", "\n/", "\n.", "/\n", "\n\n"))
        and all(len(path) <= limits.PATH_CHARACTERS for path in paths)
    )


def check_relative(path: str) -> str:
    """`path` itself, if each of its segments is a plain name; UnsafePath otherwise.

    Paths are literal and never URL-decoded, but one that would climb out if a later program decoded it is refused too.
    """
    if not path or len(path) > limits.PATH_CHARACTERS:
        raise UnsafePath(f"path {path[:80]!r} in the log is empty or longer than {limits.PATH_CHARACTERS} characters")
    for segment in path.split("/"):
        decoded = _fully_decoded(segment)
        normal = posixpath.normpath(decoded)
        if segment == "" or decoded in (".", "..") or normal == ".." or normal.startswith(("../", "/")):
            raise UnsafePath(f"path {path!r} in the log is not a plain path inside of the table")
        if "\\" in segment or any(ord(c) < 32 or ord(c) == 127 for c in segment):
            raise UnsafePath(f"path {path!r} in the log has a backslash or a control character")
    return path


def _fully_decoded(segment: str) -> str:
    for _ in range(4):
        decoded = unquote(segment)
        if decoded == segment:
            break
        segment = decoded
    return segment


def partition_folder(column: str, value: str | None) -> str:
    """`column=value`, escaped as Hive does; the null partition has a name of its own."""
    if value is None or value == "":
        return f"{escape_hive(column)}={NULL_PARTITION}"
    return f"{escape_hive(column)}={escape_hive(value)}"


def escape_hive(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED or ord(c) < 32 else c for c in text)


def split_path(partition_folders: list[str], unique: str) -> str:
    """Where a new split goes: `a=1/b=2/splits/split-<uuid>.split`."""
    return check_relative("/".join([*partition_folders, "splits", f"split-{unique}.split"]))


def is_our_split(path: str) -> bool:
    return _SPLIT_NAME.fullmatch(path) is not None
