"""A project for DAG tests: the real DAG files, empty jobs, a tables file, and a stub of spark-submit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2]
STUB_PATH = SOURCE / "tests" / "support" / "bin"


def make_project(root: Path, tables: str) -> Path:
    """Makes a project with the DAG files, empty jobs and this tables file. Returns its `dags` folder."""
    shutil.copytree(SOURCE / "dags", root / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "dags" / "tables.yaml").write_text(tables)
    (root / "jobs").mkdir()
    for job in ("write", "merge_splits", "checkpoint", "purge"):
        (root / "jobs" / f"{job}.py").touch()
    return root / "dags"


class StubSpark:
    """Sets what the stub of spark-submit answers, and reads how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def answer(self, job: str, *answers: dict[str, Any]) -> None:
        file = self.folder / "answers.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(known | {job: list(answers)}))

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def jobs(self) -> list[str]:
        return [call["job"] for call in self.calls]

    def arguments(self, job: str, call: int = -1) -> dict[str, str]:
        """Names and values of the arguments of one call of a job. A flag has the value ""."""
        words = [one["arguments"] for one in self.calls if one["job"] == job][call]
        return dict(word.removeprefix("--").partition("=")[::2] for word in words)
