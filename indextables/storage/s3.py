"""S3 through the client of s3fs: one request per call, no caches, no retries but ours.

The file methods of s3fs are not used: they list from a cache that never expires, ask for the size before every read, and retry on two
levels. A file is created atomically by one PutObject with `If-None-Match: *`: not all servers check that condition for multipart uploads.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from indextables import limits
from indextables.errors import StorageError, StorageRefused
from indextables.logs import logger
from indextables.process_cache import ProcessCache
from indextables.storage.faults import fault_of, retrying, silence_loggers
from indextables.storage.remote import Page
from indextables.storage.store import Entry, StoreSpec

Result = TypeVar("Result")

_S3_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3,6})?Z")
_CONNECTIONS = 64
_IDLE_SECONDS = 4  # servers and gateways close connections after 5 idle seconds or more: using such a connection wastes an attempt
_clients: ProcessCache[tuple[str, str, float], Any] = ProcessCache()  # by server; all tables share its connections


class S3Backend:
    creates_atomically = True
    needs_probe = True

    def __init__(self, spec: StoreSpec) -> None:
        self.spec = spec
        self.bucket = spec.root.bucket

    def put(self, path: str, data: bytes, seconds: float, *, if_absent: bool) -> int:
        condition = {"IfNoneMatch": "*"} if if_absent else {}
        return _time_ms(self._call("put_object", seconds, Key=self._key(path), Body=data, **condition))

    def get(self, path: str, seconds: float, start: int | None = None, end: int | None = None) -> bytes:
        span = {} if start is None or end is None else {"Range": f"bytes={start}-{end - 1}"}

        async def fetch(s3: Any) -> bytes:
            answer = await s3._call_s3("get_object", Bucket=self.bucket, Key=self._key(path), **span)
            async with answer["Body"] as body:
                if answer["ContentLength"] > limits.OBJECT_BYTES:
                    raise StorageRefused(f"{path!r} is larger than the {limits.OBJECT_BYTES} bytes that are read in one piece")
                return bytes(await body.read())

        try:
            return self._run(fetch, seconds)
        except Exception as error:
            if span and _status(error) == 416:  # the range starts beyond the end
                return b""
            raise

    def size(self, path: str, seconds: float) -> int:
        return int(self._call("head_object", seconds, Key=self._key(path))["ContentLength"])

    def page(self, folder: str, after: str | None, token: str | None, seconds: float) -> Page:
        prefix = self._key(folder + "/" if folder else "")
        more = {"ContinuationToken": token} if token else {"StartAfter": self._key(after)} if after else {}
        answer = self._call("list_objects_v2", seconds, Prefix=prefix, **more)
        base = len(self._key(""))
        entries = [
            Entry(item["Key"][base:], item["Size"], int(item["LastModified"].timestamp() * 1000))
            for item in answer.get("Contents", ())
            if not item["Key"].endswith("/")  # a folder marker of another program
        ]
        return Page(entries, answer.get("NextContinuationToken") if answer.get("IsTruncated") else None)

    def delete(self, path: str, seconds: float) -> None:
        self._call("delete_object", seconds, Key=self._key(path))

    def upload_parts(self, source: Path, path: str, timeout: float) -> int:
        send = partial(self._retried, path, timeout, Key=self._key(path))
        upload = send("create_multipart_upload")["UploadId"]
        try:
            with open(source, "rb") as file, ThreadPoolExecutor(limits.PARALLEL_PARTS) as pool:
                size = os.fstat(file.fileno()).st_size
                part_bytes = max(limits.PART_BYTES, -(-size // 10_000))  # S3 takes 10,000 parts

                def put_part(number: int) -> dict[str, Any]:
                    body = os.pread(file.fileno(), part_bytes, number * part_bytes)
                    answer = send("upload_part", UploadId=upload, PartNumber=number + 1, Body=body)
                    return {"PartNumber": number + 1, "ETag": answer["ETag"]}

                parts = list(pool.map(put_part, range(-(-size // part_bytes))))
            return self._complete(path, timeout, upload, parts, size)
        except BaseException:
            self._abort(path, upload)
            raise

    def _complete(self, path: str, timeout: float, upload: str, parts: list[dict[str, Any]], size: int) -> int:
        """Completes the upload. If the upload is gone because an answer was lost, the size of the object shows that it was completed."""
        try:
            answer = self._retried(
                path, timeout, "complete_multipart_upload", Key=self._key(path), UploadId=upload, MultipartUpload={"Parts": parts}
            )
        except FileNotFoundError:
            answer = self._retried(path, timeout, "head_object", Key=self._key(path))
            if answer["ContentLength"] != size:
                raise StorageError(f"{path!r} was not stored completely") from None
        return _time_ms(answer)

    def _abort(self, path: str, upload: str) -> None:
        """Best effort: lifecycle rules of the bucket should delete uploads that stay unfinished."""
        try:
            self._call("abort_multipart_upload", self.spec.timeout / 3, Key=self._key(path), UploadId=upload)
        except Exception as error:
            logger.debug("an unfinished upload of %r was not deleted: %s", path, fault_of(error).sentence)

    def _retried(self, path: str, timeout: float, method: str, **arguments: Any) -> Any:
        return retrying(self.spec.root, path, timeout, lambda seconds: self._call(method, max(seconds, timeout / 2), **arguments))

    def _key(self, path: str) -> str:
        return f"{self.spec.root.prefix}/{path}" if self.spec.root.prefix else path

    def _call(self, method: str, seconds: float, **arguments: Any) -> Any:
        return self._run(lambda s3: s3._call_s3(method, Bucket=self.bucket, **arguments), seconds)

    def _run(self, request: Callable[[Any], Coroutine[Any, Any, Result]], seconds: float) -> Result:
        """Runs the request on s3fs' event loop; cancelled when the time is over."""
        server = self.spec.endpoint, self.spec.region, self.spec.timeout
        s3 = _clients.get_or_make(server, lambda: _connect(*server))
        future = asyncio.run_coroutine_threadsafe(_bounded(request, s3, seconds), s3.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def _connect(endpoint: str, region: str, timeout: float) -> Any:
    """A client with the credentials that botocore finds: environment, profile, instance."""
    import s3fs

    silence_loggers(("botocore", "aiobotocore", "s3fs", "fsspec", "aiohttp"))  # they log signatures, headers and addresses
    config: dict[str, Any] = {
        "retries": {"total_max_attempts": 1},
        "connect_timeout": min(10.0, timeout / 3),
        "read_timeout": timeout,
        "max_pool_connections": _CONNECTIONS,
        "connector_args": {"keepalive_timeout": _IDLE_SECONDS},
        "http_session_cls": _once_only(),
    }
    if endpoint:
        config["s3"] = {"addressing_style": "path"}  # self-hosted servers seldom have a host name per bucket
    client = s3fs.S3FileSystem(
        session=_session(),
        endpoint_url=endpoint or None,
        client_kwargs={"region_name": region} if region else {},
        config_kwargs=config,
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    client.retries = 1
    client.connect()  # loads botocore's service description, which takes longer than most requests
    return client


def _session() -> Any:
    """A session with a fast parser of times: botocore tries several formats, which is three quarters of the cost of a listing."""
    from aiobotocore.session import AioSession
    from botocore.utils import parse_timestamp

    def moment(value: Any) -> datetime:
        usual = isinstance(value, str) and _S3_TIME.fullmatch(value)
        return datetime.fromisoformat(value) if usual else parse_timestamp(value)

    session = AioSession()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=moment)
    return session


def _once_only() -> Any:
    """A session class that never resends. aiohttp resends a PUT when a reused connection breaks; the second answer would hide that the
    first request was carried out."""
    from aiobotocore.httpsession import AIOHTTPSession

    class OnceOnly(AIOHTTPSession):  # type: ignore[misc]
        async def _get_session(self, proxy_url: Any) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = False
            return session

    return OnceOnly


async def _bounded(request: Callable[[Any], Coroutine[Any, Any, Result]], s3: Any, seconds: float) -> Result:
    return await asyncio.wait_for(request(s3), seconds)


def _status(error: BaseException) -> int | None:
    response = getattr(error.__cause__ or error, "response", None)
    return response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(response, dict) else None


def _time_ms(answer: Any) -> int:
    """The time of an answer by the store's clock, to the second."""
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        return int(parsedate_to_datetime(date).timestamp() * 1000)
    except (TypeError, ValueError):
        return time.time_ns() // 1_000_000
