"""The root of a table, and paths that are guaranteed to be inside it.

Anyone who can write to the bucket can write to a log, and purge deletes files: so every path of a log goes through `TableRoot.relative`
before it is used.
"""

from __future__ import annotations

import os
import posixpath
import re
import string
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from indextables import limits
from indextables.errors import ConfigError, InvalidArgument, UnsafePath

LOG_FOLDER = "_transaction_log"
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# The characters of usual paths; a path with any other character is checked in full.
_PLAIN = (string.ascii_letters + string.digits + "_.=/-\n").encode()

LOCAL = "file"
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss", "local": "file"}
_USER_ALLOWED = frozenset({"abfss", "sftp", "ssh"})
SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
# Hive escapes control characters and these in the name of a partition folder.
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f")
# Names that our writers give to splits; purge deletes other files only if the log says that they were removed.
SPLIT_PATTERN = r"(?:[^/]+=[^/]*/)*splits/split-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.split"
_SPLIT_NAME = re.compile(SPLIT_PATTERN)
# Where writers of this format may put splits (LOG-13).
_ANY_SPLIT = re.compile(r"(?:[^/]+=[^/]*/)*(?:splits/)?[^/._][^/]*\.split")
TEMPORARY = ".tmp-"  # a prefix of names
_RANDOM = r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}"  # a random UUID's digits
_TEMPORARY_PATH = re.compile(
    rf"(?:{LOG_FOLDER}/(?:[^/]+/)?|(?:[^/]+=[^/]*/)*splits/){re.escape(TEMPORARY)}(?:{_RANDOM}|probe-{_RANDOM}-[0-9]{{1,4}})"
)


@dataclass(frozen=True, slots=True)
class TableRoot:
    """The location of a table without a trailing slash: an absolute local folder, or the part after `scheme://` for another store."""

    path: str
    scheme: str = LOCAL

    @classmethod
    def parse(cls, given: str | os.PathLike[str]) -> TableRoot:
        """Parses a path, a `file:` URI, or `scheme://…`. Credentials in it are refused, and not repeated in the error."""
        text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
        if not isinstance(text, str) or not text or "\0" in text:
            raise InvalidArgument(f"{given!r} is not a path")
        scheme, path = _split_scheme(text)
        if scheme == LOCAL:
            return cls(os.path.abspath(os.path.expanduser(path)))
        check_no_user(text)
        if "?" in path or "#" in path:
            raise ConfigError(
                f"the {scheme} address has a query or a fragment; settings are options, credentials come from the environment"
            )
        if not text[len(text.split(":", 1)[0]) :].startswith("://"):
            raise ConfigError(f"{text!r} is neither a local path nor of the form {scheme}://…")
        if path.startswith("/") and scheme != "memory":
            raise InvalidArgument(f"{text!r} has no bucket, container or host; write it like {scheme}://bucket/path")
        try:
            return cls(check_relative(path.strip("/")), scheme)
        except UnsafePath:
            raise InvalidArgument(f"{text!r} is not the address of a folder; remove empty, `.` and `..` segments") from None

    @property
    def is_local(self) -> bool:
        return self.scheme == LOCAL

    @property
    def bucket(self) -> str:
        """The part before the first slash: bucket, container or host."""
        return self.path.split("/", 1)[0]

    @property
    def prefix(self) -> str:
        """The part after the bucket; empty if the table is a whole bucket."""
        return self.path.partition("/")[2]

    def relative(self, logged: str) -> str:
        """A path of the log, relative to this root and checked; UnsafePath if it is not inside."""
        if are_plain([logged]):
            return logged
        scheme, path = _split_scheme(logged)
        if scheme != LOCAL or (self.is_local and path.startswith("/")):
            if scheme != self.scheme:
                raise UnsafePath(f"path {logged!r} in the log points to another store than {str(self)!r}")
            inside = self.path.rstrip("/") + "/"
            if not path.startswith(inside):
                raise UnsafePath(f"path {logged!r} in the log is outside of the table {str(self)!r}")
            path = path[len(inside) :]
        return check_relative(path)

    def join(self, relative: str) -> str:
        return posixpath.join(self.path, relative)

    def __str__(self) -> str:
        return self.path if self.is_local else f"{self.scheme}://{self.path}"


def _split_scheme(text: str) -> tuple[str, str]:
    """Normalised scheme and path: all names of a store become one, so that paths written by different programs are comparable (C-22)."""
    match = SCHEME.match(text)
    if match is None:
        return LOCAL, text
    scheme = _ALIASES.get(match[1].lower(), match[1].lower())
    path = text[match.end() :]
    if scheme == LOCAL:
        return LOCAL, "/" + path.lstrip("/")
    path = path.removeprefix("//")
    if scheme == "abfss":
        authority, slash, rest = path.partition("/")
        path = authority.replace(".blob.core.windows.net", ".dfs.core.windows.net") + slash + rest
    return scheme, path


def check_no_user(text: str) -> None:
    """ConfigError if an address contains a user or a password, which would appear in reports and logs.

    `container@account`, as Azure writes a container, is allowed.
    """
    scheme, path = _split_scheme(text)
    user = path.lstrip("/").split("/", 1)[0].rpartition("@")[0] if scheme != LOCAL else ""
    if ":" in user or (user and scheme not in _USER_ALLOWED):
        raise ConfigError(f"the {scheme} address carries credentials; they come from the environment, a profile or the instance")


def are_plain(paths: Sequence[str]) -> bool:
    """Whether all paths are relative, of letters, digits and `_ . = -`, without segments that are empty or begin with a dot.

    If False, `TableRoot.relative` decides about each path. Most paths are plain, and this check takes a tenth of the time.
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
    """Returns `path` if each of its segments is a plain name; UnsafePath otherwise.

    Paths are literal and never URL-decoded, but a path that would leave the table if another program decoded it is refused, too.
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
    """`column=value`, escaped as Hive does; null has a reserved name."""
    if value is None or value == "":
        return f"{escape_hive(column)}={NULL_PARTITION}"
    return f"{escape_hive(column)}={escape_hive(value)}"


def escape_hive(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED or ord(c) < 32 else c for c in text)


def split_path(partition_folders: list[str], unique: str) -> str:
    """The path of a new split: `a=1/b=2/splits/split-<uuid>.split`."""
    return check_relative("/".join([*partition_folders, "splits", f"split-{unique}.split"]))


def is_our_split(path: str) -> bool:
    return _SPLIT_NAME.fullmatch(path) is not None  # not match: `$` lets a newline follow


def is_split(path: str) -> bool:
    """Whether a writer of this format, of any program, may have put a split there."""
    return _ANY_SPLIT.fullmatch(path) is not None


def temporary_name(purpose: str = "") -> str:
    """A new name for a file that its writer deletes when it is done. Readers ignore such files, and purge deletes those left behind."""
    return f"{TEMPORARY}{purpose}{uuid.uuid4().hex}"


def is_our_temporary(path: str) -> bool:
    return TEMPORARY in path and _TEMPORARY_PATH.fullmatch(path) is not None
