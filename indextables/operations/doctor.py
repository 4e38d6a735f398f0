"""Doctor: looks at everything a table is made of, changes nothing of it, and says what to do. An empty list is a healthy table.

Of a remote store it asks once more whether files are created atomically, by racing for a few that it removes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from indextables import limits
from indextables.errors import (
    CommitUnknown,
    ConfigError,
    IndexTablesError,
    LogCorrupted,
    ProtocolUnsupported,
    StorageError,
    TableNotFound,
)
from indextables.log.names import POINTER, LogListing
from indextables.operations import merge_plan, purge, purge_facts
from indextables.operations.findings import Finding, Severity, command, counted
from indextables.operations.purge import PurgeOptions
from indextables.operations.purge_facts import PurgeFacts
from indextables.state import formats
from indextables.state.pointer import read_pointer
from indextables.state.retention import HOUR, Deletion, Kind
from indextables.storage.probe import probe
from indextables.storage.remote import RemoteStore
from indextables.table.context import TableContext
from indextables.table.cooldown import files_in_cooldown
from indextables.table.protocol import is_foreign
from indextables.table.snapshot import Snapshot

SMALL_SPLITS = 10  # that a merge would take: from here on it is worth a finding
LATE_INTERVALS = 3  # without a checkpoint
_SHOWN = 3


@dataclass(frozen=True)
class Examination:
    """A table that can be read, looked at once: what is listed and planned is kept."""

    context: TableContext  # with the table's own configuration
    snapshot: Snapshot
    listing: LogListing

    @property
    def table(self) -> str:
        return str(self.context.root)

    @cached_property
    def facts(self) -> PurgeFacts:
        """What lies in the folder, and what the log says of it; of a log without gap."""
        return purge_facts.gather(self.context)

    @cached_property
    def due(self) -> Sequence[Deletion]:
        """What a purge with its defaults would delete now; nothing of another program's table, which it refuses."""
        if self.is_foreign:
            return ()
        return purge.plan(self.facts, self.options, self.context.clock.now_ms()).deletions

    @property
    def is_foreign(self) -> bool:
        return is_foreign(self.snapshot.protocol)

    @property
    def options(self) -> PurgeOptions:
        return purge.options_of(self.context, "7d", None)

    def findings(self) -> Iterator[Finding]:
        yield from self._store()
        yield from self._gap()
        yield from self._pointer()
        yield from self._checkpoints()
        yield from self._late_checkpoint()
        yield from self._skipped()
        yield from self._small_splits()
        if self.snapshot.gap_at is None:
            yield from self._files()

    def _store(self) -> Iterator[Finding]:
        store = self.context.store
        if not isinstance(store, RemoteStore) or store.spec.single_writer:
            return
        try:
            is_atomic = probe(store).is_atomic
        except (StorageError, CommitUnknown) as error:
            message = f"whether the store creates files atomically could not be found out: {error}"
            yield Finding("store-unproved", Severity.INFO, message, command("doctor", self.table))
            return
        if not is_atomic:
            message = (
                "the store lets several writers create the same file, so that they would overwrite each other's commits: "
                "use another store, or one writer that says so by storage.singleWriter=true"
            )
            yield Finding("store-not-atomic", Severity.ERROR, message, command("doctor", self.table, "-o", "storage.singleWriter=true"))

    def _gap(self) -> Iterator[Finding]:
        fix = command("repair", self.table, "NEW_LOG")
        if 0 not in self.listing.versions:
            message = "version 0 is missing: the table is read from a checkpoint alone, and other programs may not find it"
            yield Finding("missing-version-0", Severity.ERROR, f"{message}; if there is a backup, restore it", fix)
        if (gap := self.snapshot.gap_at) is not None:
            message = f"version {gap} is missing although later ones exist: they cannot be seen, and nothing can be written"
            yield Finding("version-gap", Severity.ERROR, f"{message}; if there is a backup, restore it", fix)

    def _pointer(self) -> Iterator[Finding]:
        fix = command("checkpoint", self.table)
        newest = max(self.listing.bases, default=None)
        if not self.listing.has_pointer:
            if newest is not None:
                yield Finding("missing-pointer", Severity.INFO, f"there is a checkpoint of version {newest} and no {POINTER}", fix)
            return
        pointer = read_pointer(self.context.store)
        if pointer is None:
            yield Finding("broken-pointer", Severity.WARNING, f"{POINTER} cannot be read", fix)
        elif pointer.version not in self.listing.bases:
            yield Finding("stale-pointer", Severity.WARNING, f"{POINTER} names version {pointer.version}, which has no checkpoint", fix)
        elif newest is not None and pointer.version < newest:
            message = f"{POINTER} names version {pointer.version}, and the newest checkpoint is of version {newest}"
            yield Finding("stale-pointer", Severity.WARNING, message, fix)

    def _checkpoints(self) -> Iterator[Finding]:
        for version in self.listing.bases:
            try:
                replay, _ = formats.read(self.context.log, self.listing, version)
                replay.files().table()  # decodes what is read when first needed
            except LogCorrupted as error:
                message = f"the checkpoint of version {version} cannot be used: {error}"
                if version < (self.snapshot.checkpoint or 0):
                    message += f"; that of version {self.snapshot.checkpoint} is used instead, and purge deletes this one when it is old"
                    yield Finding("broken-checkpoint", Severity.INFO, message, command("purge", self.table))
                else:
                    yield Finding("broken-checkpoint", Severity.WARNING, message, command("checkpoint", self.table))

    def _late_checkpoint(self) -> Iterator[Finding]:
        interval = int(self.context.config.get("checkpoint.interval"))
        behind = self.snapshot.version - (self.snapshot.checkpoint or 0)
        if behind > LATE_INTERVALS * interval:
            message = f"{behind} versions since the last checkpoint, and one is due every {interval}"
            yield Finding("late-checkpoint", Severity.WARNING, message, command("checkpoint", self.table))

    def _skipped(self) -> Iterator[Finding]:
        """Most were damaged. A repaired log leaves those out that are, and tries the others again at once."""
        cooling = files_in_cooldown(self.snapshot, self.context.clock.now_ms())
        for path in cooling:
            skip = self.snapshot.skips[path]
            times = "once" if skip.count == 1 else f"{skip.count} times"
            message = f"split {path!r} was skipped {times}, last by {skip.operation or 'an operation'}: {skip.reason}"
            yield Finding("skipped-split", Severity.WARNING, message, command("repair", self.table, "NEW_LOG"))

    def _small_splits(self) -> Iterator[Finding]:
        options = merge_plan.options_of(self.context, self.snapshot)
        groups = merge_plan.plan(self.snapshot, options, self.context.clock.now_ms()).groups
        sources = sum(len(group.paths) for group in groups)
        if sources >= SMALL_SPLITS:
            message = f"{sources} small splits would become {len(groups)} by a merge"
            claim = ("-o", "storage.takeOver=true") if self.is_foreign else ()
            message += ", which makes the table ours: its own program can no longer read it then" if claim else ""
            yield Finding("small-splits", Severity.WARNING, message, command("merge-splits", self.table, *claim))

    def _files(self) -> Iterator[Finding]:
        facts, planned = self.facts, self.due
        missing = sorted(facts.live - set(facts.listed.paths))
        if missing:
            message = f"{counted(len(missing), 'live split', 'missing')}: {_some(missing)}"
            yield Finding("missing-split", Severity.ERROR, message, command("repair", self.table, "NEW_LOG"))
        if self.is_foreign:
            return
        fix = command("purge", self.table)
        orphans = self._orphans(planned)
        yield from self._young_orphans(orphans, fix)
        if orphans:
            yield Finding("orphaned-split", Severity.WARNING, f"{counted(len(orphans), 'split', 'in no version')}: {_some(orphans)}", fix)
        manifests = [d.path for d in planned if d.kind is Kind.MANIFEST]
        if manifests:
            yield Finding(
                "unreachable-manifest", Severity.WARNING, f"{counted(len(manifests), 'manifest', 'in no state')}: {_some(manifests)}", fix
            )
        # Old checkpoints and states go with the next checkpoint, by themselves.
        overdue = [d.path for d in planned if d.kind in (Kind.VERSION, Kind.SPLIT, Kind.TEMPORARY) and d.path not in orphans]
        if overdue:
            message = f"{counted(len(overdue), 'file', 'past the retention')}: {_some(overdue)}"
            yield Finding("overdue-retention", Severity.WARNING, message, fix)

    def _orphans(self, planned: Sequence[Deletion]) -> list[str]:
        return [d.path for d in planned if d.kind is Kind.SPLIT and d.path not in self.facts.removed_at]

    def _young_orphans(self, due: Sequence[str], fix: str) -> Iterator[Finding]:
        """What purge does not take yet: of a write in progress perhaps, or of one that failed within the retention."""
        known, now = set(due), self.context.clock.now_ms()
        unknown = [file for file in purge_facts.unknown_splits(self.facts) if file.path not in known]
        fresh = [file.path for file in unknown if purge_facts.is_fresh(file, now)]
        if fresh:
            message = f"{counted(len(fresh), 'young split', 'in no version')}, and may belong to a write in progress: {_some(fresh)}"
            yield Finding("fresh-orphan", Severity.INFO, message, fix)
        if len(fresh) == len(unknown):
            return
        sooner = replace(self.options, orphan_ms=limits.ORPHAN_HOURS * HOUR)
        waiting = [path for path in self._orphans(purge.plan(self.facts, sooner, now).deletions) if path not in known]
        if waiting:
            message = f"{counted(len(waiting), 'split', 'in no version')}, and purge takes what is a week old: {_some(waiting)}"
            yield Finding("orphaned-split", Severity.INFO, message, fix)


def examine(context: TableContext) -> tuple[list[Finding], Examination | None]:
    """The findings, and what they were found on: None where the table cannot be read at all, which is one finding.

    What is no damage is raised: that there is no table, or one this program cannot look at, and an error that may be tried again.
    """
    context.log.invalidate_cache()
    try:
        snapshot = context.snapshot()
        examination = Examination(context.for_table(snapshot), snapshot, context.log.listing())
        return list(examination.findings()), examination
    except (ConfigError, ProtocolUnsupported, StorageError, TableNotFound):
        raise
    except IndexTablesError as error:
        if error.retryable:
            raise
        return [Finding("unreadable", Severity.ERROR, str(error), command("repair", str(context.root), "NEW_LOG"))], None


def doctor(context: TableContext) -> list[Finding]:
    return examine(context)[0]


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(repr(path) for path in paths[:_SHOWN]) + more
