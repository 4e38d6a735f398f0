"""R10: purge of random table folders, compared file by file with an independent model."""

from __future__ import annotations

import logging
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from indextables.clock import Clock
from indextables.operations import verbs
from indextables.operations.expire.purge_files import purge
from indextables.table.context import TableContext
from tests.support.modeled_table import DAY, HOUR, LOG, ModeledTable
from tests.support.seeds import random_seed

STEPS = 40
SEED = 20_261_117
WEIGHTS = {
    "append": 8, "merge": 5, "re_add": 2, "orphan": 2, "json_checkpoint": 3, "parts": 2, "unfinished": 2, "state": 6, "stray_manifest": 1,
    "parquet": 1, "foreign_file": 2, "link": 1, "temporary": 1, "ageless": 1, "damage": 1, "wait": 9,
}  # fmt: skip


@dataclass
class Terms:
    older_than: int
    log: int
    keep_states: int
    states: int
    checkpoints: int = 2 * HOUR
    manifests: int = HOUR


class Model:
    """The files that a purge with these terms must delete, derived from the record of the table."""

    def __init__(self, table: ModeledTable, terms: Terms, disk: set[str]) -> None:
        self.table, self.terms, self.disk = table, terms, disk
        self.versions = [v for v in table.times if f"{LOG}/{v:020d}.json" in disk]
        self.families = {v: paths for v, paths in table.families.items() if paths & disk}
        self.states = {v: path for v, path in table.states.items() if path in disk}
        self.bases = sorted(v for v in {*self.families, *self.states} if v > 0)
        readable = {
            *self.states,
            *(v for v in self.families if f"{LOG}/{v:020d}.checkpoint.json" in disk),
        }  # Parquet files here are not readable
        self.broken = table.broken | (set(self.bases) - readable)
        self.valid = [v for v in self.bases if v not in self.broken]
        self.latest = max(self.valid, default=None)

    def age(self, path: str) -> int:
        return self.table.now - self.table.modified[path]

    def base_time(self, base: int) -> int:
        if base in self.versions:
            return self.table.times[base]
        paths = [*self.families.get(base, ()), *([self.states[base]] if base in self.states else [])]
        return max(self.table.modified[path] for path in paths)

    def expected(self) -> set[str]:
        gone = {path for paths in self.table.loose.values() for path in self._if_all_older(paths & self.disk, DAY)}
        kept: set[int] = set()
        if self.latest is not None:
            versions, kept = self.log_part()
            gone |= {f"{LOG}/{version:020d}.json" for version in versions}
            for version, paths in self.families.items():
                if version < self.latest and version not in kept:
                    gone |= self._if_all_older(paths & self.disk, self.terms.checkpoints)
            states = self.old_states(kept)
            gone |= {self.states[version] for version in states} | self.unused_manifests(states)
        gone |= self.dead_splits(gone) | {path for path in self.table.temporaries & self.disk if self.age(path) >= self.terms.older_than}
        return gone | {side for path, side in self.table.sides.items() if path in gone and side in self.disk}

    def _if_all_older(self, paths: set[str], than: int) -> set[str]:
        return paths if paths and all(self.age(path) > than for path in paths) else set()

    def log_part(self) -> tuple[list[int], set[int]]:
        """The versions to delete, and the checkpoints and states to keep."""
        assert self.latest is not None
        cutoff = self.table.now - self.terms.log
        expired = [v for v in self.versions if 0 < v < self.latest and self.table.times[v] < cutoff]
        oldest = min(v for v in self.versions if v > 0 and v not in expired)
        base = max((b for b in self.valid if b <= oldest), default=0)
        needed = {base, self.latest} | {b for b in self.bases if b not in self.versions and self.base_time(b) >= cutoff}
        first = base or min(v for v in self.versions if v > 0)
        last = self.table.times[first]
        for candidate in self.bases:  # checkpoints kept at intervals
            if candidate < first:
                continue
            if candidate in needed or (candidate in self.valid and self.base_time(candidate) - last > max(self.terms.log // 2, DAY)):
                needed.add(candidate)
                last = self.base_time(candidate)
        return [v for v in expired if v < base], needed - {0}

    def old_states(self, needed: set[int]) -> set[int]:
        assert self.latest is not None
        readable = sorted(v for v in self.states if v not in self.table.unreadable)
        newest = {*readable[-self.terms.keep_states :], *(v for v in self.states if v >= self.latest)}
        old = {v for v, path in self.states.items() if v not in newest | needed and self.age(path) > self.terms.states}
        stay = set(self.states) - old
        return {v for v in old if self._is_free(v, stay)}

    def _is_free(self, version: int, stay: set[int]) -> bool:
        inside = {path for path in self.disk if path.startswith(f"{LOG}/state-v{version:020d}/manifest-")}
        return not inside or (not stay & self.table.unreadable and not any(inside & self.table.named[v] for v in stay))

    def unused_manifests(self, states: set[int]) -> set[str]:
        stay = set(self.states) - states
        if not stay or stay & self.table.unreadable or f"{LOG}/_last_checkpoint" not in self.disk:
            return set()
        named = {path for version in stay for path in self.table.named[version]}
        return {path for path in self.table.entries if path in self.disk and path not in named and self.age(path) > self.terms.manifests}

    def dead_splits(self, gone: set[str]) -> set[str]:
        table, cutoff = self.table, self.table.now - self.terms.older_than
        first = table.version + 1
        while first - 1 in self.versions:
            first -= 1
        forgotten_long_ago = first <= 1 or table.times.get(first, table.now) <= cutoff
        dead = set()
        for path in self.disk - table.foreign - set(table.live):
            if not path.startswith("splits/split-"):
                continue
            removal = table.removed.get(path)
            if removal is not None and removal[0] in self.versions:
                dead |= {path} if max(removal[1], table.modified[path]) <= cutoff else set()
            elif table.modified[path] <= cutoff and forgotten_long_ago:
                dead.add(path)
        bases = [b for b in self.bases if b < first - 1 and ({*self.families.get(b, ()), self.states.get(b, "")} & self.disk) - gone]
        unknown = {path for path in dead if path not in table.removed or table.removed[path][0] not in self.versions}
        if any(base in self.broken for base in bases):
            return dead - unknown
        return dead - unknown.intersection(*[{p for b in bases for p in table.at[b]}]) if bases else dead


def one_history(folder: Path, seed: int, steps: int = STEPS) -> tuple[int, int]:
    rng = random.Random(seed)
    return history_of(ModeledTable(folder / "t", rng), rng, seed, str(folder / "t"), {}, steps)


def history_of(
    table: ModeledTable, rng: random.Random, seed: int, place: str, settings: dict[str, str], steps: int = STEPS
) -> tuple[int, int]:
    """The number of deleted files, and of versions that were read again."""
    words, weights = list(WEIGHTS), list(WEIGHTS.values())
    deleted = read = 0
    for part in range(2):
        for word in rng.choices(words, weights, k=steps // 2):
            if word != "damage" or part == 0:  # a truncated log needs its checkpoint
                getattr(table, word)()
        terms = Terms(rng.choice([1, 2, 7]) * DAY, rng.choice([0, 1, 10, 30]) * DAY, rng.choice([1, 2]), rng.choice([0, 24, 168]) * HOUR)
        options = {"state.retention.versions": str(terms.keep_states), "state.retention.hours": str(terms.states // HOUR)}
        context = TableContext.at(place, {**settings, **options, "transaction.cache.enabled": "false"}, Clock(lambda: table.now))
        before = table.on_disk()
        model = Model(table, terms, before)
        expected = model.expected()
        durations = f"{terms.older_than // HOUR}h", f"{terms.log // HOUR}h"
        if seed % 4 == 0:
            dry = purge(verbs.Purge(*durations, dry_run=True), context)
            assert table.on_disk() == before, seed
            assert {line["path"] for line in dry.plan or ()} == expected, seed
        purge(verbs.Purge(*durations), context)
        after = table.on_disk()
        assert (before - after, after - before) == (expected, set()), seed
        deleted += len(expected)
        read += check(table, context, terms, after, before, seed)
    return deleted, read


def check(table: ModeledTable, context: TableContext, terms: Terms, after: set[str], before: set[str], seed: int) -> int:
    """Conditions that hold independently of the model."""
    assert table.foreign <= after, seed
    assert all(file.read_text() == "precious" for file in table.root.parent.glob("outside/*")), seed
    assert set(table.live) <= after, seed
    assert f"{LOG}/{0:020d}.json" in after, seed
    young = [v for v, time in table.times.items() if time >= table.now - terms.older_than and f"{LOG}/{v:020d}.json" in after]
    assert all((table.at[v] & before) <= after for v in young), seed
    for version, path in table.states.items():
        assert path not in after or version in table.broken or table.named[version] <= after, seed
    there = [v for v in table.times if v and f"{LOG}/{v:020d}.json" in before]
    retained = [v for v in there if table.times[v] >= table.now - terms.log or v == table.version]
    chosen = {table.version, *retained[:1], *table.rng.sample(retained, min(3, len(retained)))} if table.version else {0}
    for version in chosen:
        assert set(context.load(context.snapshot(version)).files.paths()) == table.at[version], (seed, version)
    assert set(context.load(context.snapshot()).files.paths()) == set(table.live), seed
    return len(chosen)


def rounds(tmp_path: Path, count: int, seed: int = SEED, steps: int = STEPS) -> None:
    first = random_seed(seed)
    deleted = read = 0
    for number in range(count):
        folder = tmp_path / str(number)
        gone, again = one_history(folder, first + number, steps)
        deleted, read = deleted + gone, read + again
        shutil.rmtree(folder)
    print(f"{count} histories of {steps} steps: {deleted} files deleted, {read} versions were read again")
    assert deleted > 10 * count
    assert read > 4 * count


@pytest.fixture
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest keeps every log record of a test: with the warnings of thousands of histories, a history takes three times as long."""
    monkeypatch.setattr(logging.getLogger("indextables"), "disabled", True)


@pytest.mark.usefixtures("unlogged")
def test_r10_purge_deletes_exactly_the_expired_files(tmp_path: Path) -> None:
    rounds(tmp_path, 500)


def test_r10_history_21264923_keeps_a_split_that_an_unreadable_checkpoint_may_list(tmp_path: Path) -> None:
    deleted, read = one_history(tmp_path, 21_264_923)
    assert deleted > 0
    assert read > 0


def test_r10_history_40003977_keeps_unknown_splits_while_only_an_unreadable_parquet_checkpoint_is_left(tmp_path: Path) -> None:
    """The first purge deletes its state."""
    deleted, read = one_history(tmp_path, 40_003_977, steps=60)
    assert deleted > 0
    assert read > 0


def test_deleting_unfinished_parts_does_not_count_as_deleting_the_parquet_checkpoint_of_the_same_version(tmp_path: Path) -> None:
    table = ModeledTable(tmp_path / "t", random.Random(1))
    table.append()
    first = set(table.live)
    table.parquet()  # unreadable and kept: its splits are unknown
    table.unfinished()
    table.commit([("remove", path) for path in sorted(first)])
    table.append()
    table.state()
    for version in (1, 2):  # another program deletes the version that removed the splits
        (table.root / LOG / f"{version:020d}.json").unlink()
    table.now += 3 * DAY
    report = purge(verbs.Purge("1d", "30d"), TableContext.at(str(table.root), {}, Clock(lambda: table.now)))
    after = table.on_disk()
    assert report.metrics["checkpoints_deleted"] == 1
    assert not table.loose[1] & after
    assert table.families[1] <= after
    assert first <= after
    assert any("splits that no version references are kept" in warning for warning in report.warnings)


@pytest.mark.slow
@pytest.mark.timeout(14400)
@pytest.mark.usefixtures("unlogged")
def test_r10_for_long(tmp_path: Path) -> None:
    rounds(tmp_path, 50_000, SEED + 1_000_000, steps=60)  # the number of histories that R10 requires
