"""Whole tables in every store, through every interface."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import indextables as it
from indextables.cli.main import main
from indextables.storage import StoreSpec
from tests.support.fault_proxy import FaultProxy
from tests.support.s3 import Server, options
from tests.support.tables import SCHEMA, FakeTime, ids, rows


def test_a_table_in_every_store(spec: StoreSpec) -> None:
    settings = {"s3.endpoint": spec.endpoint, "s3.region": spec.region, "storage.singleWriter": str(spec.single_writer).lower()}
    place, time = str(spec.root), FakeTime()
    time.ms = _now_ms()
    assert not it.exists(place, settings)
    with pytest.raises(it.TableNotFound):
        it.open(place, options=settings)
    with pytest.raises(it.TableNotFound):
        it.open(place, timestamp="2030-01-01", options=settings)
    table = it.create(place, SCHEMA, partition_by=["date"], options=settings, clock=time.clock())
    assert it.exists(place, settings)
    assert table.configuration == {}
    for start in (0, 10, 20):
        table.append(rows(start, 10))
    assert ids(table) == list(range(30))
    assert table.search("timeout", limit=100).num_rows == it.open(place, options=settings).search("timeout", limit=100).num_rows > 0
    assert table.merge_splits().metrics["files_removed"] == 6
    table.checkpoint()
    assert ids(it.open(place, version=2, options=settings)) == list(range(20))
    assert ids(it.open(place, options=settings)) == list(range(30))
    table.overwrite(rows(100, 2))
    time.pass_days(60)
    report = table.purge(older_than="1d", log_retention="1d")
    assert report.metrics["files_deleted"] == 8
    assert ids(it.open(place, options=settings)) == [100, 101]


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def test_the_terminal_and_another_name_of_the_scheme(
    mini: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The endpoint from the environment; `s3a://`, as Spark's users write it, is the same table."""
    monkeypatch.setenv("INDEXTABLES_S3_ENDPOINT", mini.url)
    monkeypatch.setenv("INDEXTABLES_S3_REGION", "us-east-1")
    place = mini.place()
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({"id": n, "message": f"disk {n} full"}) + "\n" for n in range(5)))
    assert main(["append", place, str(source), "--create"]) == 0
    assert main(["append", place.replace("s3:", "s3a:"), str(source)]) == 0
    capsys.readouterr()
    for verb in (["merge-splits"], ["checkpoint"], ["purge", "--dry-run"]):
        assert main([verb[0], place, *verb[1:]]) == 0
    capsys.readouterr()
    assert main(["count", place.replace("s3:", "s3n:"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"count": 10}
    assert main(["search", place, "disk", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 10
    assert main(["config", place, "--json"]) == 0
    assert mini.url not in capsys.readouterr().out
    assert main(["describe", "s3://no-such-bucket/t"]) == 78
    assert main(["describe", mini.place()]) == 78


def test_a_forked_child_uses_a_table_opened_before(mini: Server) -> None:
    place = mini.place()
    table = it.create(place, SCHEMA, options=mini.options)
    table.append(rows(0, 5))
    assert ids(table) == [0, 1, 2, 3, 4]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            table.append(rows(5, 5))
            code = 0 if ids(table) == list(range(10)) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert ids(it.open(place, options=mini.options)) == list(range(10))


def test_requests_of_an_append_and_of_a_cold_open(proxy: FaultProxy, mini: Server) -> None:
    """The number of requests of an operation: none only asks whether something exists."""
    place, settings = mini.place(), options(proxy.url)
    table = it.create(place, SCHEMA, options=settings)
    table.append(rows(0, 5))
    proxy.clear()
    table.append(rows(5, 5))
    append = proxy.verbs()
    proxy.clear()
    it.open(place, options={**settings, "transaction.cache.enabled": "false"})
    opened = proxy.verbs()
    proxy.clear()
    it.open(place, options=settings)
    again = proxy.verbs()
    assert append["PUT"] == 2  # the split and the version
    assert append["HEAD"] == append["DELETE"] == append["POST"] == 0
    assert append["LIST"] <= 2
    assert append["GET"] <= 1
    # Three versions, and the pointer, which does not exist yet.
    assert opened == {"GET": 4, "HEAD": 0, "LIST": 1, "PUT": 0, "POST": 0, "DELETE": 0}
    assert again == {**opened, "GET": 1}  # the newest version, which shows that the log is still the same
    proxy.clear()
    assert ids(it.open(place, options=settings)) == list(range(10))
    assert ids(it.open(place, options=settings)) == list(range(10))
    assert sum("splits/" in r.path and r.method == "GET" for r in proxy.log) == 2  # each split is fetched once
