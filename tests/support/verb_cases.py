"""All verbs that change a table, each with a table to run on. The tests of R4, R5 and R6 run them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

import indextables as it
from tests.support.locations import Image
from tests.support.simulation import START, Machine, Simulation

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string())])
DAY = 86_400_000
FORMATS: dict[str, dict[str, str]] = {
    "json": {"state.format": "json"},
    "parts": {"state.format": "json", "checkpoint.actionsPerPart": "2", "checkpoint.multiPart.enabled": "true"},
    "parquet": {"state.format": "parquet"},
    "avro": {"state.format": "avro"},
}
# A checkpoint after every commit, and immediate clean-up of everything that may be deleted.
EAGER = {
    "checkpoint.interval": "1", "checkpoint.retention": "1", "logRetention.duration": "0", "checkpointRetention.duration": "0",
    "state.retention.versions": "1", "state.retention.hours": "0",
}  # fmt: skip
NO_CHECK = {"purge.retentionCheckEnabled": "false"}


def rows(start: int, partitions: str = "a") -> list[dict[str, Any]]:
    """Two rows for each partition."""
    return [{"id": start + 2 * number + each, "k": name} for number, name in enumerate(partitions) for each in range(2)]


@dataclass(frozen=True)
class VerbCase:
    """A verb, and the table to run it on. `run` opens the table itself, as a job does."""

    name: str
    run: Callable[[Machine, str], object]
    base: str = "appended"
    repeat_error: type[it.IndexTablesError] | None = None  # what a second run raises
    upgrades: bool = False  # first commits a newer protocol as a separate version


def on(verb: Callable[[it.Table], object], **options: str) -> Callable[[Machine, str], object]:
    return lambda machine, place: verb(machine.open(place, **options))


def create(machine: Machine, place: str, **options: str) -> object:
    settings = {**machine.options, **options}
    return it.create(place, SCHEMA, partition_by=["k"], options=settings, clock=machine.time.clock())


def drop(machine: Machine, place: str) -> object:
    return it.drop(place, confirm=True, options=machine.options)


def repair_target(machine: Machine, place: str) -> str:
    """The folder in which this machine writes the repaired log of a table."""
    return f"{place}-repaired-{machine.options['storage.timeout']}"


def repair(machine: Machine, place: str) -> object:
    return it.repair(place, repair_target(machine, place), options=machine.options, clock=machine.time.clock())


def add_of(table: it.Table) -> dict[str, Any]:
    """A new add of a live file, as another program may write it to change its metadata."""
    file = table.files().to_pylist()[0]
    partition = dict(file["partition_values"])
    return {
        "path": file["path"], "size": file["size"], "modificationTime": 1, "dataChange": True, "partitionValues": partition,
        "numRecords": file["num_records"],
    }  # fmt: skip


def merge(table: it.Table) -> object:
    return table.merge_splits()


def purge(table: it.Table) -> object:
    return table.purge(older_than="24h", log_retention="0s")


def truncate(table: it.Table) -> object:
    return table.truncate_history()


def skip(table: it.Table) -> object:
    return table.log.record_skipped_file(sorted(table.files().column("path").to_pylist())[0], "for a test")


VERBS: dict[str, Callable[[it.Table], object]] = {
    "append": lambda table: table.append(rows(100, "ab")),
    "append with txn": lambda table: table.append(rows(100, "ab"), txn=("app", 1)),
    "overwrite": lambda table: table.overwrite(rows(200, "b")),
    "replaceWhere": lambda table: table.overwrite(rows(300, "a"), where="k = 'a'"),
    "merge_splits": merge,
    "checkpoint": lambda table: table.checkpoint(),
    "purge": purge,
    "truncate_history": truncate,
    "drop_partitions": lambda table: table.drop_partitions("k = 'a'"),
    "commit": lambda table: table.log.commit([{"add": add_of(table)}], "touch"),
    "record_skipped_file": skip,
    "upgrade_protocol": lambda table: table.log.upgrade_protocol(4, 4),
}


def _verb_cases() -> list[VerbCase]:
    plain = [VerbCase(name, on(verb)) for name, verb in VERBS.items() if name not in ("checkpoint", "purge", "truncate_history")]
    return [
        *(
            VerbCase(f"create {form}", partial(create, **FORMATS[form]), "nothing", repeat_error=it.TableExists)
            for form in ("json", "avro")
        ),
        *plain,
        VerbCase("overwrite with nothing", on(lambda table: table.overwrite([]))),
        *(VerbCase(f"checkpoint {form}", on(VERBS["checkpoint"], **FORMATS[form]), upgrades=form in ("avro", "parts")) for form in FORMATS),
        *(VerbCase(f"checkpoint {form} of many", on(VERBS["checkpoint"]), f"aged {form}") for form in FORMATS),
        *(VerbCase(f"purge {form}", on(VERBS["purge"]), f"aged {form}") for form in FORMATS),
        *(VerbCase(f"truncate_history {form}", on(VERBS["truncate_history"]), f"aged {form}") for form in FORMATS),
        *(VerbCase(f"append to {form}, checkpoint and clean-up", on(VERBS["append"]), f"eager {form}") for form in FORMATS),
        *(VerbCase(f"{name} on avro, checkpoint and clean-up", on(VERBS[name]), "eager avro") for name in ("merge_splits", "overwrite")),
        *(VerbCase(f"{name} on json, checkpoint and clean-up", on(VERBS[name]), "eager json") for name in ("drop_partitions", "commit")),
        VerbCase("repair", repair, "aged json"),
        *(VerbCase(f"drop {base}", drop, base, repeat_error=it.TableNotFound) for base in ("appended", "aged json", "aged avro")),
    ]


_bases: dict[str, tuple[Image, int]] = {"nothing": ({}, START)}


def make_base_table(simulation: Simulation, name: str) -> Image:
    """The files of a table that is some weeks old, created once. Sets `simulation.ms` to their time."""
    if name not in _bases:
        simulation.ms = START
        with simulation.in_memory():
            _bases[name] = _new_base_table(simulation, name), simulation.ms
    image, simulation.ms = _bases[name]
    return image


def _new_base_table(simulation: Simulation, name: str) -> Image:
    place, machine = simulation.place(), simulation.machine()
    simulation.count_names_from(0)
    kind, _, form = name.partition(" ")
    create(machine, place, **FORMATS[form or "json"], **(EAGER if kind == "eager" else {}))
    table = machine.open(place)
    for start, partitions in ((0, "ab"), (10, "ab"), (20, "a")):
        table.append(rows(start, partitions))
    if kind != "appended":
        simulation.ms += 20 * DAY
        later = simulation.machine().open(place)
        later.checkpoint()
        later.merge_splits(where="k = 'a'")
        later.append(rows(30, "b"), txn=("other", 1))
        later.checkpoint()
    simulation.ms += 20 * DAY
    if kind == "aged":
        simulation.machine().open(place).append(rows(40, "ab"))
        simulation.machine().open(place).checkpoint()
        simulation.machine().open(place).append(rows(50, "a"))
    image = simulation.image(place)
    simulation.clear(place)
    return image


VERB_CASES = _verb_cases()
