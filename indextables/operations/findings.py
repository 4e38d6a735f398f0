"""Findings of doctor and verify: each has a code, a severity, a message and a suggested fix."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from enum import StrEnum


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    severity: Severity
    message: str
    fix: str  # a command, or other advice

    def __getitem__(self, name: str) -> str:
        """A value of `to_dict`, which `--json` prints."""
        return self.to_dict()[name]

    def to_dict(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def command(verb: str, table: str, *arguments: str) -> str:
    """The command as the shell takes it. `NEW_LOG` stands for an empty folder that the user names."""
    return shlex.join(["indextables", verb, table, *arguments])


def unreadable(table: str, error: Exception) -> Finding:
    return Finding("unreadable", Severity.ERROR, str(error), command("repair", table, "NEW_LOG"))


def counted(number: int, thing: str, what: str) -> str:
    """`1 split is missing`, `2 splits are missing`."""
    return f"{number} {thing} is {what}" if number == 1 else f"{number} {thing}s are {what}"


def worst(findings: list[Finding]) -> str:
    """`ok`, or the highest severity among them."""
    order = list(Severity)
    return str(max((finding.severity for finding in findings), key=order.index, default="ok"))
