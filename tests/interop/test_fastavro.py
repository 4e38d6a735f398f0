"""An independent reader: fastavro reads every Avro file that we write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest

import indextables as it
from tests.support.avro_tables import commit, file, manifest_files, start
from tests.support.logs import log_folder


def read(path: Path) -> list[Any]:
    with path.open("rb") as stream:
        return list(fastavro.reader(stream))


@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
def test_fastavro_reads_what_we_write(tmp_path: Path, codec: str) -> None:
    options = {"state.compression": codec, "state.manifestFormat": "avro", "state.entriesPerManifest": "100"}
    table = start(tmp_path / "t", **options)
    commit(table, *(file(f"f{n:05d}", n % 7, splitTags=["x", "ü"], tags={"k": "v"} if n % 3 else None) for n in range(300)))
    it.open(table).checkpoint()
    commit(table, {"remove": {"path": "f00007"}}, file("g", 3))
    it.open(table).checkpoint()
    (state,) = read(log_folder(table) / f"state-v{2:020d}" / "_manifest.avro")
    assert (state["numFiles"], state["stateVersion"], state["tombstones"]) == (300, 2, ["f00007"])
    assert {f"manifests/{path.name}" for path in manifest_files(table)} == {info["path"] for info in state["manifests"]}
    entries = [entry for info in state["manifests"] for entry in read(log_folder(table) / info["path"])]
    assert sorted(entry["path"] for entry in entries) == [*(f"f{n:05d}" for n in range(300)), "g"]
    first = next(entry for entry in entries if entry["path"] == "f00001")
    values = (first["partitionValues"], first["splitTags"], first["tags"], first["addedAtVersion"], first["minValues"], first["size"])
    assert values == ({"p": "1"}, ["x", "ü"], {"k": "v"}, 1, {"id": "1"}, 6)
