"""R3: one or more faults (lost answer, conflict, refusal) at every write of every operation: correct, or reported as unknown."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

import indextables as it
from indextables.errors import CheckpointError, CommitUnknown, StorageError
from indextables.storage import open_store
from tests.contract.conftest import spec_of
from tests.support.fault_proxy import FaultProxy
from tests.support.logs import add
from tests.support.s3 import Server, options
from tests.support.tables import SCHEMA, rows

# Carried out and the answer lost, or lost on the way and answered by a gateway; not yet decided; "exists", truly or not.
FAULTS = ("apply_reset", "apply_503", "409", "412", "apply_412")
# Splits and the pointer are put without a condition. A store that answers 412 to that refuses, and is told so.
UNCONDITIONAL = {(name, 0) for name in ("append", "overwrite", "overwrite of a partition", "merge_splits")}
UNCONDITIONAL |= {("checkpoint", 1), ("checkpoint as a state", 3)}
AS_STATE = {"state.format": "avro"}  # which raises the protocol first, as a version of its own
FOR_ALL_AGES = {"purge.retentionCheckEnabled": "false"}


Run = Callable[[str, dict[str, str]], object]


def on(run: Callable[[it.Table], object]) -> Run:
    return lambda place, settings: run(it.open(place, options=settings))


@dataclass(frozen=True)
class Operation:
    name: str
    run: Run
    after: tuple[int, int]  # version and rows
    writes: int  # requests that change something; each gets the faults
    method: str = "PUT"
    base: str = "appended"
    settings: Mapping[str, str] = field(default_factory=dict)


OPERATIONS = [
    Operation(
        "create", lambda place, settings: it.create(place, SCHEMA, options={**settings, "state.format": "json"}), (0, 0), 1, base="nothing"
    ),
    Operation("append", on(lambda table: table.append(rows(100, 2, days=1), txn=("app", 1))), (3, 8), 2),
    Operation("overwrite", on(lambda table: table.overwrite(rows(100, 2, days=1))), (3, 2), 2),
    Operation("overwrite of a partition", on(lambda table: table.overwrite(rows(100, 2, days=1), "date = '2024-01-01'")), (3, 2), 2),
    Operation("overwrite with nothing", on(lambda table: table.overwrite([])), (3, 0), 1),
    Operation("merge_splits", on(lambda table: table.merge_splits()), (3, 6), 2),
    Operation("checkpoint", on(lambda table: table.checkpoint()), (2, 6), 2),
    Operation("checkpoint as a state", on(lambda table: table.checkpoint()), (3, 6), 4, settings=AS_STATE),
    Operation("upgrade_protocol", on(lambda table: table.log.upgrade_protocol(4, 4)), (3, 6), 1),
    Operation("drop_partitions", on(lambda table: table.drop_partitions("date >= '2000-01-01'")), (3, 0), 1),
    Operation("record_skipped_file", on(lambda table: table.log.record_skipped_file(table.files()["path"][0].as_py(), "bad")), (3, 6), 1),
    Operation("commit", on(lambda table: table.log.commit([add("foreign.split")])), (3, 7), 1),
    Operation("purge", on(lambda table: table.purge(older_than="0s", log_retention="0s")), (2, 2), 2, "DELETE", "replaced"),
]


class Bases:
    """Initial tables, copied for every case."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.files: dict[str, dict[str, bytes]] = {"nothing": {}}
        for name, write in (("appended", "append"), ("replaced", "overwrite")):
            place = server.place()
            table = it.create(place, SCHEMA, partition_by=["date"], options={**server.options, "state.format": "json"})
            table.append(rows(0, 3, days=1))
            getattr(table, write)(rows(3, 3 if name == "appended" else 2, days=1))
            if name == "replaced":
                table.checkpoint()
            self._keep(name, place)

    def _keep(self, name: str, place: str) -> None:
        store = open_store(spec_of(place, **self.server.options))
        self.files[name] = {entry.path: store.read(entry.path) for entry in store.list("")}

    def copy(self, name: str) -> str:
        place = self.server.place()
        store = open_store(spec_of(place, **self.server.options))
        for path, data in self.files[name].items():
            store.replace(path, data)
        return place


@pytest.fixture(scope="module")
def bases(mini: Server, _proxy: FaultProxy) -> Bases:
    open_store(spec_of(mini.place(), **options(_proxy.url))).create("proved", b"")  # so that no operation has to race it first
    return Bases(mini)


def state(place: str, server: Server) -> tuple[int, int] | None:
    """Version and rows as a new reader sees them; what it lists is there. None: no table."""
    if not it.exists(place, server.options):
        return None
    table = it.open(place, options={**server.options, "transaction.cache.enabled": "false"})
    assert table.warnings == []
    files = table.files()
    there = {entry.path for entry in open_store(spec_of(place, **server.options)).list("")}
    assert {path for path in files.column("path").to_pylist() if path != "foreign.split"} <= there
    return table.version, sum(files.column("num_records").to_pylist())


def strike(operation: Operation, faults: tuple[str, ...], number: int, proxy: FaultProxy, bases: Bases) -> str:
    """Runs and checks one case; returns its outcome."""
    place, settings = bases.copy(operation.base), {**options(proxy.url, "20s"), **FOR_ALL_AGES, **operation.settings}
    before = {"nothing": None, "appended": (2, 6), "replaced": (2, 2)}[operation.base]
    proxy.clear()
    proxy.chain(faults, operation.method, skip=number)
    case = f"{operation.name}, write {number}, {' then '.join(faults)}"
    try:
        operation.run(place, settings)
        outcome = "right"
    except CommitUnknown:
        outcome = "unknown"
        assert "DELETE" not in {request.method for request in proxy.log}, case
    except (StorageError, CheckpointError):
        outcome = "refused"
    assert [r.action for r in proxy.log if r.action != "pass"][:1] == [faults[0]], case
    proxy.clear()
    found = state(place, bases.server)
    # If the protocol was upgraded first, that commit stays whatever happens to the checkpoint.
    half_way = [operation.after] if operation.settings == AS_STATE else []
    assert found in {"right": [operation.after], "refused": [before, *half_way], "unknown": [before, operation.after]}[outcome], case
    if outcome == "refused":  # the next attempt succeeds
        operation.run(place, settings)
        assert state(place, bases.server) == operation.after, case
    return outcome


def strike_all(
    depth: int, faults: tuple[str, ...], proxy: FaultProxy, bases: Bases, operations: Sequence[Operation] = tuple(OPERATIONS)
) -> None:
    outcomes: Counter[str] = Counter()
    for operation in operations:
        for number in range(operation.writes):
            for struck in itertools.product(faults, repeat=depth):
                outcome = strike(operation, struck, number, proxy, bases)
                outcomes[outcome] += 1
                is_nonsense = (operation.name, number) in UNCONDITIONAL and any(fault.endswith("412") for fault in struck)
                assert outcome == "right" or (outcome == "refused" and is_nonsense), (operation.name, number, struck, outcome)
    print(f"R3: {outcomes.total()} cases {depth} deep at every write of {len(operations)} operations, all of them: {dict(outcomes)}")
    assert outcomes.total() == sum(operation.writes for operation in operations) * len(faults) ** depth


def test_the_writes_of_every_operation_are_known(proxy: FaultProxy, bases: Bases) -> None:
    for operation in OPERATIONS:
        place = bases.copy(operation.base)
        proxy.clear()
        operation.run(place, {**options(proxy.url), **FOR_ALL_AGES, **operation.settings})
        verbs = proxy.verbs()
        assert (verbs[operation.method], verbs["PUT"] + verbs["POST"] + verbs["DELETE"]) == (operation.writes,) * 2, (operation.name, verbs)
        assert state(place, bases.server) == operation.after, operation.name


@pytest.mark.parametrize(("depth", "faults"), [(1, FAULTS), (2, ("apply_reset", "409", "412"))])
def test_every_write_of_every_operation(depth: int, faults: tuple[str, ...], proxy: FaultProxy, bases: Bases) -> None:
    strike_all(depth, faults, proxy, bases)


def test_every_write_of_commits_on_seaweedfs(weed: Server) -> None:
    """A shorter run, on a server that decides races by a lock."""
    with FaultProxy((weed.host, weed.port)).running() as proxy:
        open_store(spec_of(weed.place(), **options(proxy.url))).create("proved", b"")
        strike_all(1, ("apply_reset", "409", "412"), proxy, Bases(weed), [op for op in OPERATIONS if op.name in ("append", "commit")])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("depth", [2, 3])
def test_all_faults_and_deeper(depth: int, proxy: FaultProxy, bases: Bases) -> None:
    strike_all(depth, FAULTS, proxy, bases)
