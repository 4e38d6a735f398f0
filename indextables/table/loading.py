"""Loads the files of a snapshot from the manifests of its state. A damaged state never loses files.

If a manifest is damaged, the same version is read again without that state, from an older base and the versions after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from indextables.actions import Bounds, Totals
from indextables.log import TransactionLog
from indextables.memo import Memo
from indextables.predicates import Predicate
from indextables.state import FileLoader, ManifestDamaged, matching_manifests
from indextables.table.opening import without_state
from indextables.table.pruning import may_match_bounds
from indextables.table.snapshot import LoadedSnapshot, Snapshot

T = TypeVar("T")
_LOADED: Memo[Snapshot, LoadedSnapshot] = Memo()


def load(log: TransactionLog, snapshot: Snapshot, predicate: Predicate | None = None) -> LoadedSnapshot:
    """The snapshot with its files. With `predicate`, manifests whose partition bounds rule it out are not read (AVR-13).

    LogCorrupted if no base of this version can be read.
    """
    base, loader = snapshot.layers.base, FileLoader(log)
    if predicate is not None and base is not None:
        may_match = by_bounds(snapshot, predicate)
        if len(matching_manifests(base, may_match)) < len(base.manifests):
            return snapshot.with_files(on_undamaged_base(log, snapshot, lambda usable: loader.load(usable.layers, may_match)))
    return _LOADED.get(snapshot, lambda known: known.with_files(on_undamaged_base(log, known, lambda usable: loader.load(usable.layers))))


def totals(log: TransactionLog, snapshot: Snapshot) -> Totals:
    """Totals of the live files. Loads no file entries unless files of the state were removed since."""
    return on_undamaged_base(log, snapshot, lambda usable: FileLoader(log).totals(usable.layers))


def on_undamaged_base(log: TransactionLog, snapshot: Snapshot, use: Callable[[Snapshot], T]) -> T:
    """The result of `use(snapshot)`; if the state that the snapshot was read from is damaged, of the same version on an older base."""
    while True:
        try:
            return use(snapshot)
        except ManifestDamaged as error:
            assert snapshot.layers.base is not None
            snapshot = without_state(log, snapshot, snapshot.layers.base.version, str(error))


def by_bounds(snapshot: Snapshot, predicate: Predicate) -> Callable[[Mapping[str, Bounds]], bool]:
    """A function that is False for the bounds of a manifest only if none of its files can match."""
    return lambda bounds: may_match_bounds(predicate, bounds, snapshot.schema, snapshot.partition_columns)
