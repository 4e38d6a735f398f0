"""The commit of a batch of merges: replaces the sources of each group by the merged split, if all sources are still live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from indextables.actions import Action, Add, LiveFiles, Remove
from indextables.errors import ConcurrentConflict, IndexTablesError
from indextables.log import require_live
from indextables.operations.merge.plan import MergeGroup, PlannedGroup
from indextables.operations.merge.task import Merged
from indextables.rows import describe_uncommitted
from indextables.table import Draft, Snapshot, TableContext, check_owned, is_foreign, new_skip, protocol_for_skips, taken_over


@dataclass(slots=True)
class BatchCommit:
    """Drafts the replacement of every group whose sources are all still live. Drops other groups, so no row is restored or duplicated.

    A missing source that another commit has removed in the meantime is not reported as damaged.
    """

    results: Sequence[Merged]
    context: TableContext
    broken: list[tuple[Add, str]] = field(default_factory=list)  # of the latest draft
    conflicts: list[IndexTablesError] = field(default_factory=list)  # of the latest draft

    def __call__(self, base: Snapshot) -> Draft:
        check_owned(base.protocol, take_over=bool(self.context.config.get("storage.takeOver")))
        live = self.context.load(base).files
        self.broken = [(add, why) for result in self.results for add, why in result.broken if add.path in live]
        valid, self.conflicts = self._still_live(live, base.version)
        now = self.context.clock.now_ms()
        removes = [Remove.of(add, now, data_change=False) for group, _ in valid for add in group.sources]
        adds = [add for _, add in valid]
        metrics = metrics_of([group for group, _ in valid], adds, len(self.broken))
        taken = [taken_over(base.protocol)] if adds and is_foreign(base.protocol) else []
        return Draft([*taken, *self._skips(base, now), *removes, *adds], metrics, new_paths=True)

    def _still_live(self, live: LiveFiles, version: int) -> tuple[list[tuple[MergeGroup, Add]], list[IndexTablesError]]:
        valid: list[tuple[MergeGroup, Add]] = []
        conflicts: list[IndexTablesError] = []
        for result in self.results:
            if result.add is None:
                continue
            try:
                require_live("merge_splits", result.group.paths, live, version)
                valid.append((result.group, result.add))
            except ConcurrentConflict as conflict:
                conflicts.append(ConcurrentConflict(f"{conflict}; {describe_uncommitted([result.add.path])}"))
        return valid, conflicts

    def _skips(self, base: Snapshot, now_ms: int) -> list[Action]:
        config = self.context.config
        if not self.broken or not config.get("skippedFiles.trackingEnabled"):
            return []
        hours = config.get("skippedFiles.cooldownDuration")
        skips = [new_skip(base, add, why, "merge_splits", now_ms, hours) for add, why in self.broken]
        return [*protocol_for_skips(base), *skips]


def metrics_of(groups: Sequence[MergeGroup | PlannedGroup], adds: Sequence[Add], skipped: int) -> dict[str, int]:
    return {
        "groups": len(groups),
        "files_added": len(adds),
        "files_removed": sum(len(group.paths) for group in groups),
        "bytes_added": sum(add.size for add in adds),
        "bytes_removed": sum(group.size for group in groups),
        "rows": sum(group.rows for group in groups),
        "files_skipped": skipped,
    }
