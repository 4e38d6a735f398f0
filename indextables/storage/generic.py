"""Every other store that fsspec knows. Google's and Azure's create atomically by their own condition; the rest only for a single writer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from indextables.clock import UNKNOWN_MS
from indextables.errors import ConfigError, StorageRefused
from indextables.process_cache import ProcessCache
from indextables.storage.faults import silence_loggers
from indextables.storage.remote import Page
from indextables.storage.retry import retrying
from indextables.storage.spec import StoreSpec
from indextables.storage.store import Entry

# Conditional by the store itself: ifGenerationMatch=0, and If-None-Match: *.
_CONDITIONAL = frozenset({"gs", "abfss"})
_PROTOCOLS = {"abfss": "abfs"}
_PACKAGES = {
    "gs": "gcsfs (pip install 'indextables[gs]')",
    "abfss": "adlfs (pip install 'indextables[azure]')",
    "hdfs": "libhdfs of Hadoop, for pyarrow",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
# They write addresses, headers and what they found of credentials.
_TALKATIVE = ("fsspec", "gcsfs", "google", "adlfs", "azure", "msal", "aiohttp", "urllib3", "paramiko")


class FsspecBackend:
    needs_probe = False

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.creates_atomically = spec.root.scheme in _CONDITIONAL
        self._class = _implementation(spec.root.scheme)

    def put(self, path: str, data: bytes, seconds: float, *, if_absent: bool) -> int:
        target = self._key(path)
        if not self.creates_atomically:  # hdfs, sftp …: a folder has to be there first
            self._fs().makedirs(target.rpartition("/")[0], exist_ok=True)
        self._call("pipe_file", seconds, target, data, mode="create" if if_absent else "overwrite")
        return time.time_ns() // 1_000_000

    def get(self, path: str, seconds: float, start: int | None = None, end: int | None = None) -> bytes:
        if start is not None:
            size = self.size(path, seconds)  # what lies behind the end is nothing, and not an error
            if start >= size:
                return b""
            end = min(end or size, size)
        return bytes(self._call("cat_file", seconds, self._key(path), start=start, end=end))

    def size(self, path: str, seconds: float) -> int:
        return int(self._call("info", seconds, self._key(path))["size"])

    def page(self, folder: str, after: str | None, token: str | None, seconds: float) -> Page:
        """All in one page: fsspec has no other."""
        top = self._key(folder) if folder else self._key("").rstrip("/")
        try:
            found = self._call("find", seconds, top, detail=True)
        except FileNotFoundError:
            return Page([], None)
        base = len(self._strip(self._key("")).rstrip("/")) + 1
        entries = [_entry(name[base:], info) for name, info in found.items() if info.get("type") == "file" and name != self._strip(top)]
        return Page(sorted((e for e in entries if after is None or e.path > after), key=lambda e: e.path), None)

    def delete(self, path: str, seconds: float) -> None:
        self._call("rm_file", seconds, self._key(path))

    def upload_parts(self, source: Path, path: str, timeout: float) -> int:
        target = self._key(path)
        if not self.creates_atomically:
            self._fs().makedirs(target.rpartition("/")[0], exist_ok=True)
        # Bounded by the size, at a megabyte a second: the library sends it in one go.
        seconds = max(timeout, source.stat().st_size / 1_000_000)
        retrying(self.spec.root, path, seconds, lambda allowed: self._call("put_file", max(allowed, seconds / 2), str(source), target))
        return time.time_ns() // 1_000_000

    def _key(self, path: str) -> str:
        protocol = _PROTOCOLS.get(self.spec.root.scheme, self.spec.root.scheme)
        return f"{protocol}://{self.spec.root.join(path)}"

    def _strip(self, key: str) -> str:
        return str(self._class._strip_protocol(key))

    def _call(self, method: str, seconds: float, key: str, *arguments: Any, **options: Any) -> Any:
        """Within the time where the library is asynchronous; others cannot be stopped."""
        fs = self._fs()
        places = [key if method == "put_file" else self._strip(key), *(self._strip(a) if method == "put_file" else a for a in arguments)]
        coroutine: Callable[..., Any] | None = getattr(fs, f"_{method}", None) if fs.async_impl else None
        if coroutine is None:
            return getattr(fs, method)(*places, **options)
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine(*places, **options), seconds), fs.loop)
        try:
            return future.result(seconds + 0.1)  # Azure's library may go on after it was cancelled
        except BaseException:
            future.cancel()
            raise

    def _fs(self) -> Any:
        """The file system of this process, with the library's own way to find credentials and addresses."""
        return _connected.get_or_make(self, self._connect)

    def _connect(self) -> Any:
        """StorageRefused where the library lacks an address or credentials; what it says of them is not repeated."""
        silence_loggers(_TALKATIVE)
        try:
            settings = self._class._get_kwargs_from_urls(self._key(""))
            return self._class(**settings, skip_instance_cache=True, use_listings_cache=False)
        except Exception:
            pass
        raise StorageRefused(f"{str(self.spec.root)!r}: the store cannot be opened with the credentials and settings of the environment")


_connected: ProcessCache[FsspecBackend, Any] = ProcessCache()


def _implementation(scheme: str) -> Any:
    import fsspec

    try:
        if scheme == "gs":  # not the class of that name outside: for every bucket it asks another service first, of what kind it is
            from gcsfs.core import GCSFileSystem

            return GCSFileSystem
        return fsspec.get_filesystem_class(_PROTOCOLS.get(scheme, scheme))
    except ImportError:
        needed = _PACKAGES.get(scheme, f"the package of fsspec for {scheme}")
        raise ConfigError(f"{scheme}:// needs a package that is not installed: install {needed}") from None
    except ValueError:
        raise ConfigError(f"{scheme}:// is not a store that fsspec knows") from None


def _entry(path: str, info: dict[str, Any]) -> Entry:
    """An age that is not known is no age: purge keeps it. Stores say 1970 of what is only a prefix, or where they do not know."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = info.get(name)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            value = value.timestamp()
        if isinstance(value, int | float) and value > 0:
            return Entry(path, int(info["size"]), int(value * 1000))
    return Entry(path, int(info["size"]), UNKNOWN_MS)
