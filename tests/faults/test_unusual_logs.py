"""R12: unusual log folders. Each is read correctly, or refused with an error that names the cause."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import indextables as it
from tests.support.logs import add, lines, log_folder, metadata, paths, protocol, remove, skip
from tests.support.states import write_table_state
from tests.support.tables import tree, version_file, write_version

Prepare = Callable[[Path], object]


@dataclass(frozen=True)
class Reads:
    """The table opens at `version` with `files`, and a commit creates the next version."""

    prepare: Prepare
    version: int = 3
    files: tuple[str, ...] = ("f1", "f2", "f3")
    warns: str | None = None
    commits: bool = True  # False: something else has the name of the next version


@dataclass(frozen=True)
class Refused:
    """The table cannot be opened; the error names the cause."""

    prepare: Prepare
    error: type[it.IndexTablesError]
    says: str


@dataclass(frozen=True)
class NotWritable:
    """The table opens at `version`; writers refuse and change nothing."""

    prepare: Prepare
    version: int
    error: type[it.IndexTablesError]
    says: str


def put(name: str, data: bytes = b"x") -> Prepare:
    def prepare(table: Path) -> None:
        file = log_folder(table) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    return prepare


def folder(name: str) -> Prepare:
    return lambda table: (log_folder(table) / name).mkdir(parents=True)


def delete(*versions: int) -> Prepare:
    return lambda table: [version_file(table, version).unlink() for version in versions]


def version(number: int, *actions: object) -> Prepare:
    return put(f"{number:020d}.json", lines(*actions))


def both(*prepares: Prepare) -> Prepare:
    return lambda table: [prepare(table) for prepare in prepares]


def link(name: str) -> Prepare:
    def prepare(table: Path) -> None:
        target = table / "elsewhere.json"
        target.write_bytes(lines(add("linked")))
        (log_folder(table) / name).symlink_to(target)

    return prepare


FOUR = f"{4:020d}"
STRAYS = [
    "000000000000000004.json",
    "0000000000000000000004.json",
    f"{FOUR}.JSON",
    f"{FOUR}.json.tmp",
    f"{FOUR}.json~",
    f"{FOUR}.json.gz",
    f"{FOUR}.jsonl",
    f"{FOUR}.crc",
    f".{FOUR}.json.crc",
    f".{FOUR}.json",
    f"_{FOUR}.json",
    f" {FOUR}.json",
    f"{FOUR}.json ",
    f"{FOUR}.json\n",
    f"x{FOUR}.json",
    f"-{4:019d}.json",
    f"+{4:019d}.json",
    f"{FOUR[:-1]}4.5.json",
    "\u0660" * 19 + "\u0664.json",
    "99999999999999999999.json",
    ".tmp-0123456789abcdef",
    "_temporary",
    "_SUCCESS",
    ".DS_Store",
    "desktop.ini",
    f"{FOUR}.checkpoint",
    f"{FOUR}.checkpoint.json.tmp",
    f"{FOUR}.checkpoint.0123456789ab.00001.json",
    f"{FOUR}.checkpoint.parquet",
    "_last_checkpoint.tmp",
    f"backup/{FOUR}.json",
    f"state-v{FOUR}/manifest-a.avro",
    f"state-v{FOUR}/._manifest.avro.crc",
    "state-v4/_manifest.avro",
    "manifests/manifest-orphan.avro",
    f"{FOUR}.txnlog",
]

CASES: dict[str, Reads | Refused | NotWritable] = {f"stray {name!r}": Reads(put(name)) for name in STRAYS}
CASES |= {
    "a regular log": Reads(lambda table: None),
    "a folder named like a version": Reads(folder(f"{FOUR}.json"), commits=False),
    "a folder named like a checkpoint": Reads(folder(f"{FOUR}.checkpoint.json")),
    "a folder named like the pointer": Reads(folder("_last_checkpoint")),
    "an empty state folder": Reads(folder(f"state-v{FOUR}")),
    "a link named like a version": Reads(link(f"{FOUR}.json"), commits=False),
    "a link named like a checkpoint": Reads(link(f"{FOUR}.checkpoint.json")),
    "gap": NotWritable(delete(2), 1, it.VersionGap, "version 2 is missing"),
    "gap of two": NotWritable(both(delete(2), version(5, add("x"))), 1, it.VersionGap, "version 2 is missing"),
    "gap after the newest": NotWritable(version(7, add("x")), 3, it.VersionGap, "version 4 is missing"),
    "the largest version there can be": NotWritable(version(2**63 - 1, add("x")), 3, it.VersionGap, "version 4 is missing"),
    "version 0 missing": Refused(delete(0), it.TableNotFound, "version 0 is missing"),
    "all versions missing": Refused(delete(0, 1, 2, 3), it.TableNotFound, "no transaction log found"),
    "version 0 missing with a pointer": Refused(
        both(delete(0), put("_last_checkpoint")), it.LogCorrupted, "is incomplete: version 0 or a valid checkpoint is missing"
    ),
    "gap with a pointer": Refused(both(delete(2), put("_last_checkpoint")), it.LogCorrupted, "version 2 is missing"),
    "gap with a broken checkpoint": Refused(both(delete(2), put(f"{1:020d}.checkpoint.json")), it.LogCorrupted, "broken checkpoints: 1"),
    "gap with a broken state": Refused(both(delete(2), put(f"state-v{1:020d}/_manifest.avro")), it.LogCorrupted, "broken checkpoints: 1"),
    "a state across the gap": Reads(both(delete(1, 2), lambda t: write_table_state(log_folder(t), 2, ["f1", "f2"]))),
    "a state after the newest version": Reads(lambda t: write_table_state(log_folder(t), 9, ["z"]), 9, ("z",)),
    "a broken state after the newest version": Refused(put(f"state-v{9:020d}/_manifest.avro"), it.LogCorrupted, "broken checkpoints: 9"),
    "a broken checkpoint after the newest version": Refused(put(f"{9:020d}.checkpoint.json"), it.LogCorrupted, "broken checkpoints: 9"),
    "a broken checkpoint before it": Reads(put(f"{2:020d}.checkpoint.json"), warns="failed to read checkpoint at version 2"),
    "a broken state before it": Reads(put(f"state-v{2:020d}/_manifest.json"), warns="failed to read checkpoint at version 2"),
    "a checkpoint that is a version file": Reads(
        put(f"{2:020d}.checkpoint.json", lines(add("x"))), warns="failed to read checkpoint at version 2"
    ),
    "pointer ahead": Reads(put("_last_checkpoint", b'{"version":40}'), warns="_last_checkpoint names a version after 3"),
    "pointer behind": Reads(put("_last_checkpoint", b'{"version":1}')),
    "pointer empty": Reads(put("_last_checkpoint", b"")),
    "pointer with a negative version": Reads(put("_last_checkpoint", b'{"version":-5}')),
    "pointer of many fields": Reads(
        put("_last_checkpoint", b'{"version":1,"size":1,"parts":null,"format":"avro-state","stateDir":"../x","new":[]}')
    ),
    "empty version": Refused(put(f"{2:020d}.json", b""), it.LogCorrupted, "version 2 is empty"),
    "empty gzip": Reads(put(f"{FOUR}.json", gzip.compress(b"")), 4),
    "blank lines only": Reads(put(f"{FOUR}.json", b"\n\n \r\n"), 4),
    "torn gzip": Refused(put(f"{2:020d}.json", gzip.compress(lines(add("x")))[:-9]), it.LogCorrupted, "version 2 is cut off"),
    "torn JSON": Refused(put(f"{2:020d}.json", lines(add("x"))[:-9]), it.LogCorrupted, "version 2, line 1"),
    "damage in version 0": Refused(put(f"{0:020d}.json", b"{"), it.LogCorrupted, "version 0, line 1"),
    "plain text": Refused(put(f"{2:020d}.json", b"hello"), it.LogCorrupted, "version 2, line 1"),
    "a PNG image": Refused(put(f"{2:020d}.json", b"\x89PNG\r\n\x1a\n"), it.LogCorrupted, "version 2, line 1"),
    "gzip": Reads(put(f"{FOUR}.json", gzip.compress(lines(add("g")))), 4, ("f1", "f2", "f3", "g")),
    "gzip of two members": Reads(
        put(f"{FOUR}.json", gzip.compress(lines(add("g"))) + gzip.compress(lines(add("h")))), 4, ("f1", "f2", "f3", "g", "h")
    ),
    "gzip of the Scala program": Reads(put(f"{FOUR}.json", b"\x01\x01" + gzip.compress(lines(add("g")))), 4, ("f1", "f2", "f3", "g")),
    "only the prefix of the Scala program": Refused(put(f"{FOUR}.json", b"\x01\x01"), it.LogCorrupted, "version 4, line 1"),
    "no final newline": Reads(put(f"{FOUR}.json", lines(add("g")).rstrip()), 4, ("f1", "f2", "f3", "g")),
    "re-add": Reads(version(4, remove("f1"), add("f1", size=9)), 4),
    "remove and add in the other order": Reads(version(4, add("f1"), remove("f1")), 4, ("f2", "f3")),
    "add twice": Reads(version(4, add("f1"), add("f1")), 4),
    "remove of nothing": Reads(version(4, remove("never")), 4),
    "remove twice": Reads(version(4, remove("f1"), remove("f1")), 4, ("f2", "f3")),
    "a path in two spellings": Reads(lambda table: write_version(table, 4, remove(f"file://{table}/f1")), 4, ("f2", "f3")),
    "unknown action": Reads(version(4, {"fromTheFuture": {"a": 1}}, add("g")), 4, ("f1", "f2", "f3", "g")),
    "unknown field": Reads(version(4, add("g", fromTheFuture=[1])), 4, ("f1", "f2", "f3", "g")),
    "a skip is no remove": Reads(version(4, skip("f1", skipCount=2)), 4),
    "a later protocol": Reads(version(4, protocol(3, 3)), 4),
    "a newer reader version": Refused(version(4, protocol(9, 2)), it.ProtocolUnsupported, "needs protocol 9 to read"),
    "an unknown reader feature": Refused(
        version(4, protocol(3, 3, readerFeatures=["x"])), it.ProtocolUnsupported, "the features x to read"
    ),
    "a newer writer version": NotWritable(version(4, protocol(2, 9)), 4, it.ProtocolUnsupported, "needs protocol 9 to write"),
    "an unknown writer feature": NotWritable(version(4, protocol(3, 3, writerFeatures=["x"])), 4, it.ProtocolUnsupported, "the features x"),
    "no protocol": Reads(version(0, metadata())),
    "protocol after metadata": Reads(version(0, metadata(), protocol())),
    "no metadata": Refused(version(0, protocol()), it.LogCorrupted, "no metadata found"),
    "metadata in a later version": Reads(both(version(0, protocol()), version(4, metadata())), 4),
    "the last metadata wins": Reads(version(4, metadata(name="n")), 4),
    "adds in version 0": Reads(version(0, protocol(), metadata(), add("z")), 3, ("f1", "f2", "f3", "z")),
    "a key twice": Refused(
        put(f"{FOUR}.json", lines(add("g")).replace(b'"size": 1', b'"size": 1, "size": 2')), it.LogCorrupted, "'size' twice"
    ),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_version(tmp_path / "t", 0, protocol(), metadata())
    for number in (1, 2, 3):
        write_version(tmp_path / "t", number, add(f"f{number}"))
    return tmp_path / "t"


@pytest.mark.parametrize("name", CASES)
def test_an_unusual_log_is_read_or_refused_with_the_reason(table: Path, name: str) -> None:
    case = CASES[name]
    case.prepare(table)
    if isinstance(case, Refused):
        with pytest.raises(case.error, match=case.says):
            it.open(table)
        return
    opened = it.open(table, options={"transaction.retry.maxAttempts": 2, "transaction.retry.baseDelayMs": 1})
    before = tree(table)
    assert opened.version == case.version
    if isinstance(case, NotWritable):
        with pytest.raises(case.error, match=case.says):
            opened.log.commit([add("new")])
        assert tree(table) == before
        return
    assert (paths(opened), len(opened.warnings)) == (sorted(case.files), 0 if case.warns is None else 1)
    assert all(case.warns in warning for warning in opened.warnings if case.warns)
    if case.commits:
        assert opened.log.commit([add("new")]) == case.version + 1
    else:
        with pytest.raises(it.ConcurrentConflict, match="nothing was committed"):
            opened.log.commit([add("new")])
    assert {k: v for k, v in tree(table).items() if k in before} == before


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60
