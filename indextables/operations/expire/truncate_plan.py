"""What truncating the history deletes, decided from values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from indextables.state import Deletion, FileKind, LogFacts, Plan, Policy
from indextables.state import plan as plan_retention

_LATEST = 2**63  # ms: of a version that is yet to be written


def plan_truncation(facts: LogFacts, policy: Policy, now_ms: int) -> Plan:
    """Pure. Versions, checkpoints and states before `facts.latest`, whatever their age, and the manifests that only those states name.

    A manifest that no state names may belong to one that is being written: it goes when it is old enough for purge, too.
    """
    found = plan_retention(facts, policy, now_ms)
    strays = _out_of_order_versions(facts, now_ms - policy.manifests)
    log = [
        _with_reason(deletion, facts)
        for deletion in found.deletions
        if deletion.kind is not FileKind.MANIFEST and deletion.version not in strays
    ]
    unnamed = [deletion for deletion in found.deletions if deletion.kind is FileKind.MANIFEST]
    manifests = {deletion.path: deletion for deletion in [*unnamed, *_unreferenced_manifests(facts, log)]}
    kept = [f"{len(strays)} versions out of their order are kept for now: a writer may be about to take them back"] if strays else []
    return Plan([*log, *(manifests[path] for path in sorted(manifests))], [*found.kept_reasons, *kept])


def _out_of_order_versions(facts: LogFacts, since_ms: int) -> set[int]:
    """Young versions that do not follow on to the checkpoint, or came after those that follow them: a writer took the number of one that
    had just gone, and is about to see that and take its own back. Were it deleted, the writer could not tell what became of its commit.
    """
    versions, times, first = facts.inventory.versions, facts.times, facts.current
    while first - 1 in versions and times.get(first - 1, 0) <= times.get(first, _LATEST):
        first -= 1
    return {version for version in versions if 0 < version < first and times.get(version, since_ms + 1) > since_ms}


def _with_reason(deletion: Deletion, facts: LogFacts) -> Deletion:
    return replace(deletion, reason=f"older than version {facts.current}, which stays") if deletion.kind is FileKind.VERSION else deletion


def _unreferenced_manifests(facts: LogFacts, log: Sequence[Deletion]) -> list[Deletion]:
    """Manifests of the states that go, unless one that stays names them, or might."""
    references = facts.references or {}
    gone = {deletion.version for deletion in log if deletion.kind is FileKind.STATE and deletion.version is not None}
    stay = set(facts.inventory.states) - gone
    if not stay <= set(references):
        return []
    named = {path for state in stay for path in references[state]}
    paths = {path for state in gone & set(references) for path in references[state]} - named
    files = facts.inventory
    found = [files.manifests[path] for path in paths if path in files.manifests]
    return [Deletion(FileKind.MANIFEST, files.with_checksum_files([file]), "only states that go name it") for file in found]
