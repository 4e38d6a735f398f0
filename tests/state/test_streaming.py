"""Checkpoints are written in pieces (CKP-11): memory use is bounded by one manifest, whatever the size of the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = """
import gc, os, sys, tempfile, threading, time
import pyarrow as pa
from indextables.actions import Metadata, Protocol
from indextables.config import Config
from indextables.log.log import TransactionLog
from indextables.paths import TableRoot
from indextables.schema import to_spark_json
from indextables.state.checkpoints import any_format
from indextables.actions.layers import LayeredFiles
from indextables.state.checkpoints.contents import Contents, CheckpointOptions
from indextables.storage import LocalStore
from tests.benchmarks.filters import PARTITIONS, SCHEMA, live_files

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

def written(folder, files):
    log = TransactionLog(LocalStore(TableRoot(folder)))
    metadata = Metadata(id="x", schema_string=to_spark_json(SCHEMA), partition_columns=PARTITIONS)
    contents = Contents(1, Protocol(min_reader_version=4, min_writer_version=4), metadata, LayeredFiles(files), files.totals, [], [])
    return any_format.write_checkpoint(log, contents, CheckpointOptions.of(Config.of({"state.format": sys.argv[1]})))

with tempfile.TemporaryDirectory() as folder:
    written(f"{folder}/warm", live_files(1000))
    files = live_files(int(sys.argv[2]))
    gc.collect()
    pa.default_memory_pool().release_unused()
    before = peak = resident()
    done = False
    def watch():
        global peak
        while not done:
            peak = max(peak, resident())
            time.sleep(0.002)
    watcher = threading.Thread(target=watch)
    watcher.start()
    assert written(f"{folder}/t", files).num_files == int(sys.argv[2])
    done = True
    watcher.join()
    print(peak - before)
"""
MIB = 1024 * 1024


def growth(form: str, files: int) -> int:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", MEMORY, form, str(files)]
    return int(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=300).stdout)


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_memory_does_not_grow_with_the_table(form: str) -> None:
    """With four times the files, whose columns take 100 MiB more, writing adds about the same to the peak."""
    few, many = growth(form, 100_000), growth(form, 400_000)
    print(f"CKP-11, {form}: {few / MIB:.0f} MiB more at the peak for 100,000 files, {many / MIB:.0f} MiB for 400,000")
    assert many - few < 64 * MIB
