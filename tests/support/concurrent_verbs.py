"""R6: every interleaving of the storage calls of two verbs has the outcome of a serial order: nothing is lost, duplicated or restored.

Interleavings that differ only in the order of commuting calls (two reads, or calls for different files) count as one. A verb that ends
with ConcurrentConflict has no effect.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import indextables as it
from tests.support.interleaving import Chooser, Explorer, Turn, at_random, take_turns
from tests.support.locations import Image
from tests.support.seeds import random_seed
from tests.support.simulation import Simulation, TableState, state_of
from tests.support.verb_cases import VERBS, make_base_table, rows

SECOND: dict[str, Callable[[it.Table], object]] = {  # used for the second of two equal verbs, so that it writes other rows
    "append": lambda table: table.append(rows(500, "ab")),
    "overwrite": lambda table: table.overwrite(rows(600, "ab")),
    "replaceWhere": lambda table: table.overwrite(rows(700, "b"), where="k = 'b'"),
}
PAIRS = [
    ("append", "append"), ("append", "overwrite"), ("append", "merge_splits"), ("merge_splits", "merge_splits"),
    ("merge_splits", "overwrite"), ("overwrite", "overwrite"), ("replaceWhere", "append"), ("drop_partitions", "append"),
    ("checkpoint", "append"), ("checkpoint", "checkpoint"), ("purge", "append"), ("purge", "checkpoint"), ("purge", "merge_splits"),
    ("purge", "purge"), ("truncate_history", "append"),
    ("replaceWhere", "merge_splits"), ("drop_partitions", "merge_splits"), ("purge", "overwrite"),
    ("append with txn", "append with txn"),
]  # fmt: skip


@dataclass
class ConcurrentVerbs:
    """Runs verbs concurrently on copies of one table and compares each outcome with those of the serial orders."""

    simulation: Simulation
    image: Image
    names: tuple[str, ...]
    outcomes: Counter[str] = field(default_factory=Counter)
    _serial: dict[tuple[int, ...], TableState | None] = field(default_factory=dict)

    def verb(self, number: int) -> Callable[[it.Table], object]:
        name = self.names[number]
        return SECOND[name] if name in SECOND and name in self.names[:number] else VERBS[name]

    @property
    def impossible(self) -> tuple[type[it.IndexTablesError], ...]:
        """What these verbs may raise because an earlier verb removed their file, or deleted the version of their handle."""
        gone = [it.InvalidArgument] if "record_skipped_file" in self.names else []
        expired = [it.VersionNotFound] if "truncate_history" in self.names and {"commit", "record_skipped_file"} & {*self.names} else []
        return (*gone, *expired)

    def serial(self, order: tuple[int, ...]) -> TableState | None:
        """The state after running the verbs in this order, each on a handle opened before the first one, as in a concurrent run.

        None if the order is impossible: see `impossible`.
        """
        if order in self._serial:
            return self._serial[order]
        with self.simulation.in_memory():
            place = self.simulation.restore(self.image)
            tables = [self.simulation.machine().open(place) for _ in order]
            try:
                for number, table in zip(order, tables, strict=True):
                    self.verb(number)(table)
                self._serial[order] = state_of(self.simulation, place)
            except self.impossible:
                self._serial[order] = None
            self.simulation.clear(place)
        return self._serial[order]

    def run(self, choose: Chooser) -> bool:
        simulation = self.simulation
        place = simulation.restore(self.image)
        turns = []
        for number, name in enumerate(self.names):
            turn = Turn(name)
            table = simulation.machine(turn.intercept, ids=f"{number:04x}").open(place)
            turns.append((turn, lambda table=table, number=number: self.verb(number)(table)))
        is_whole = take_turns(turns, choose)
        if is_whole:
            self.check(place, [turn.result for turn, _ in turns])
        simulation.clear(place)
        simulation.discard_machines()
        return is_whole

    def check(self, place: str, results: list[Any]) -> None:
        simulation = self.simulation
        refusals = (it.ConcurrentConflict, *self.impossible)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, (*refusals, it.CommitUnknown)):
                raise result
        conflicts = [number for number, result in enumerate(results) if isinstance(result, refusals)]
        unknown = [number for number, result in enumerate(results) if isinstance(result, it.CommitUnknown)]
        done = [number for number in range(len(results)) if number not in conflicts + unknown]
        assert done, "at least one verb must succeed"
        found = state_of(simulation, place)
        candidates = [
            self.serial(order)
            for more in range(len(unknown) + 1)
            for some in itertools.combinations(unknown, more)
            for order in itertools.permutations([*done, *some])
        ]
        if {"merge_splits", "record_skipped_file"} <= {
            *self.names
        }:  # a merge that has started may still use a file that is skipped meanwhile
            assert found is not None
            assert found.rows in [each.rows for each in candidates if each is not None], (found, candidates, results)
        else:
            assert found in candidates, (found, candidates, results)
        versions = [version for result in results if (version := getattr(result, "version", None)) is not None]
        assert len(set(versions)) == len(versions) or "append with txn" in self.names, "two verbs report the same version"
        assert found is not None
        assert all(version <= found.version for version in versions)
        warnings = [w for result in results for w in getattr(result, "warnings", ())]
        self.outcomes["conflict" if conflicts else "unknown" if unknown else "warned" if warnings else "both"] += 1


def base_tables_for(names: tuple[str, ...]) -> list[str]:
    needs_age = {"purge", "checkpoint", "truncate_history"} & set(names)
    return ["aged json", "aged avro"] if needs_age else ["appended"]


def explore(simulation: Simulation, names: tuple[str, ...], most: int, sampled: int) -> None:
    for base in base_tables_for(names):
        concurrent = ConcurrentVerbs(simulation, make_base_table(simulation, base), names)
        explorer = Explorer(concurrent.run, most)
        explorer.explore()
        if not explorer.is_complete:
            first = random_seed(0)
            for seed in range(first, first + sampled):
                assert concurrent.run(at_random(seed))
        total = concurrent.outcomes.total()
        how = f"{'all' if explorer.is_complete else 'sampled'}, {explorer.redundant} redundant: {dict(concurrent.outcomes)}"
        print(f"R6 on {simulation.location.name}: {' and '.join(names)} on {base}: {total} orders, {how}")
        assert total == explorer.runs + (0 if explorer.is_complete else sampled)
        assert total >= 2
