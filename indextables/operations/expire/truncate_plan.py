"""The plan of truncate_history: which log files to delete, decided purely from facts of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indextables.state import Deletion, FileKind, LogFacts, Plan, Policy, retention

_LATEST = 2**63  # ms; time of a version that is not written yet


def plan_truncation(facts: LogFacts, policy: Policy, now_ms: int) -> Plan:
    """Pure. Deletes versions, checkpoints and states before `facts.newest_checkpoint`, whatever their age, and the manifests of these.

    A manifest that no state references may belong to a state that is being written; it is deleted at the same age as by purge.
    """
    found = retention.plan(facts, policy, now_ms)
    out_of_order = _out_of_order_versions(facts, now_ms - policy.manifests)
    reason = f"older than version {facts.newest_version}, which is kept"
    log = [
        replace(deletion, reason=reason) if deletion.kind is FileKind.VERSION else deletion
        for deletion in found.deletions
        if deletion.kind is not FileKind.MANIFEST and deletion.version not in out_of_order
    ]
    unreferenced = [deletion for deletion in found.deletions if deletion.kind is FileKind.MANIFEST]
    manifests = {deletion.path: deletion for deletion in [*unreferenced, *_unreferenced_manifests(facts, log)]}
    kept_reasons = list(found.kept_reasons)
    if out_of_order:
        kept_reasons.append(f"{len(out_of_order)} versions with out-of-order times are kept: a writer may be rolling them back")
    return Plan([*log, *(manifests[path] for path in sorted(manifests))], kept_reasons)


def _out_of_order_versions(facts: LogFacts, since_ms: int) -> set[int]:
    """Young versions that are not contiguous with the checkpoint or are newer than their successors.

    A writer may have committed to the number of a version that was just deleted and is about to roll back. If its version were deleted,
    the writer could not determine the outcome of its commit.
    """
    versions, times, first = facts.inventory.versions, facts.times, facts.newest_version
    while first - 1 in versions and times.get(first - 1, 0) <= times.get(first, _LATEST):
        first -= 1
    return {version for version in versions if 0 < version < first and times.get(version, since_ms + 1) > since_ms}


def _unreferenced_manifests(facts: LogFacts, log: Sequence[Deletion]) -> list[Deletion]:
    """Manifests of deleted states that no retained state references; none if a retained state cannot be read."""
    references = facts.references or {}
    deleted = {deletion.version for deletion in log if deletion.kind is FileKind.STATE and deletion.version is not None}
    kept = set(facts.inventory.states) - deleted
    if not kept <= set(references):
        return []
    in_use = {path for state in kept for path in references[state]}
    paths = {path for state in deleted & set(references) for path in references[state]} - in_use
    files = facts.inventory
    found = [files.manifests[path] for path in paths if path in files.manifests]
    return [Deletion(FileKind.MANIFEST, files.with_checksum_files([file]), "only deleted states reference it") for file in found]
