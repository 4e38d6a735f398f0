"""R19: canary secrets never appear in output, whatever fails."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import indextables as it
from indextables.cli.main import main
from indextables.config import Config
from indextables.errors import ConfigError, IndexTablesError
from indextables.paths import TableRoot
from indextables.storage import open_store
from tests.contract.conftest import CLOUDS, spec_of
from tests.support.clouds import Cloud
from tests.support.fault_proxy import FaultProxy
from tests.support.s3 import Server, options
from tests.support.tables import SCHEMA, rows

KEY, SECRET, TOKEN = "AKIACANARYKEY0000001", "canarysecret/0000000000000000000000002", "canarytoken0000003"
CANARIES = (KEY, SECRET, TOKEN, "canaryuser", "canarypass", "canaryhost", "canaryquery")


@pytest.fixture
def _canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", TOKEN)):
        monkeypatch.setenv(name, value)


def shown(error: BaseException) -> str:
    """Everything a program may print of an error: its message, its repr, the trace with all causes."""
    return "\n".join([str(error), repr(error), *traceback.format_exception(error)])


BAD_ADDRESSES = [
    "s3://canaryuser:canarypass@bucket/t", "s3://canaryuser@bucket/t", "sftp://canaryuser:canarypass@canaryhost/t",
    "s3://bucket/t?X-Amz-Signature=canaryquery", "https://x.blob.core.windows.net/c/t?sig=canaryquery", "abfss://c:canarypass@a.dfs.core.windows.net/t",
]  # fmt: skip


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="credentials") as caught:
        TableRoot.parse(address)
    assert not any(canary in str(caught.value) for canary in CANARIES)
    assert main(["describe", address]) == 78
    printed = capsys.readouterr()
    assert not any(canary in printed.out + printed.err for canary in CANARIES)


SECRET_OPTIONS = [
    "s3.secretKey", "s3.accessKey", "aws.accessKey", "spark.indextables.aws.sessionToken", "password",
    "azure.accountKey", "azure.connectionString", "azure.sasToken", "azure.clientSecret", "fs.azure.account.oauth2.client.endpoint",
    "gcs.credentials", "gs.token", "gs.serviceAccount", "fs.gs.auth.service.account.json.keyfile", "google.application_credentials",
]  # fmt: skip


@pytest.mark.parametrize("key", SECRET_OPTIONS)
def test_options_that_look_like_credentials_are_refused_by_name(key: str) -> None:
    with pytest.raises(ConfigError, match="credentials come from the environment") as caught:
        it.open("s3://bucket/t", options={key: SECRET})
    assert key in str(caught.value)
    assert SECRET not in shown(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["http://canaryuser:canarypass@canaryhost", "http://canaryhost/?x=canaryquery", "ftp://canaryhost", "canaryhost"]
)
def test_an_invalid_endpoint_is_not_repeated(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"option s3\.endpoint is not an address") as caught:
        it.open("s3://bucket/t", options={"s3.endpoint": endpoint})
    assert not any(canary in str(caught.value) + repr(caught.value) for canary in CANARIES)


@pytest.mark.usefixtures("_canaries")
def test_no_fault_shows_a_secret(proxy: FaultProxy, mini: Server) -> None:
    """Every error of every verb, with all loggers at the lowest level."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    texts: list[str] = []
    try:
        place = mini.place()
        table = it.create(place, SCHEMA, options=options(proxy.url))
        texts += [repr(table), repr(table.append(rows(0, 3)).to_dict()), repr(table._context), repr(table._context.store)]
        for url in (proxy.url, "http://canaryhost.invalid:1"):
            for fault in ("403", "503", "500", "reset", "hang", "truncate", "apply_503"):
                proxy.clear()
                proxy.rule(fault, times=1000)
                store = open_store(spec_of(place, **options(url, "0.6s")))
                texts += [repr(store), repr(store.spec)]
                calls: list[Callable[[], object]] = [
                    lambda store=store: store.read("x"), lambda store=store: list(store.list("x")),
                    lambda store=store: store.create("x", b"1"), lambda store=store: store.delete("x"),
                ]  # fmt: skip
                for call in calls:
                    try:
                        call()
                    except (IndexTablesError, FileNotFoundError) as error:
                        texts.append(shown(error))
                if url != proxy.url:
                    break
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    texts.append(stream.getvalue())
    everything = "\n".join(texts)
    assert len(texts) > 35
    for canary in CANARIES:
        assert canary not in everything, canary
    assert proxy.url not in everything


def test_a_config_and_a_table_do_not_show_the_endpoint(mini: Server) -> None:
    table = it.create(mini.place(), SCHEMA, options=mini.options)
    assert mini.url not in repr(Config.of(mini.options)) + repr(table._context) + repr(table.describe()) + repr(table.metadata)


def cloud_canaries(kind: str, cloud: Cloud, proxy: FaultProxy, tmp_path: Path) -> tuple[dict[str, str], list[str]]:
    """The environment for a store behind the proxy, with every credential its library uses, and the strings that must not appear."""
    if kind == "google":
        key = tmp_path / "canaryfile.json"
        key.write_text(
            json.dumps(
                {"type": "authorized_user", "client_id": "canaryclient", "client_secret": "canarysecret", "refresh_token": "canarytoken"}
            )
        )
        return {"STORAGE_EMULATOR_HOST": proxy.url, "GOOGLE_APPLICATION_CREDENTIALS": str(key)}, [proxy.url, "canary"]
    text = cloud.environment["AZURE_STORAGE_CONNECTION_STRING"]
    account_key = text.partition("AccountKey=")[2].partition(";")[0]
    around = {"AZURE_STORAGE_CONNECTION_STRING": text.replace(cloud.url, proxy.url), "AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=canarysas"}
    return around, [proxy.url, account_key, "canary"]


if CLOUDS:

    @pytest.mark.parametrize("kind", CLOUDS)
    def test_no_fault_of_another_store_shows_a_secret(
        kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        cloud: Cloud = request.getfixturevalue(kind)
        host, _, port = cloud.url.removeprefix("http://").partition(":")
        texts: list[str] = []
        with FaultProxy((host, int(port))).running() as proxy, caplog.at_level(logging.DEBUG):
            around, hidden = cloud_canaries(kind, cloud, proxy, tmp_path)
            for name, value in around.items():
                monkeypatch.setenv(name, value)
            for fault in ("403", "503", "409", "reset", "truncate", "apply_503"):
                store = open_store(spec_of(cloud.place(), **{"storage.timeout": "0.6s"}))
                texts += [repr(store), repr(store.spec)]
                proxy.clear()
                proxy.rule(fault, times=1000)
                calls: list[Callable[[], object]] = [
                    lambda store=store: store.read("x"), lambda store=store: list(store.list("x")),
                    lambda store=store: store.create("x", b"1"), lambda store=store: store.delete("x"),
                ]  # fmt: skip
                for call in calls:
                    try:
                        call()
                    except (IndexTablesError, FileNotFoundError) as error:
                        texts.append(shown(error))
        assert len(texts) > 24
        everything = "\n".join([*texts, caplog.text])
        assert [secret for secret in hidden if secret in everything] == []
