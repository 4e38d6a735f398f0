"""What every verb needs to work on a table: its log, the options of the call, the clock."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from indextables.actions import Totals
from indextables.clock import SYSTEM_CLOCK, Clock
from indextables.config import Config
from indextables.errors import TableNotFound
from indextables.log import ReadSettings, TransactionLog
from indextables.paths import TableRoot
from indextables.predicates import Predicate
from indextables.storage import Store, StoreSpec, open_store
from indextables.table import loading
from indextables.table.metrics import Metrics, metrics_of
from indextables.table.opening import advance, load_snapshot
from indextables.table.snapshot import LoadedSnapshot, Snapshot


@dataclass(frozen=True, slots=True)
class TableContext:
    log: TransactionLog
    config: Config
    clock: Clock

    @classmethod
    def at(cls, path: str | os.PathLike[str], options: Mapping[str, Any] | None = None, clock: Clock = SYSTEM_CLOCK) -> TableContext:
        """Checks the form of the path and the options, but not whether a table exists: reading it does."""
        config = Config.of(options)
        root = TableRoot.parse(path)
        if root.is_local and os.path.exists(root.path) and not os.path.isdir(root.path):
            raise TableNotFound(f"{str(root)!r} is a file, not the folder of a table")
        return cls(TransactionLog(open_store(StoreSpec.of(root, config)), ReadSettings.of(config), clock), config, clock)

    @classmethod
    def of(cls, spec: StoreSpec) -> TableContext:
        """The context of a table whose store is known already, with default options: executors start from it."""
        return cls(TransactionLog(open_store(spec)), Config.of(), SYSTEM_CLOCK)

    @property
    def store(self) -> Store:
        return self.log.store

    @property
    def root(self) -> TableRoot:
        return self.log.store.root

    @property
    def metrics(self) -> Metrics:
        """Counters of what this process did with the table so far."""
        return metrics_of(self.store.spec)

    def snapshot(self, version: int | None = None, max_staleness: float = 0) -> Snapshot:
        """The table at `version`, by default the newest. With `max_staleness` the listing of the log may be that many seconds old."""
        return load_snapshot(self.log, version, int(max_staleness * 1000))

    def newest(self, known: Snapshot | None, max_staleness: float = 0) -> Snapshot:
        """The newest version; only the versions after `known` are read."""
        return self.snapshot(None, max_staleness) if known is None else advance(self.log, known, int(max_staleness * 1000))

    def uncached(self) -> TableContext:
        """The same table, read without caches: for verbs that look for damage."""
        return TableContext(self.log.uncached(), self.config, self.clock)

    def load(self, snapshot: Snapshot, predicate: Predicate | None = None) -> LoadedSnapshot:
        """The snapshot with its files. With `predicate`, manifests whose partition bounds rule it out are not read."""
        return loading.load(self.log, snapshot, predicate)

    def totals(self, snapshot: Snapshot) -> Totals:
        """Number, bytes and records of the live files, in most cases without loading them."""
        return loading.totals(self.log, snapshot)

    def for_table(self, snapshot: Snapshot) -> TableContext:
        """The context with the table's configuration added; the options of the call take precedence."""
        return TableContext(self.log, self.config.with_table(snapshot.metadata.configuration), self.clock)
