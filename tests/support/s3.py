"""S3 servers on localhost, installed from PyPI: ministack for most tests, SeaweedFS for a few."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import s3fs

KEY, SECRET = "labkey", "labsecret"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class Server:
    host: str
    port: int
    bucket: str

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return options(self.url)

    def place(self) -> str:
        """A new, empty table address."""
        return f"s3://{self.bucket}/{uuid.uuid4().hex}"

    def with_bucket(self) -> Server:
        """The server with a new bucket: ministack scans the whole bucket for every listing."""
        bucket = f"tables-{uuid.uuid4().hex}"
        connect(self.url).call_s3("create_bucket", Bucket=bucket)
        return replace(self, bucket=bucket)


def options(url: str, timeout: str = "30s") -> dict[str, str]:
    return {"s3.endpoint": url, "s3.region": "us-east-1", "storage.timeout": timeout}


@contextlib.contextmanager
def ministack(data: Path | None = None) -> Iterator[Server]:
    """Runs ministack under uvicorn, which uses a third of the CPU per request of the server that its own command starts.

    With `data`, the files in its folder `000000000000/tables` exist as objects from the start, and changes are written back.
    """
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "uvicorn", "ministack.app:app", "--host=127.0.0.1", f"--port={port}", "--log-level=error"]
    kept = {} if data is None else {"S3_PERSIST": "1", "S3_DATA_DIR": str(data)}
    with _serving(command, port, {"GATEWAY_PORT": str(port), "SERVICES": "s3", "LOG_LEVEL": "ERROR", **kept}) as server:
        yield server


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[Server]:
    """Runs SeaweedFS on localhost without telemetry, with one volume per bucket (the default of seven fills the disk quota)."""
    s3, master, volume, filer, *grpc = free_ports(8)
    identity = {"name": "lab", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    command = [
        str(Path(sys.executable).parent / "weed"), "-logtostderr=true", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        "-master.telemetry=false", f"-master.port={master}", f"-volume.port={volume}", "-filer", f"-filer.port={filer}",
        f"-master.port.grpc={grpc[0]}", f"-volume.port.grpc={grpc[1]}", f"-filer.port.grpc={grpc[2]}", f"-s3.port.grpc={grpc[3]}",
        "-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-volume.max=100", "-master.volumeSizeLimitMB=64",
    ]  # fmt: skip
    with _serving(command, s3, {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}) as server:
        yield server


@contextlib.contextmanager
def _serving(command: list[str], port: int, environment: dict[str, str]) -> Iterator[Server]:
    with running(command, environment) as process:
        server = Server("127.0.0.1", port, "tables")
        _wait(server, process)
        yield server


@contextlib.contextmanager
def running(command: list[str], environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process without output, killed at the end with its children."""
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=null, stderr=null, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    """Waits until a bucket can be created and written to."""
    for _ in range(300):
        assert process.poll() is None, f"the server ended with {process.returncode}"
        with contextlib.suppress(OSError):
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(server.url, timeout=2):
                pass
            client = connect(server.url)
            with contextlib.suppress(FileExistsError):  # it exists in the data of the server
                client.call_s3("create_bucket", Bucket=server.bucket)
            client.call_s3("put_object", Bucket=server.bucket, Key="warm", Body=b"up")
            return
        time.sleep(0.2)
    raise AssertionError("the server does not answer")


def connect(url: str) -> Any:
    """A plain client that reads the server independently of the product."""
    return s3fs.S3FileSystem(endpoint_url=url, key=KEY, secret=SECRET, use_listings_cache=False, skip_instance_cache=True)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
