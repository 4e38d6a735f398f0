"""Health: doctor's findings and metrics of the table, as one document for dashboards.

Existing keys do not change; keys may be added. Metrics that cannot be determined are null. Times are ISO 8601 in UTC.

- `table`, `checked_at`, `status`: `ok`, or the highest severity of the findings: `info`, `warning`, `error`
- `version`, `num_records`, `num_files`, `size_bytes`: of the newest version
- `num_small_files`, `small_file_ratio`: splits small enough to be merged, and their share of all splits
- `num_dead_files`, `dead_bytes`: splits on disk that are not live; of these a purge would delete `num_purgeable_files`, `purgeable_bytes`
- `num_skipped_files`: splits in cooldown, which merges skip
- `num_versions`: version files; `last_checkpoint`, `last_checkpoint_at`
- `versions_since_checkpoint`: versions that a reader replays on the newest valid checkpoint; without one all of them, version 0 included.
  `metrics` reads no checkpoint and counts from the newest one listed, valid or not
- `last_commit_at`, `last_operation`, `last_write_at`, `last_merge_at`: from the retained history. A purge makes no commit and does not
  appear there; see `num_purgeable_files`
- `state`: the newest checkpoint, as in DESCRIBE STATE
- `findings`: as in doctor
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from indextables.clock import iso_ms
from indextables.operations.findings import worst
from indextables.operations.inspect.doctor_checks import Examination, examine
from indextables.operations.inspect.state_summary import describe_state
from indextables.operations.merge import merge_options
from indextables.operations.report import Report, Status, reporter
from indextables.operations.verbs import WRITE_MODES, MergeSplits
from indextables.state import FileKind, base_time
from indextables.table import HistoryEntry, TableContext, files_in_cooldown, read_history

FIGURES = (
    "version", "num_records", "num_files", "size_bytes", "num_small_files", "small_file_ratio", "num_dead_files", "dead_bytes",
    "num_purgeable_files", "purgeable_bytes", "num_skipped_files", "num_versions", "last_checkpoint", "last_checkpoint_at",
    "versions_since_checkpoint", "last_commit_at", "last_operation", "last_write_at", "last_merge_at", "state",
)  # fmt: skip


def health(context: TableContext) -> dict[str, Any]:
    """The health document. Changes nothing. TableNotFound if there is no table."""
    findings, examination = examine(context)
    figures = dict.fromkeys(FIGURES)
    if examination is not None:
        figures |= _figures(examination) | _on_disk(examination)
    head = {"table": str(context.root), "checked_at": iso_ms(context.clock.now_ms()), "status": worst(findings)}
    return {**head, **figures, "findings": [finding.to_dict() for finding in findings]}


def health_report(context: TableContext) -> Report:
    """The document as a report, for jobs: its numbers become the metrics, its findings the warnings."""
    report = reporter("health", str(context.root), context.clock)
    document = health(context)
    metrics = {name: value for name, value in document.items() if isinstance(value, int)}
    warnings = [f"{finding['code']}: {finding['message']}" for finding in document["findings"]]
    return report(Status.SUCCESS, metrics, base_version=document["version"], warnings=warnings, health=document)


def _figures(examination: Examination) -> dict[str, Any]:
    snapshot, context = examination.snapshot, examination.context
    files = context.load(snapshot).files
    sizes = files.table().column("size").to_numpy()
    small = int(merge_options(MergeSplits(), context.config, snapshot).are_small(sizes).sum())
    history = read_history(context.log)
    state = describe_state(context)
    del state["table_path"]
    return {
        "version": snapshot.version,
        "num_records": files.num_records,
        "num_files": len(files),
        "size_bytes": files.size,
        "num_small_files": small,
        "small_file_ratio": round(small / len(sizes), 4) if len(sizes) else 0.0,
        "num_skipped_files": len(files_in_cooldown(snapshot, context.clock.now_ms())),
        "num_versions": len(examination.listing.versions),
        "last_checkpoint": snapshot.checkpoint,
        "versions_since_checkpoint": snapshot.version - (-1 if snapshot.checkpoint is None else snapshot.checkpoint),
        "last_commit_at": _last(history),
        "last_operation": history[-1].operation if history else None,
        "last_write_at": _last(history, WRITE_MODES),
        "last_merge_at": _last(history, ("merge_splits",)),
        "state": state,
    }


def _last(history: Sequence[HistoryEntry], operations: Collection[str] | None = None) -> str | None:
    times = [entry.timestamp_ms for entry in history if operations is None or entry.operation in operations]
    return iso_ms(times[-1]) if times else None


def _on_disk(examination: Examination) -> dict[str, Any]:
    """Metrics of the files on disk; empty if the log has a gap, because the live splits are then unknown."""
    if examination.snapshot.gap_at is not None:
        return {}
    facts = examination.facts
    dead = [file.size for file in facts.dead_splits()]
    due = [deletion for deletion in examination.due if deletion.kind is FileKind.SPLIT]
    checkpoint = examination.snapshot.checkpoint
    made = None if checkpoint is None else base_time(facts.log.inventory, checkpoint)
    return {
        "num_dead_files": len(dead),
        "dead_bytes": sum(dead),
        "num_purgeable_files": len(due),
        "purgeable_bytes": sum(deletion.size for deletion in due),
        "last_checkpoint_at": None if made is None else iso_ms(made),
    }
