"""Doctor: checks all parts of a table without changing it and returns findings with suggested fixes; no finding means a healthy table.

Where servers may lack an atomic create (S3), it verifies again that they have one, with a race for a few temporary files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from indextables import limits
from indextables.clock import HOUR_MS
from indextables.errors import CommitUnknown, ConfigError, IndexTablesError, ProtocolUnsupported, StorageError, TableNotFound
from indextables.log import POINTER, LogListing
from indextables.operations.checkpoint import expired_files
from indextables.operations.expire import (
    UNREFERENCED,
    PurgeFacts,
    PurgeOptions,
    complete_purge_facts,
    gather_purge_facts,
    may_be_uncommitted,
    plan_purge,
    purge_options,
)
from indextables.operations.findings import Finding, Severity, command, counted, unreadable
from indextables.operations.inspect.log_damage import Damage, damaged_checkpoints
from indextables.operations.merge import merge_options, plan_merge
from indextables.operations.verbs import MergeSplits, Purge
from indextables.splits import without_invalid_column_options
from indextables.state import Deletion, FileKind, read_pointer
from indextables.storage import creates_atomically
from indextables.table import Snapshot, TableContext, files_in_cooldown, is_foreign
from indextables.texts import first_of

SMALL_SPLITS = 10  # minimum number of merge candidates for a finding
LATE_INTERVALS = 3  # checkpoint intervals without a checkpoint before a finding
_SHOWN = 3


@dataclass(frozen=True)
class Examination:
    """The examination of a readable table; listings and plans are computed once."""

    context: TableContext  # with the table's own configuration
    snapshot: Snapshot
    listing: LogListing

    @property
    def table(self) -> str:
        return str(self.context.root)

    @cached_property
    def facts(self) -> PurgeFacts:
        """The facts for purge plans with `options` and with `minimum_age_options`. Requires a log without a gap."""
        facts = gather_purge_facts(self.context)
        return facts if self.is_foreign else complete_purge_facts(self.context, facts, self.minimum_age_options, self.now_ms)

    @cached_property
    def now_ms(self) -> int:
        """The time that all checks use."""
        return self.context.clock.now_ms()

    @cached_property
    def due(self) -> Sequence[Deletion]:
        """What a purge with its defaults would delete now; empty for another program's table, which purge refuses."""
        if self.is_foreign:
            return ()
        return plan_purge(self.facts, self.options, self.now_ms).deletions

    @cached_property
    def expired(self) -> frozenset[int]:
        """The versions that a purge, or the cleanup after a checkpoint, would delete now."""
        checkpoint = self.snapshot.checkpoint
        of_cleanup = () if checkpoint is None else expired_files(self.context, checkpoint).deletions
        return frozenset(d.version for d in (*self.due, *of_cleanup) if d.kind is FileKind.VERSION and d.version is not None)

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
    def minimum_age_options(self) -> PurgeOptions:
        """The same options with the minimum waiting time for unreferenced splits."""
        return replace(self.options, unreferenced_ms=limits.UNREFERENCED_HOURS * HOUR_MS)

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
            yield from self._old_gaps()
            yield from self._files()

    def _store(self) -> Iterator[Finding]:
        try:
            is_atomic = creates_atomically(self.context.store)
        except (StorageError, CommitUnknown) as error:
            message = f"could not check whether the store creates files atomically: {error}"
            yield Finding("store-unproved", Severity.INFO, message, command("doctor", self.table))
            return
        if not is_atomic:
            message = (
                "the store does not create files atomically, so that concurrent writers can overwrite each other's commits: "
                "use another store, or a single writer with storage.singleWriter=true"
            )
            yield Finding("store-not-atomic", Severity.ERROR, message, command("doctor", self.table, "-o", "storage.singleWriter=true"))

    def _options(self) -> Iterator[Finding]:
        for warning in without_invalid_column_options(self.context.config, self.snapshot.schema, self.snapshot.partition_columns).warnings:
            message = f"{warning}; writes and purge are refused unless the call passes a valid value"
            yield Finding("bad-option", Severity.WARNING, message, command("config", self.table))

    def _gap(self) -> Iterator[Finding]:
        fix = command("repair", self.table, "NEW_LOG")
        if 0 not in self.listing.versions:
            message = "version 0 is missing: the table is read from a checkpoint, and other programs may not recognize it"
            yield Finding("missing-version-0", Severity.ERROR, f"{message}; if there is a backup, restore it", fix)
        if (gap := self.snapshot.gap_at) is not None:
            message = f"version {gap} is missing although later versions exist: they are not readable, and the table cannot be written"
            yield Finding("version-gap", Severity.ERROR, f"{message}; if there is a backup, restore it", fix)

    def _old_gaps(self) -> Iterator[Finding]:
        """Versions before the newest checkpoint that a missing file makes unreadable. Expired ones are reported as overdue.

        A gap after version 0 is what an interrupted purge leaves, which the next purge completes. In another program's table it is usual.
        """
        if self.is_foreign:
            return
        lost = [version for version in self.listing.unreachable if version not in self.expired]
        gaps = sorted({self.listing.missing_before(version) for version in lost} - {0})  # version 0 has a finding of its own
        after_purge = [gap for gap in gaps if not any(0 < version < gap for version in self.listing.versions)]
        for gap in gaps:
            behind = [version for version in lost if self.listing.missing_before(version) == gap]
            which = f"version {behind[0]}" if len(behind) == 1 else f"versions {behind[0]} to {behind[-1]}"
            message = f"version {gap} is missing, so that {which} cannot be read; newer versions can"
            if gap in after_purge:
                advice = "if a purge was interrupted, the next one deletes the rest when it has expired; else restore it from a backup"
                fix = command("purge", self.table)
            else:
                advice = "if there is a backup, restore it; else truncate-history deletes all older versions"
                fix = command("truncate-history", self.table)
            yield Finding("version-gap", Severity.WARNING, f"{message}; {advice}", fix)

    def _pointer(self) -> Iterator[Finding]:
        fix = command("checkpoint", self.table)
        newest = max(self.listing.bases, default=None)
        if not self.listing.has_pointer:
            if newest is not None:
                yield Finding("missing-pointer", Severity.INFO, f"version {newest} has a checkpoint, but {POINTER} is missing", fix)
            return
        pointer = read_pointer(self.context.store)
        if pointer is None:
            yield Finding("broken-pointer", Severity.WARNING, f"{POINTER} cannot be read", fix)
        elif pointer.version not in self.listing.bases:
            yield Finding("stale-pointer", Severity.WARNING, f"{POINTER} names version {pointer.version}, which has no checkpoint", fix)
        elif newest is not None and pointer.version < newest:
            message = f"{POINTER} names version {pointer.version}, but the newest checkpoint is of version {newest}"
            yield Finding("stale-pointer", Severity.WARNING, message, fix)

    def _checkpoints(self) -> Iterator[Finding]:
        for damage in self.damages:
            if damage.version < (self.snapshot.checkpoint or 0):
                instead = f"the checkpoint of version {self.snapshot.checkpoint} is used instead"
                message = f"{damage.message}; {instead}: no action is needed, and purge deletes this one when it has expired"
                yield Finding("broken-checkpoint", Severity.INFO, message, command("doctor", self.table))
            else:
                yield Finding("broken-checkpoint", Severity.WARNING, damage.message, command("checkpoint", self.table))

    def _late_checkpoint(self) -> Iterator[Finding]:
        interval = int(self.context.config.get("checkpoint.interval"))
        behind = self.snapshot.version - (self.snapshot.checkpoint or 0)
        if behind > LATE_INTERVALS * interval:
            message = f"{behind} versions since the last checkpoint; checkpoint.interval is {interval}"
            yield Finding("late-checkpoint", Severity.WARNING, message, command("checkpoint", self.table))

    def _skipped(self) -> Iterator[Finding]:
        """Splits in cooldown, most of them damaged. A repaired log excludes damaged splits and has no cooldown for the others."""
        for path in files_in_cooldown(self.snapshot, self.now_ms):
            skip = self.snapshot.skips[path]
            times = "once" if skip.count == 1 else f"{skip.count} times"
            message = f"split {path!r} was skipped {times}, last by {skip.operation or 'an operation'}: {skip.reason}"
            advice = "verify --deep tells whether it is damaged; if it is not, merges try it again after the cooldown"
            yield Finding("skipped-split", Severity.WARNING, f"{message}; {advice}", command("repair", self.table, "NEW_LOG"))

    def _small_splits(self) -> Iterator[Finding]:
        defaults = merge_options(MergeSplits(), self.context.config, self.snapshot)
        groups = plan_merge(self.context.load(self.snapshot), defaults, self.now_ms).groups
        sources = sum(len(group.paths) for group in groups)
        if sources >= SMALL_SPLITS:
            message = f"a merge would combine {sources} small splits into {len(groups)}"
            options = ("-o", "storage.takeOver=true") if self.is_foreign else ()
            message += "; it takes over the table, so that the program that created it can no longer read it" if self.is_foreign else ""
            yield Finding("small-splits", Severity.WARNING, message, command("merge-splits", self.table, *options))

    def _files(self) -> Iterator[Finding]:
        facts, planned = self.facts, self.due
        missing = sorted(facts.live - set(facts.folder.paths))
        repair, purge = command("repair", self.table, "NEW_LOG"), command("purge", self.table)
        yield from _finding_of("missing-split", Severity.ERROR, missing, "live split", "missing", repair)
        if self.is_foreign:
            return
        unreferenced = self._unreferenced_splits(planned)
        yield from self._young_unreferenced_splits(unreferenced)
        yield from _finding_of("orphaned-split", Severity.WARNING, unreferenced, "split", UNREFERENCED, purge)
        manifests = [d.path for d in planned if d.kind is FileKind.MANIFEST]
        yield from _finding_of("unreachable-manifest", Severity.WARNING, manifests, "manifest", "not referenced by any state", purge)
        yield from self._overdue_deletions(planned, {*unreferenced, *manifests})

    def _overdue_deletions(self, planned: Sequence[Deletion], known: set[str]) -> Iterator[Finding]:
        """Files that a purge would delete now, and versions that the cleanup after a checkpoint should have deleted."""
        damaged = {damage.version for damage in self.damages}  # reported separately
        of_purge = [d.path for d in planned if d.path not in known and d.version not in damaged and self._is_overdue(d)]
        purge = command("purge", self.table)
        yield from _finding_of("overdue-retention", Severity.WARNING, of_purge, "file", "past the retention", purge)
        checkpoint = self.snapshot.checkpoint
        expired = () if checkpoint is None else expired_files(self.context, checkpoint).deletions
        left = [d.path for d in expired if d.kind is FileKind.VERSION and d.path not in of_purge]
        cleanup = command("checkpoint", self.table, "-o", "cleanup.enabled=true")
        yield from _finding_of("overdue-retention", Severity.WARNING, left, "version", "past logRetention.duration", cleanup)

    def _is_overdue(self, deletion: Deletion) -> bool:
        """Old checkpoints and states are overdue only after a long time, since the cleanup after the next checkpoint deletes them."""
        if deletion.kind not in (FileKind.CHECKPOINT, FileKind.STATE):
            return True
        latest = self.now_ms - self.options.older_than_ms
        return all(file.modified_ms is not None and file.modified_ms <= latest for file in deletion.files)

    def _unreferenced_splits(self, planned: Sequence[Deletion]) -> list[str]:
        return [d.path for d in planned if d.kind is FileKind.SPLIT and d.path not in self.facts.removed_at]

    def _young_unreferenced_splits(self, due: Sequence[str]) -> Iterator[Finding]:
        """Unreferenced splits that purge does not delete yet: of a write in progress, or of one that failed recently.

        No action is needed yet; the fix is to run doctor again.
        """
        fix = command("doctor", self.table)
        known = set(due)
        unknown = [file for file in self.facts.unreferenced_splits() if file.path not in known]
        fresh = [file.path for file in unknown if may_be_uncommitted(file, self.now_ms)]
        what = f"{UNREFERENCED}, and may belong to a write in progress; purge does not delete such splits yet"
        yield from _finding_of("fresh-orphan", Severity.INFO, fresh, "young split", what, fix)
        if len(fresh) == len(unknown):
            return
        sooner = plan_purge(self.facts, self.minimum_age_options, self.now_ms).deletions
        waiting = [path for path in self._unreferenced_splits(sooner) if path not in known]
        what = f"{UNREFERENCED}; purge deletes such splits after {limits.OLDER_THAN} (--older-than)"
        yield from _finding_of("orphaned-split", Severity.INFO, waiting, "split", what, fix)


def examine(context: TableContext) -> tuple[list[Finding], Examination | None]:
    """The findings and the examination, which is None if the table cannot be read; the last finding then reports why.

    Reads everything from the store. Raises errors that are not damage: a missing table, an unsupported protocol, bad options and
    retryable errors.
    """
    context.log.invalidate_cache()
    uncached = context.uncached()
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


def _finding_of(code: str, severity: Severity, paths: Sequence[str], thing: str, what: str, fix: str) -> Iterator[Finding]:
    """A finding about these files; none if there are none."""
    if paths:
        yield Finding(code, severity, f"{counted(len(paths), thing, what)}: {first_of(paths, _SHOWN)}", fix)
