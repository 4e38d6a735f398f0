"""The plan of what may be deleted from a log: the conditions of RET-01 to RET-10, C-19, C-20, C-48 to C-50."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from indextables.clock import HOUR_MS, UNKNOWN_MS
from indextables.config import Config
from indextables.state.inventory import Inventory
from indextables.state.retention import Deletion, FileKind, LogFacts, Plan, Policy, plan

DAY = 24 * HOUR_MS
NOW = 2_000 * DAY
LOG = "_transaction_log/"
DEFAULTS = Policy.of(Config.of(), log=30 * DAY, keep_versions=30)
POLICY = Policy(log=30 * DAY, keep_versions=0, checkpoints=2 * HOUR_MS, keep_states=2, states=168 * HOUR_MS, manifests=HOUR_MS)


def version(number: int) -> str:
    return f"{number:020d}.json"


def checkpoint(number: int) -> str:
    return f"{number:020d}.checkpoint.json"


def state(number: int, form: str = "json") -> str:
    return f"state-v{number:020d}/_manifest.{form}"


def facts(ages: Mapping[str, float], *, valid: Iterable[int] | None = None, **more: Any) -> LogFacts:
    """From the ages of log files in days; None is an age that the store does not know."""
    inventory = Inventory.of({name: (10, round(NOW - age * DAY) if age is not None else UNKNOWN_MS) for name, age in ages.items()})
    usable = set(inventory.deletable_bases if valid is None else valid)
    current = max([*inventory.versions, *inventory.deletable_bases])
    times = {number: file.modified_ms for number, file in inventory.versions.items() if file.modified_ms is not None}
    return LogFacts(
        inventory, current, max(usable, default=None), times, {number: number in usable for number in inventory.deletable_bases}, **more
    )


def numbers(found: Plan, kind: FileKind) -> list[int | None]:
    return [deletion.version for deletion in found.deletions if deletion.kind is kind]


def paths(found: Plan | Iterable[Deletion]) -> set[str]:
    deletions = found.deletions if isinstance(found, Plan) else found
    return {file.path.removeprefix(LOG) for deletion in deletions for file in deletion.files}


def history(newest: int, days_each: float = 1) -> dict[str, float]:
    return {version(number): (newest - number) * days_each for number in range(newest + 1)}


def test_the_defaults_are_those_of_the_seeds() -> None:
    """RET-01, RET-03, RET-09, GC-01, PQC-10."""
    config = Config.of()
    assert config.get("logRetention.duration") == 30 * DAY
    assert config.get("purge.txLogRetentionHours") * HOUR_MS == 30 * DAY
    assert (DEFAULTS.keep_versions, config.get("checkpoint.retention")) == (30, 30)
    assert (DEFAULTS.checkpoints, DEFAULTS.keep_states, DEFAULTS.states, DEFAULTS.manifests) == (2 * HOUR_MS, 2, 168 * HOUR_MS, HOUR_MS)


def test_the_worked_example() -> None:
    """RET-05: today 2024-02-01, current 100, checkpoint 90: version 50 (47 days old) expires, 85 (7 days old) and 95 are kept."""
    now = int(datetime(2024, 2, 1, tzinfo=UTC).timestamp() * 1000)
    ages = {50: 47, 85: 7}
    days = {number: 47 - (number - 50) * 40 / 35 for number in range(101)} | ages
    stamps = {version(number): (1, now - int(max(age, 0) * DAY)) for number, age in days.items()}
    stamps |= {checkpoint(number): stamps[version(number)] for number in range(10, 91, 10)}
    inventory = Inventory.of(stamps)
    times = {number: now - int(max(age, 0) * DAY) for number, age in days.items()}
    known = LogFacts(inventory, 100, 90, times, dict.fromkeys(inventory.deletable_bases, True))
    for keep in (0, 20):
        gone = numbers(plan(known, Policy(30 * DAY, keep, 2 * HOUR_MS, 2, 168 * HOUR_MS, HOUR_MS), now), FileKind.VERSION)
        assert 50 in gone
        assert not {0, 85, 95} & set(gone)
        oldest_retained = min(number for number, age in days.items() if age <= 30)
        assert gone == list(range(1, oldest_retained // 10 * 10))


def test_a_version_expires_only_if_every_condition_holds() -> None:
    """RET-01, C-19: old, before the checkpoint, before the current version, and not among the versions that are always kept."""
    old = {version(number): 100.0 for number in range(41)}
    assert numbers(plan(facts(old), POLICY, NOW), FileKind.VERSION) == [], "there is no checkpoint"
    with_base = old | {checkpoint(35): 100}
    assert numbers(plan(facts(with_base), POLICY, NOW), FileKind.VERSION) == list(range(1, 35))
    floor = Policy(30 * DAY, 20, 2 * HOUR_MS, 2, 168 * HOUR_MS, HOUR_MS)
    assert numbers(plan(facts(with_base), floor, NOW), FileKind.VERSION) == [], "15 is retained, and its base is version 0"
    assert numbers(plan(facts(with_base | {checkpoint(12): 100}), floor, NOW), FileKind.VERSION) == list(range(1, 12))
    young = with_base | {version(number): 30.0 for number in range(20, 41)} | {checkpoint(20): 30}
    assert numbers(plan(facts(young), POLICY, NOW), FileKind.VERSION) == list(range(1, 20)), "exactly 30 days is not older"
    unknown = {**with_base, version(7): None}
    assert numbers(plan(facts(unknown), POLICY, NOW), FileKind.VERSION) == [], "7 may be of today, and its base is version 0"


def test_version_0_is_never_deleted() -> None:
    """RET-02, C-20."""
    found = plan(facts(history(50, 31) | {checkpoint(50): 0, checkpoint(0): 1000}), POLICY, NOW)
    assert version(0) not in paths(found)
    assert version(1) in paths(found)


def test_the_newest_checkpoint_is_kept_at_any_age() -> None:
    found = plan(facts({version(0): 900, version(1): 900, version(2): 900, checkpoint(2): 900, checkpoint(1): 900}), POLICY, NOW)
    assert paths(found) == {version(1), checkpoint(1)}
    broken = facts({version(0): 900, version(1): 900, version(2): 900, checkpoint(2): 900, checkpoint(1): 900}, valid=[1])
    assert paths(plan(broken, POLICY, NOW)) == set(), "the newest valid checkpoint is 1"
    assert plan(facts({version(0): 900, checkpoint(0): 900}, valid=[]), POLICY, NOW).deletions == []


def test_the_base_of_the_oldest_retained_version_is_kept() -> None:
    """C-50: checkpoints are kept for 2 hours, versions for 30 days."""
    ages = history(100) | {checkpoint(number): 100.0 - number for number in range(10, 101, 10)}
    found = plan(facts(ages), POLICY, NOW)
    assert numbers(found, FileKind.VERSION) == list(range(1, 70)), "70 is 30 days old"
    # 90 is kept as a future base: versions after 80 will need it when 80 is 30 days old.
    assert numbers(found, FileKind.CHECKPOINT) == [10, 20, 30, 40, 50, 60, 80]


def test_spaced_checkpoints_let_versions_of_a_busy_table_expire() -> None:
    """Without old checkpoints at intervals, the base of the oldest retained version would never change."""
    there: dict[str, int] = {version(0): 0}
    most = longest = 0
    for day in range(1, 200):
        there |= {version(day): day, checkpoint(day): day}
        inventory = Inventory.of({name: (1, made * DAY + 1) for name, made in there.items()})
        known = LogFacts(inventory, day, day, {v: v * DAY + 1 for v in inventory.versions}, dict.fromkeys(inventory.deletable_bases, True))
        for path in paths(plan(known, POLICY, day * DAY + 1)):
            del there[path]
        most = max(most, sum("checkpoint" in name for name in there))
        longest = max(longest, day - min(made for name, made in there.items() if name == version(made) and made))
        for retained in range(max(1, day - 30), day + 1):
            assert any(base <= retained for base in Inventory.of(dict.fromkeys(there, (1, 1))).deletable_bases) or version(1) in there
    assert (most, longest) == (4, 45)


def test_old_checkpoints_are_deleted_with_all_their_files() -> None:
    """RET-03, RET-08: JSON, its parts, Parquet, and Hadoop's checksums; one file that is young or of unknown age keeps all of them."""
    third = {
        checkpoint(3): 5.0,
        f"{3:020d}.checkpoint.0123456789ab.00001.json": 5.0,
        f"{3:020d}.checkpoint.0123456789ab.00002.json": 5.0,
        f".{3:020d}.checkpoint.json.crc": 5.0,
        f"_checkpoints/{3:020d}.checkpoint.json": 5.0,
        f"_checkpoints/{3:020d}.checkpoint.parquet": 5.0,
        f"_checkpoints/{3:020d}.checkpoint.00001.parquet": 5.0,
    }
    foreign = {f"{3:020d}.checkpoint.notes.txt": 900.0, f"_checkpoints/{3:020d}.checkpoint.x.json": 900.0, "checkpoint.json": 900.0}
    ages = history(6, 0.01) | third | foreign | {checkpoint(6): 0.0}
    (deletion,) = plan(facts(ages), POLICY, NOW).deletions
    assert (deletion.kind, deletion.version, paths([deletion])) == (FileKind.CHECKPOINT, 3, set(third))
    assert deletion.files[0].path == LOG + checkpoint(3), "the head is deleted first"
    assert len(deletion.describe()) == len(third)
    assert {line["kind"] for line in deletion.describe()} == {"checkpoint"}
    for name in third:
        if not name.startswith("."):
            assert paths(plan(facts(ages | {name: 0.01}), POLICY, NOW)) == set()
            assert paths(plan(facts({**ages, name: None}), POLICY, NOW)) == set()


def test_old_parts_of_an_unfinished_checkpoint_are_deleted() -> None:
    part = f"{9:020d}.checkpoint.0123456789ab.00001.json"
    parquet = f"_checkpoints/{8:020d}.checkpoint.00001.parquet"
    for age, expected in ((0.99, set()), (1.01, {part, parquet})):
        assert paths(plan(facts(history(5, 0) | {part: age, parquet: age}, valid=[]), POLICY, NOW)) == expected


def states(ages: Mapping[int, float], references: Mapping[int, Collection[str]] | None = None, **more: Any) -> LogFacts:
    files = history(20, 0) | {state(number): age for number, age in ages.items()} | {"_last_checkpoint": 0.0} | more.pop("files", {})
    named = {number: {LOG + path for path in found} for number, found in (references or dict.fromkeys(ages, ())).items()}
    return facts(files, references=named, **more)


def test_states_expire_by_count_and_age() -> None:
    """RET-09, C-48: both conditions must hold, and the newest states are kept at any age."""
    assert numbers(plan(states({5: 8, 10: 8, 15: 8, 20: 8}), POLICY, NOW), FileKind.STATE) == [5, 10]
    assert numbers(plan(states({5: 8, 10: 7, 15: 0, 20: 0}), POLICY, NOW), FileKind.STATE) == [5]
    assert numbers(plan(states({5: 8, 10: 8}), POLICY, NOW), FileKind.STATE) == []
    unreadable = states({5: 8, 10: 8, 15: 8, 20: 8}, unreadable={20: "cut"}, valid=[5, 10, 15])
    assert numbers(plan(unreadable, POLICY, NOW), FileKind.STATE) == [5], "20 does not count as one of the two that are kept"


def test_files_of_unknown_age_are_kept() -> None:
    """A time of 0, as object stores report for folders, is not an age of 54 years."""
    ages = {**history(20, 50), **{state(number): None for number in (5, 10, 15, 20)}, "_last_checkpoint": 0.0}
    ages |= {f"manifests/manifest-{number:032x}.avro": None for number in range(4)}
    found = plan(facts(ages, references=dict.fromkeys((5, 10, 15, 20), ())), POLICY, NOW)
    assert {deletion.kind for deletion in found.deletions} == {FileKind.VERSION}
    assert plan(facts({**dict.fromkeys(ages, None)}, references=dict.fromkeys((5, 10, 15, 20), ())), POLICY, NOW).deletions == []


def test_a_state_with_a_manifest_in_use_in_its_folder_is_kept() -> None:
    """C-48: older writers put manifests into the folder of a state, and newer states reference them there."""
    inside = f"state-v{5:020d}/manifest-00112233.avro"
    used = states({5: 8, 10: 8, 15: 8, 20: 8}, {5: [inside], 10: [], 15: [inside], 20: []}, files={inside: 8.0})
    assert paths(plan(used, POLICY, NOW)) == {state(10)}
    unused = states({5: 8, 10: 8, 15: 8, 20: 8}, {5: [inside], 10: [inside], 15: [], 20: []}, files={inside: 8.0})
    assert paths(plan(unused, POLICY, NOW)) == {state(5), state(10), inside}
    not_gathered = LogFacts(*(getattr(unused, name) for name in ("inventory", "newest_version", "newest_checkpoint", "times", "is_base")))
    assert paths(plan(not_gathered, POLICY, NOW)) == {state(10)}


NAMES = [f"manifests/manifest-{number:032x}.avro" for number in range(4)]


def manifests(**more: Any) -> LogFacts:
    """Manifest 0 is referenced by a state that expires, 1 and 2 by retained states, 3 by none."""
    named = {5: NAMES[:2], 15: NAMES[1:3], 20: [NAMES[2]]}
    files = dict.fromkeys(NAMES, 2.0) | {"manifests/notes.avro": 900.0} | more.pop("files", {})
    return states({5: 8, 15: 0, 20: 0}, named, files=files, **more)


def test_manifests_that_no_retained_state_references_are_deleted() -> None:
    """GC-01, GC-03."""
    assert paths(plan(manifests(), POLICY, NOW)) == {state(5), NAMES[0], NAMES[3]}


def test_young_manifests_are_kept() -> None:
    """GC-02: a state that references them may be about to be written."""
    assert paths(plan(manifests(files={NAMES[3]: 0.5 / 24}), POLICY, NOW)) == {state(5), NAMES[0]}


def test_manifests_are_kept_if_a_state_or_the_pointer_is_unreadable() -> None:
    """C-49: the plan gives the reason."""
    unread = manifests()
    references = {number: paths for number, paths in (unread.references or {}).items() if number != 15}
    files = ("inventory", "newest_version", "newest_checkpoint", "times", "is_base")
    doubtful = LogFacts(*(getattr(unread, name) for name in files), references=references, unreadable={15: "it was cut"})
    found = plan(doubtful, POLICY, NOW)
    assert numbers(found, FileKind.MANIFEST) == []
    assert found.kept_reasons == ["state 15 cannot be read, so all manifests are kept: it was cut"]
    stamps = {file.path.removeprefix(LOG): (1, file.modified_ms or 0) for file in unread.inventory.manifests.values()}
    alone = LogFacts(Inventory.of(stamps | {version(0): (1, 1)}), 0, 0, {}, {0: False}, references={})
    assert plan(alone, POLICY, NOW).kept_reasons == ["without a state it is unknown which manifests are in use: all are kept"]
    stamps = dict.fromkeys((version(20), state(15), state(20)), (1, NOW)) | {NAMES[0]: (1, NOW - 2 * DAY)}
    lost = LogFacts(Inventory.of(stamps), 20, 20, {}, dict.fromkeys(range(1, 21), True), references={15: (), 20: ()})
    assert plan(lost, POLICY, NOW) == Plan(
        [], ["_last_checkpoint is missing, so all manifests are kept; the next checkpoint writes it again"]
    )


def test_states_without_metadata_keep_older_files() -> None:
    """Other writers' states omit the metadata: its newest action may be in a version that would expire."""
    found = plan(facts(history(50, 10) | {checkpoint(50): 0, state(50): 0, state(49): 10}, incomplete_states=[49]), POLICY, NOW)
    assert numbers(found, FileKind.VERSION) == numbers(found, FileKind.STATE) == []
    assert "state 49 has no metadata or no protocol" in found.kept_reasons[0]


def test_versions_before_and_after_a_gap_keep_a_base_each() -> None:
    """Gaps are left by other programs."""
    ages = {version(0): 100, **{version(number): 10.0 for number in (*range(8, 12), *range(20, 31))}}
    ages |= {checkpoint(7): 5, checkpoint(9): 5, checkpoint(20): 5, checkpoint(25): 5, checkpoint(30): 0}
    assert numbers(plan(facts(ages), POLICY, NOW), FileKind.CHECKPOINT) == [9, 25]
    assert numbers(plan(facts(ages, valid=[9, 20, 25, 30]), POLICY, NOW), FileKind.CHECKPOINT) == [25]
    lone = {version(0): 100, version(30): 0, state(12): 10, state(13): 40, state(29): 9, state(30): 0}
    assert numbers(plan(facts(lone, references=dict.fromkeys((12, 13, 29, 30), ())), POLICY, NOW), FileKind.STATE) == [13]


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000001.json.tmp",
        ".tmp-0123456789abcdef0123456789abcdef",
        "0000000000000000001.json",
        "x/00000000000000000001.json",
        "manifests/other.avro",
        "manifests/x/manifest-00112233.avro",
        "state-v1/_manifest.json",
        f"state-v{1:020d}/readme.txt",
        "_checkpoints/readme.parquet",
        f"_checkpoints/x/{1:020d}.checkpoint.parquet",
        "_last_checkpoint",
    ],
)
def test_files_with_unknown_names_are_never_deleted(name: str) -> None:
    ages = history(50, 31) | {checkpoint(50): 0, state(49): 0, state(50): 0, "_last_checkpoint": 0, name: 900}
    found = plan(facts(ages, references={49: (), 50: ()}), POLICY, NOW)
    assert paths(found) == {version(number) for number in range(1, 50)}
