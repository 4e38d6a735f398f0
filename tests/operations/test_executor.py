"""The executors of this process."""

from __future__ import annotations

from indextables.operations import ProgressThreads, Threads


def test_progress_is_counted_over_all_calls() -> None:
    progress: list[tuple[int, int]] = []
    executor = ProgressThreads(Threads(1), lambda done, total: progress.append((done, total)))
    assert executor(str, [1, 2]) == ["1", "2"]
    assert executor(str, [3]) == ["3"]
    assert progress == [(0, 2), (1, 2), (2, 2), (2, 3), (3, 3)]
    assert (executor.workers, executor.runs_locally) == (1, True)
