"""Replays actions into the state of a table: protocol, metadata, live files, transactions, skips. Pure: no storage, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from indextables.actions.add_patterns import AddBlock
from indextables.actions.edit import Edit
from indextables.actions.layers import EMPTY, LayeredFiles
from indextables.actions.model import Action, Add, CommitInfo, Metadata, Protocol, Remove, Skip, Txn
from indextables.paths import NULL_PARTITION, are_plain

_WITH_PATH = (Add, Remove)
Normalise = Callable[[str], str]  # a path of the log -> relative to the table; raises UnsafePath


class Replay:
    """Applies versions in order: an add puts a path, a remove takes it away, the latest protocol and metadata win."""

    def __init__(
        self,
        normalise: Normalise,
        *,
        protocol: Protocol | None = None,
        metadata: Metadata | None = None,
        files: LayeredFiles = EMPTY,
        txns: Mapping[str, Txn] | None = None,
        skips: Mapping[str, Skip] | None = None,
    ) -> None:
        self._normalise = normalise
        self.protocol = protocol
        self.metadata = metadata
        self._files = Edit(files)
        self.txns: dict[str, Txn] = dict(txns or {})
        self.skips: dict[str, Skip] = dict(skips or {})  # by path, all skips of a path in one

    def apply(self, version: int, actions: Sequence[Action | AddBlock]) -> None:
        # Usually all paths are plain, which one check over all of them shows. Paths of blocks always are.
        paths = [action.path for action in actions if isinstance(action, _WITH_PATH)]
        is_plain = bool(paths) and are_plain(paths)
        put = self._files.put
        timestamp = next((action.timestamp for action in actions if isinstance(action, CommitInfo)), None)
        # Trusted only at the version where the commit was made: in a copied version file the claim may be false.
        self._files.paths_are_new = any(isinstance(a, CommitInfo) and a.new_paths and a.read_version == version - 1 for a in actions)
        for action in actions:
            if isinstance(action, AddBlock):
                self._files.put_block(action)
            elif isinstance(action, Add):
                if is_plain and action.added_at_version == version and NULL_PARTITION not in action.partition_values.values():
                    put(action.path, action)
                else:
                    self.put(structs.replace(action, added_at_version=version, added_at_timestamp=timestamp))
            elif isinstance(action, Remove):
                path = action.path if is_plain else self._normalise(action.path)
                self._files.remove(path)
                self.skips.pop(path, None)
            elif isinstance(action, Protocol):
                self.protocol = action
            elif isinstance(action, Metadata):
                self.metadata = action.following(self.metadata)
            elif isinstance(action, Txn):
                self.put_txn(action)
            elif isinstance(action, Skip):
                self.put_skip(action)
        self._files.paths_are_new = False

    def put(self, add: Add) -> None:
        """Puts an add of a checkpoint, unchanged. A path that is added again moves to the end, as in the log."""
        path = self._normalise(add.path)
        if NULL_PARTITION in add.partition_values.values():  # null as other programs write it; here a null value has no key
            values = {name: value for name, value in add.partition_values.items() if value != NULL_PARTITION}
            add = structs.replace(add, partition_values=values)
        self._files.put(path, add if add.path == path else structs.replace(add, path=path))

    def put_all(self, adds: Sequence[Add]) -> None:
        """`put` for each add, with one check of all paths."""
        is_plain = are_plain([add.path for add in adds])
        for add in adds:
            if is_plain and NULL_PARTITION not in add.partition_values.values():
                self._files.put(add.path, add)
            else:
                self.put(add)

    def put_txn(self, txn: Txn) -> None:
        known = self.txns.get(txn.app_id)
        if known is None or known.version < txn.version:
            self.txns[txn.app_id] = txn

    def put_skip(self, skip: Skip) -> None:
        """Keeps the latest skip of a path, with the highest count and the latest retry time of all its skips."""
        path = self._normalise(skip.path)
        known = self.skips.get(path)
        count = max(skip.count, known.count if known else 0)
        times = [time for time in (skip.retry_after, known.retry_after if known else None) if time is not None]
        self.skips[path] = structs.replace(skip, path=path, skip_count=count, retry_after=max(times, default=None))

    def put_txns_and_skips(self, txns: Iterable[Txn], skips: Iterable[Skip]) -> None:
        for txn in txns:
            self.put_txn(txn)
        for skip in skips:
            self.put_skip(skip)

    @property
    def num_files(self) -> int:
        return len(self._files)

    def files(self) -> LayeredFiles:
        """The live files. The replay must not be used afterwards."""
        return self._files.done()
