"""A table folder that is written file by file without the product, with a record of everything it contains."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from indextables.storage import Entry, Store
from tests.support.states import FILE_ENTRY, entry, packed, state_document

HOUR = 3_600_000
DAY = 24 * HOUR
METADATA = {"id": "m", "schemaString": '{"type":"struct","fields":[]}', "partitionColumns": [], "createdTime": 1}
PROTOCOL = {"minReaderVersion": 2, "minWriterVersion": 2}
LOG = "_transaction_log"
FUTURE = 7_000_000_000_000


@dataclass
class ModeledTable:
    """A random table. Versions are consecutive and their times increase."""

    root: Path
    rng: random.Random
    now: int = 1_700_000_000_000
    version: int = -1
    live: dict[str, None] = field(default_factory=dict)
    at: dict[int, frozenset[str]] = field(default_factory=dict)  # live paths at each version
    times: dict[int, int] = field(default_factory=dict)
    removed: dict[str, tuple[int, int]] = field(default_factory=dict)  # version and time of the last removal
    modified: dict[str, int] = field(default_factory=dict)  # of every file, by path
    foreign: set[str] = field(default_factory=set)
    families: dict[int, set[str]] = field(default_factory=dict)  # files of JSON and Parquet checkpoints by version
    json_heads: set[int] = field(default_factory=set)  # versions of JSON checkpoints
    loose: dict[int, set[str]] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)  # path of each state manifest
    named: dict[int, set[str]] = field(default_factory=dict)  # manifests that each state references
    entries: dict[str, tuple[str, ...]] = field(default_factory=dict)  # paths in each manifest
    broken: set[int] = field(default_factory=set)  # versions whose checkpoint files exist but cannot be read
    unreadable: set[int] = field(default_factory=set)  # states with a damaged state manifest
    temporaries: set[str] = field(default_factory=set)  # temporary files of killed or running writers
    sides: dict[str, str] = field(default_factory=dict)  # Hadoop checksum file of each path
    counter: int = 0

    def __post_init__(self) -> None:
        self.commit([])

    # ---- files

    def put(self, path: str, data: bytes | str = b"x", age: int = 0) -> str:
        self.write(path, data if isinstance(data, bytes) else data.encode())
        self.stamp(path, self.now - age)
        return path

    def write(self, path: str, data: bytes) -> None:
        try:
            (self.root / path).write_bytes(data)
        except FileNotFoundError:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(data)

    def stamp(self, path: str, ms: int) -> None:
        self.modified[path] = ms
        os.utime(self.root / path, ns=(ms * 1_000_000,) * 2)

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def side(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self.sides[path] = self.put(f"{folder}/.{name}.crc")

    def on_disk(self) -> set[str]:
        base = len(str(self.root)) + 1
        return {f"{folder}/{name}"[base:] for folder, _, names in os.walk(self.root) for name in names}

    def _number(self) -> int:
        self.counter += 1
        return self.counter

    # ---- the table

    def commit(self, actions: list[tuple[str, str]]) -> None:
        """Commits adds and removes of paths."""
        self.version += 1
        self.now += 1
        lines: list[dict[str, object]] = [{"protocol": PROTOCOL}, {"metaData": METADATA}] if self.version == 0 else []
        lines.insert(0, {"commitInfo": {"timestamp": self.now, "operation": "x"}})
        for verb, path in actions:
            if verb == "add":
                lines.append({"add": {"path": path, "size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {}}})
                self.live[path] = None
            else:
                lines.append({"remove": {"path": path, "deletionTimestamp": self.now, "dataChange": True}})
                self.live.pop(path)
                self.removed[path] = self.version, self.now
        path = self.put(f"{LOG}/{self.version:020d}.json", "\n".join(map(json.dumps, lines)))
        self.times[self.version] = self.now
        self.at[self.version] = frozenset(self.live)
        if self.rng.random() < 0.1:
            self.side(path)

    def split(self) -> str:
        path = self.put(f"splits/split-00000000-0000-4000-8000-{self._number():012d}.split")
        if self.rng.random() < 0.1:
            self.side(path)
        return path

    def append(self) -> None:
        self.commit([("add", self.split()) for _ in range(self.rng.randint(1, 2))])

    def merge(self) -> None:
        gone = self.rng.sample(sorted(self.live), min(len(self.live), self.rng.randint(1, 3)))
        self.commit([*(("remove", path) for path in gone), ("add", self.split())])

    def re_add(self) -> None:
        there = [path for path in self.removed if path not in self.live and self.exists(path)]
        if there:
            self.commit([("add", self.rng.choice(there))])

    def orphan(self) -> None:
        self.split()

    # ---- checkpoints

    def _lines(self, live: list[str]) -> str:
        adds = [{"add": {"path": path, "size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {}}} for path in live]
        return "\n".join(map(json.dumps, adds))

    def _head(self) -> str:
        return json.dumps({"protocol": PROTOCOL}) + "\n" + json.dumps({"metaData": METADATA})

    def json_checkpoint(self) -> None:
        self._family(self.put(f"{LOG}/{self.version:020d}.checkpoint.json", self._head() + "\n" + self._lines(list(self.live))))

    def parts(self, finished: bool = True) -> None:
        name = f"{self.version:020d}.checkpoint"
        unique = f"{self._number():012x}"
        live = list(self.live)
        texts = [self._head(), self._lines(live[::2]), self._lines(live[1::2])]
        made = {self.put(f"{LOG}/{name}.{unique}.{part:05d}.json", text or "\n") for part, text in enumerate(texts, start=1)}
        if finished:
            parts = [f"{name}.{unique}.{part:05d}.json" for part in (1, 2, 3)]
            made.add(self.put(f"{LOG}/{name}.json", json.dumps({"version": self.version, "checkpointId": unique, "parts": parts})))
            self._family(*made)
        else:
            self._loose(self.version, made)

    def _family(self, *paths: str) -> None:
        family = self.families.setdefault(self.version, set())
        family.update(paths, self.loose.pop(self.version, ()))
        self.json_heads.add(self.version)
        self.broken.discard(self.version)

    def _loose(self, version: int, paths: set[str]) -> None:
        place = self.families if version in self.json_heads else self.loose
        place.setdefault(version, set()).update(paths)

    def unfinished(self) -> None:
        self.parts(finished=False)

    def state(self) -> None:
        """Writes a state that reuses the manifests of the newest state where possible, and a manifest for new files."""
        if self.version in self.states or self.version == 0:
            return
        base = max((v for v in self.states if v not in self.broken), default=None)
        named = set() if base is None or self.rng.random() < 0.3 else set(self.named[base])
        known = {path for name in named for path in self.entries[name]}
        if any(path in self.live and path not in self.at[base or 0] for path in known):  # a path with a tombstone was added again
            named, known = set(), set()
        new = tuple(path for path in self.live if path not in known)
        folder = "manifests" if self.rng.random() < 0.8 else f"state-v{self.version:020d}"
        if new or not named:
            name = self.put(f"{LOG}/{folder}/manifest-{self._number():016x}.avro", packed(FILE_ENTRY, map(entry, new), "null"))
            self.entries[name] = new
            named.add(name)
        sizes = {name.removeprefix(LOG + "/"): len(self.entries[name]) for name in sorted(named)}
        gone = sorted(path for path in known if path not in self.live)
        document = state_document(self.version, sizes, tombstones=gone, metadata=json.dumps({"metaData": METADATA}), protocol=PROTOCOL)
        self.states[self.version] = self.put(f"{LOG}/state-v{self.version:020d}/_manifest.json", json.dumps(document))
        self.named[self.version] = named
        self.broken.discard(self.version)
        self.put(f"{LOG}/_last_checkpoint", json.dumps({"version": self.version, "size": 1}))

    def stray_manifest(self) -> None:
        name = self.put(f"{LOG}/manifests/manifest-{self._number():016x}.avro", packed(FILE_ENTRY, [], "null"))
        self.entries[name] = ()

    def parquet(self) -> None:
        """Files with the names of a Parquet checkpoint; they cannot be read."""
        folder = f"{LOG}/_checkpoints/{self.version:020d}.checkpoint"
        has_other = self.version in self.families or self.version in self.states
        self.families.setdefault(self.version, set()).update(self.put(f"{folder}.{end}") for end in ("json", "parquet", "00001.parquet"))
        if not has_other:
            self.broken.add(self.version)

    # ---- others

    def foreign_file(self) -> None:
        number = self._number()
        names = [
            "notes.txt", "splits/mine.split", f"part-{number}.split", f"{LOG}/notes.json", f"{LOG}/{number}.json",
            f"{LOG}/{number:020d}.json.bak", f"{LOG}/manifests/other-{number}.avro", f"{LOG}/state-v{number}/_manifest.json",
            f"{LOG}/_checkpoints/notes-{number}.parquet", f"{LOG}/{number:020d}.checkpoint.mine.txt", f"{LOG}/.tmp-{number:032x}",
            f"k=inner-{number}/{LOG}/{0:020d}.json", f"k=inner-{number}/splits/split-00000000-0000-4000-8000-{number:012d}.split",
        ]  # fmt: skip
        name = self.rng.choice(names)
        self.foreign.add(self.put(name, age=100 * DAY))
        if name.startswith("k=inner") and LOG not in name:
            self.foreign.add(self.put(f"k=inner-{number}/{LOG}/{0:020d}.json", age=100 * DAY))

    def temporary(self) -> None:
        digits = f"{self._number():012x}4{self.rng.getrandbits(12):03x}{self.rng.choice('89ab')}{self.rng.getrandbits(60):015x}"
        folder = self.rng.choice([LOG, f"{LOG}/manifests", f"{LOG}/_checkpoints", "splits", "k=1/splits"])
        self.temporaries.add(self.put(f"{folder}/.tmp-{digits}"))

    def link(self) -> None:
        number = self._number()
        target = self.root.parent / "outside" / f"precious-{number}"
        target.parent.mkdir(exist_ok=True)
        target.write_text("precious")
        os.utime(target, ns=((self.now - 100 * DAY) * 1_000_000,) * 2)
        names = [f"splits/split-00000000-0000-4000-8000-{number:012d}.split", f"{LOG}/manifests/manifest-{number:016x}.avro"]
        place = self.root / self.rng.choice(names)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        self.foreign.add(str(place.relative_to(self.root)))

    def ageless(self) -> None:
        """A file dated in the future, which never expires, like a file whose time the store does not report."""
        path = self.rng.choice([self.split, lambda: self.put(f"{LOG}/{self.version:020d}.checkpoint.{self._number():012x}.00001.json")])()
        if LOG in path:
            self._loose(self.version, {path})
        self.stamp(path, FUTURE)

    def damage(self) -> None:
        """Damages a checkpoint or state other than the newest. All version files it covers still exist."""
        usable = [v for v in {*self.families, *self.states} - self.broken if v < self.newest_valid()]
        if not usable:
            return
        version = self.rng.choice(sorted(usable))
        for path in [*self.families.get(version, ()), *([self.states[version]] if version in self.states else [])]:
            time = self.modified[path]
            self.put(path, b"\x00", self.now - time)
        self.broken.add(version)
        if version in self.states:
            self.unreadable.add(version)

    def newest_valid(self) -> int:
        return max(({*self.families, *self.states} - self.broken), default=-1)

    def wait(self) -> None:
        self.now += self.rng.choice([HOUR, 3 * HOUR, DAY, 3 * DAY, 9 * DAY])


@dataclass
class RemoteModeledTable(ModeledTable):
    """The same in an object store, where modification times cannot be set: `listed_as` replaces them in listings."""

    store: Store | None = None

    def write(self, path: str, data: bytes) -> None:
        assert self.store is not None
        self.store.replace(path, data)

    def stamp(self, path: str, ms: int) -> None:
        self.modified[path] = ms

    def exists(self, path: str) -> bool:
        return path in self.on_disk()

    def on_disk(self) -> set[str]:
        assert self.store is not None
        return {entry.path for entry in self.store.list("")}

    def link(self) -> None:
        """Object stores have no symbolic links."""

    def listed_as(self, entry: Entry) -> Entry:
        return Entry(entry.path, entry.size, self.modified.get(entry.path, entry.modified_ms))
