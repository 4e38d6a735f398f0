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
    ProtocolUnsupported,
    StorageError,
    TableNotFound,
)
from indextables.log import POINTER, LogListing
from indextables.operations.checkpoint import expired_files
from indextables.operations.expire import (
    PurgeFacts,
    PurgeOptions,
    complete_purge_facts,
    gather_purge_facts,
    may_be_uncommitted,
    plan_purge,
    purge_options,
    unreferenced_splits,
)
from indextables.operations.findings import Finding, Severity, command, counted, unreadable
from indextables.operations.inspect.log_damage import Damage, damaged_checkpoints
from indextables.operations.merge import merge_options, plan_merge
from indextables.operations.verbs import MergeSplits, Purge
from indextables.splits import fitting
from indextables.state import HOUR, Deletion, FileKind, read_pointer
from indextables.storage import creates_atomically
from indextables.table import Snapshot, TableContext, files_in_cooldown, is_foreign

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
        """What lies in the folder, and what the log says of it; of a log without gap. Enough to plan with `options` and with `sooner`."""
        facts = gather_purge_facts(self.context)
        return facts if self.is_foreign else complete_purge_facts(self.context, facts, self.sooner, self.now_ms)

    @cached_property
    def now_ms(self) -> int:
        """The moment that everything is judged at."""
        return self.context.clock.now_ms()

    @cached_property
    def due(self) -> Sequence[Deletion]:
        """What a purge with its defaults would delete now; nothing of another program's table, which it refuses."""
        if self.is_foreign:
            return ()
        return plan_purge(self.facts, self.options, self.now_ms).deletions

    @cached_property
    def damages(self) -> Sequence[Damage]:
        return list(damaged_checkpoints(self.context.log, self.listing, self.listing.bases))

    @property
    def is_foreign(self) -> bool:
        return is_foreign(self.snapshot.protocol)

    @property
    def options(self) -> PurgeOptions:
        return purge_options(Purge(), self.context.config)

    @property
    def sooner(self) -> PurgeOptions:
        """The same without the week that purge waits for splits in no version."""
        return replace(self.options, orphan_ms=limits.ORPHAN_HOURS * HOUR)

    def findings(self) -> Iterator[Finding]:
        yield from self._store()
        yield from self._options()
        yield from self._gap()
        yield from self._pointer()
        yield from self._checkpoints()
        yield from self._late_checkpoint()
        yield from self._skipped()
        yield from self._small_splits()
        if self.snapshot.gap_at is None:
            yield from self._files()

    def _store(self) -> Iterator[Finding]:
        try:
            is_atomic = creates_atomically(self.context.store)
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

    def _options(self) -> Iterator[Finding]:
        for warning in fitting(self.context.config, self.snapshot.schema, self.snapshot.partition_columns).warnings:
            message = f"{warning}; writing and purging are refused unless the call gives another value"
            yield Finding("bad-option", Severity.WARNING, message, command("config", self.table))

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
        for damage in self.damages:
            if damage.version < (self.snapshot.checkpoint or 0):
                instead = f"that of version {self.snapshot.checkpoint} is used instead, and purge deletes this one when it is old"
                yield Finding("broken-checkpoint", Severity.INFO, f"{damage.message}; {instead}", command("purge", self.table))
            else:
                yield Finding("broken-checkpoint", Severity.WARNING, damage.message, command("checkpoint", self.table))

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
        options = merge_options(MergeSplits(), self.context.config, self.snapshot)
        groups = plan_merge(self.context.load(self.snapshot), options, self.context.clock.now_ms()).groups
        sources = sum(len(group.paths) for group in groups)
        if sources >= SMALL_SPLITS:
            message = f"{sources} small splits would become {len(groups)} by a merge"
            claim = ("-o", "storage.takeOver=true") if self.is_foreign else ()
            message += ", which makes the table ours: its own program can no longer read it then" if claim else ""
            yield Finding("small-splits", Severity.WARNING, message, command("merge-splits", self.table, *claim))

    def _files(self) -> Iterator[Finding]:
        facts, planned = self.facts, self.due
        missing = sorted(facts.live - set(facts.folder.paths))
        if missing:
            message = f"{counted(len(missing), 'live split', 'missing')}: {_some(missing)}"
            yield Finding("missing-split", Severity.ERROR, message, command("repair", self.table, "NEW_LOG"))
        if self.is_foreign:
            return
        fix = command("purge", self.table)
        orphans = self._orphans(planned)
        yield from self._young_unreferenced_splits(orphans, fix)
        if orphans:
            yield Finding("orphaned-split", Severity.WARNING, f"{counted(len(orphans), 'split', 'in no version')}: {_some(orphans)}", fix)
        manifests = [d.path for d in planned if d.kind is FileKind.MANIFEST]
        if manifests:
            yield Finding(
                "unreachable-manifest", Severity.WARNING, f"{counted(len(manifests), 'manifest', 'in no state')}: {_some(manifests)}", fix
            )
        yield from self._overdue_deletions(planned, {*orphans, *manifests})

    def _overdue_deletions(self, planned: Sequence[Deletion], known: set[str]) -> Iterator[Finding]:
        """What purge would delete now, and versions that the clean-up after a checkpoint should have deleted."""
        damaged = {damage.version for damage in self.damages}  # a finding of their own
        of_purge = [d.path for d in planned if d.path not in known and d.version not in damaged and self._is_overdue(d)]
        if of_purge:
            message = f"{counted(len(of_purge), 'file', 'past the retention')}: {_some(of_purge)}"
            yield Finding("overdue-retention", Severity.WARNING, message, command("purge", self.table))
        checkpoint = self.snapshot.checkpoint
        expired = () if checkpoint is None else expired_files(self.context, checkpoint).deletions
        left = [d.path for d in expired if d.kind is FileKind.VERSION and d.path not in of_purge]
        if left:
            message = f"{counted(len(left), 'version', 'past logRetention.duration')}: {_some(left)}"
            fix = command("checkpoint", self.table, "-o", "cleanup.enabled=true")
            yield Finding("overdue-retention", Severity.WARNING, message, fix)

    def _is_overdue(self, deletion: Deletion) -> bool:
        """Old checkpoints and states are deleted after the next checkpoint; only where that has not happened for long they are overdue."""
        if deletion.kind not in (FileKind.CHECKPOINT, FileKind.STATE):
            return True
        latest = self.context.clock.now_ms() - self.options.older_than_ms
        return all(file.modified_ms is not None and file.modified_ms <= latest for file in deletion.files)

    def _orphans(self, planned: Sequence[Deletion]) -> list[str]:
        return [d.path for d in planned if d.kind is FileKind.SPLIT and d.path not in self.facts.removed_at]

    def _young_unreferenced_splits(self, due: Sequence[str], fix: str) -> Iterator[Finding]:
        """What purge does not take yet: of a write in progress perhaps, or of one that failed within the retention."""
        known = set(due)
        unknown = [file for file in unreferenced_splits(self.facts) if file.path not in known]
        fresh = [file.path for file in unknown if may_be_uncommitted(file, self.now_ms)]
        if fresh:
            message = f"{counted(len(fresh), 'young split', 'in no version')}, and may belong to a write in progress: {_some(fresh)}"
            yield Finding("fresh-orphan", Severity.INFO, message, fix)
        if len(fresh) == len(unknown):
            return
        sooner = plan_purge(self.facts, self.sooner, self.now_ms).deletions
        waiting = [path for path in self._orphans(sooner) if path not in known]
        if waiting:
            message = f"{counted(len(waiting), 'split', 'in no version')}, and purge takes what is a week old: {_some(waiting)}"
            yield Finding("orphaned-split", Severity.INFO, message, fix)


def examine(context: TableContext) -> tuple[list[Finding], Examination | None]:
    """The findings, and what they were found on: None where the table cannot be read in full, which is the last finding.

    Everything is read from the store. What is no damage is raised: that there is no table, or one that this program cannot examine, and
    an error that may be retried.
    """
    context.log.invalidate_cache()
    uncached = context.from_store()
    found: list[Finding] = []
    try:
        snapshot = uncached.snapshot()
        examination = Examination(uncached.for_table(snapshot), snapshot, uncached.log.listing())
        found.extend(examination.findings())
        return found, examination
    except (ConfigError, ProtocolUnsupported, StorageError, TableNotFound):
        raise
    except IndexTablesError as error:
        if error.retryable:
            raise
        return [*found, unreadable(str(context.root), error)], None


def doctor(context: TableContext) -> list[Finding]:
    return examine(context)[0]


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(repr(path) for path in paths[:_SHOWN]) + more
