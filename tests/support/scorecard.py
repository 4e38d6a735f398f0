"""`make scorecard`: runs the tests of the promises R1 to R20, and prints the result for each promise.

A test names its promises at the beginning of its docstring, or else of the docstring of its module (`R8 and R9 for …`), or in parentheses
(`(R13)`). Lines that such a test prints are shown below the row if they begin with the name of the promise.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

PROMISES = {
    "R1": "one winner for each version, on every store",
    "R2": "writers killed at random: nothing lost, duplicated or torn",
    "R3": "lost answers, 409 and 412 at every put",
    "R4": "a crash before and after every storage call",
    "R5": "every fault at every request of every verb",
    "R6": "every interleaving of two verbs equals a serial order",
    "R7": "log = state + tail = model at every version",
    "R8": "a checkpoint is only a cache",
    "R9": "flipped bits and cut files give no wrong answer",
    "R10": "purge deletes what is unreferenced and old, nothing else",
    "R11": "merges keep rows and answers",
    "R12": "unusual logs: read correctly, or refused with the reason",
    "R13": "hostile paths are refused, nothing outside touched",
    "R14": "bombs: a typed error, bounded memory and work",
    "R15": "fuzzed parsers raise only our errors",
    "R16": "golden files decode and encode as before",
    "R17": "deltalake replays equivalent logs to the same files",
    "R18": "hostile params, killed jobs: refused, or done once",
    "R19": "canary secrets never show",
    "R20": "planted bugs are detected",
}
NAMES = r"R\d+(?:(?:, | and )R\d+)*"
ABOUT = re.compile(rf"^({NAMES})\b|\(({NAMES})\b")
PRINTED = re.compile(r"^(R\d+)\b.*")
PROPERTY = "promises"


def promises_of(item: pytest.Item) -> list[str]:
    """The promises of a test. Its own docstring takes precedence over that of its module."""
    module = getattr(item, "module", None)
    for owner in (getattr(item, "obj", None), module):
        found = [name for hit in ABOUT.finditer(getattr(owner, "__doc__", None) or "") for name in re.findall(r"R\d+", hit.group())]
        if found:
            return found
    return []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests of promises. Names the promises in the report, which xdist workers send to the main process."""
    kept = []
    for item in items:
        if names := promises_of(item):
            item.user_properties.append((PROPERTY, names))
            kept.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.collectonly:
        return
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    printed: dict[str, list[str]] = defaultdict(list)
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.getreports(outcome):
            for name in dict(report.user_properties).get(PROPERTY, []):
                outcomes[name][outcome] += 1
            for line in report.capstdout.splitlines():
                if hit := PRINTED.match(line):
                    printed[hit.group(1)].append(line)
    terminalreporter.section("scorecard")
    for name, promise in PROMISES.items():
        count = outcomes[name]
        verdict = "NO TEST" if not count else "FAILED" if count.total() > count["passed"] else "held"
        terminalreporter.write_line(f"{name:4} {promise:58} {verdict:8} {count['passed']:4} of {count.total()} tests")
        for line in sorted(printed[name]):
            terminalreporter.write_line(f"       {line}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fails the run if a promise has no test."""
    if not hasattr(session.config, "workerinput") and not session.config.option.collectonly and exitstatus == 0:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        tested = {name for report in reporter.getreports("passed") for name in dict(report.user_properties).get(PROPERTY, [])}
        if set(PROMISES) - tested:
            session.exitstatus = 1
