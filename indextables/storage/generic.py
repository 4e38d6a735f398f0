"""All other stores that fsspec supports. Google's and Azure's create files atomically; the others need a single writer."""

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
from indextables.storage.faults import retrying, silence_loggers
from indextables.storage.remote import Page
from indextables.storage.store import Entry, StoreSpec

# These stores check a condition themselves: ifGenerationMatch=0, and If-None-Match: *.
_CONDITIONAL = frozenset({"gs", "abfss"})
_PROTOCOLS = {"abfss": "abfs"}
_PACKAGES = {
    "gs": "gcsfs (pip install 'indextables[gs]')",
    "abfss": "adlfs (pip install 'indextables[azure]')",
    "hdfs": "libhdfs of Hadoop, for pyarrow",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
# Their loggers write addresses, headers and parts of credentials.
_LOGGERS = ("fsspec", "gcsfs", "google", "adlfs", "azure", "msal", "aiohttp", "urllib3", "paramiko")


class FsspecBackend:
    needs_probe = False

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.creates_atomically = spec.root.scheme in _CONDITIONAL
        self._class = _implementation(spec.root.scheme)

    def put(self, path: str, data: bytes, seconds: float, *, if_absent: bool) -> int:
        target = self._key(path)
        if not self.creates_atomically:  # hdfs, sftp …: the folder must exist first
            self._fs().makedirs(target.rpartition("/")[0], exist_ok=True)
        self._call("pipe_file", seconds, target, data, mode="create" if if_absent else "overwrite")
        return time.time_ns() // 1_000_000

    def get(self, path: str, seconds: float, start: int | None = None, end: int | None = None) -> bytes:
        if start is not None:
            size = self.size(path, seconds)  # a range beyond the end is empty, not an error
            if start >= size:
                return b""
            end = min(end or size, size)
        return bytes(self._call("cat_file", seconds, self._key(path), start=start, end=end))

    def size(self, path: str, seconds: float) -> int:
        return int(self._call("info", seconds, self._key(path))["size"])

    def page(self, folder: str, after: str | None, token: str | None, seconds: float) -> Page:
        """Everything in one page: fsspec has no paging."""
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
        # The library sends the file in one request: allow a second per megabyte.
        seconds = max(timeout, source.stat().st_size / 1_000_000)
        retrying(self.spec.root, path, seconds, lambda allowed: self._call("put_file", max(allowed, seconds / 2), str(source), target))
        return time.time_ns() // 1_000_000

    def _key(self, path: str) -> str:
        protocol = _PROTOCOLS.get(self.spec.root.scheme, self.spec.root.scheme)
        return f"{protocol}://{self.spec.root.join(path)}"

    def _strip(self, key: str) -> str:
        return str(self._class._strip_protocol(key))

    def _call(self, method: str, seconds: float, key: str, *arguments: Any, **options: Any) -> Any:
        """Calls the library within the time limit if it is asynchronous; other libraries cannot be stopped."""
        fs = self._fs()
        places = [key if method == "put_file" else self._strip(key), *(self._strip(a) if method == "put_file" else a for a in arguments)]
        coroutine: Callable[..., Any] | None = getattr(fs, f"_{method}", None) if fs.async_impl else None
        if coroutine is None:
            return getattr(fs, method)(*places, **options)
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine(*places, **options), seconds), fs.loop)
        try:
            return future.result(seconds + 0.1)  # Azure's library may continue after it was cancelled
        except BaseException:
            future.cancel()
            raise

    def _fs(self) -> Any:
        """This process's file system object; the library finds credentials and addresses in its own way."""
        return _connected.get_or_make(self, self._connect)

    def _connect(self) -> Any:
        """StorageRefused if the library lacks an address or credentials; its message, which may contain some, is not repeated."""
        silence_loggers(_LOGGERS)
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
        if scheme == "gs":  # gcsfs.GCSFileSystem would first ask another service for the type of each bucket
            from gcsfs.core import GCSFileSystem

            return GCSFileSystem
        return fsspec.get_filesystem_class(_PROTOCOLS.get(scheme, scheme))
    except ImportError:
        needed = _PACKAGES.get(scheme, f"the package of fsspec for {scheme}")
        raise ConfigError(f"{scheme}:// needs a package that is not installed: install {needed}") from None
    except ValueError:
        raise ConfigError(f"{scheme}:// is not a store that fsspec supports") from None


def _entry(path: str, info: dict[str, Any]) -> Entry:
    """An entry of a listing. An unknown time (stores report 1970 or none) is UNKNOWN_MS, so that purge keeps the file."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = info.get(name)
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            value = value.timestamp()
        if isinstance(value, int | float) and value > 0:
            return Entry(path, int(info["size"]), int(value * 1000))
    return Entry(path, int(info["size"]), UNKNOWN_MS)
