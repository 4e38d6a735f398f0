"""An independent reader: the Java Avro library of Spark reads our manifests and states, field by field."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyspark

import indextables as it
from indextables.environment import find_java
from tests.support.avro_tables import commit, file, manifest_files, start
from tests.support.logs import log_folder


def read(*paths: Path) -> list[list[Any]]:
    """The schema and the records of each file, as Java prints them. Uses a py4j gateway, so that no Java compiler is needed."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    jars = Path(pyspark.__file__).parent / "jars"
    port = launch_gateway(
        jarpath=str(next(jars.glob("py4j*.jar"))),
        classpath=str(jars / "*"),
        java_path=str(find_java(os.environ).home / "bin" / "java"),
        javaopts=["-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        return [_records(gateway.jvm, path) for path in paths]
    finally:
        gateway.shutdown()


def _records(java: Any, path: Path) -> list[Any]:
    reader = java.org.apache.avro.file.DataFileReader(java.java.io.File(str(path)), java.org.apache.avro.generic.GenericDatumReader())
    texts = [reader.getSchema().toString()]
    while reader.hasNext():
        texts.append(reader.next().toString())
    reader.close()
    return [json.loads(text) for text in texts]


def test_java_reads_what_we_write(tmp_path: Path) -> None:
    """Every codec in one process, because starting Java is slow."""
    more = {"splitTags": ["x"], "numMergeOps": 3, "tags": {"k": "v"}, "deleteOpstamp": 5}
    files: list[Path] = []
    for codec in ("zstd", "snappy", "none"):
        table = start(tmp_path / codec, **{"state.compression": codec, "state.manifestFormat": "avro"})
        commit(table, *(file(f"f{n:05d}", n % 7, **(more if n % 2 else {})) for n in range(300)))
        it.open(table).checkpoint()
        files += [*manifest_files(table), log_folder(table) / "state-v00000000000000000001" / "_manifest.avro"]
    found = read(*files)
    assert len(found) == 6
    for (schema, *records), (_, state), path in zip(found[0::2], found[1::2], files[0::2], strict=True):
        assert (schema["name"], schema["namespace"]) == ("FileEntry", "io.indextables.spark.transaction.avro")
        assert [r["path"] for r in records] == [f"f{n:05d}" for n in range(300)]
        odd = records[1]
        optional = ({"p": "1"}, ["x"], 3, {"k": "v"}, 5)
        assert (odd["partitionValues"], odd["splitTags"], odd["numMergeOps"], odd["tags"], odd["deleteOpstamp"]) == optional
        known = ({"id": "1"}, {"id": "9"}, 6, 1, None)
        assert (odd["minValues"], odd["maxValues"], odd["size"], odd["addedAtVersion"], odd["docMappingRef"]) == known
        assert (state["numFiles"], state["stateVersion"], state["protocolVersion"]) == (300, 1, 4)
        assert state["manifests"][0]["path"] == f"manifests/{path.name}"
        assert state["manifests"][0]["partitionBounds"]["p"] == {"min": "0", "max": "6", "hasNull": False}
