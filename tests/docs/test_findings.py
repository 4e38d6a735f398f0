"""docs/operations.md explains every finding of doctor and verify, and no other."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from indextables.errors import IndexTablesError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
MAKERS = {"Finding", "finding", "_finding", "_finding_of"}


def findings_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Code and severity of every finding. The code is the first argument of the call, a literal or a constant of the module."""
    texts = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    fixed = _fixed_severities(tree)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call.args and (maker := _name(call.func)) in MAKERS:
            first = call.args[0]
            text = first.value if isinstance(first, ast.Constant) else texts.get(first.id) if isinstance(first, ast.Name) else None
            if isinstance(text, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text):
                yield text, fixed.get(maker) or _name(call.args[1]).lower()


def _fixed_severities(tree: ast.Module) -> dict[str, str]:
    """The severity that a function such as `_finding` gives to all findings that it makes."""
    return {
        function.name: _name(call.args[1]).lower()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name in MAKERS
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and _name(call.func) == "Finding" and isinstance(call.args[1], ast.Attribute)
    }


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def test_every_finding_is_explained_with_its_severities() -> None:
    made = defaultdict(set)
    for path in (ROOT / "indextables").rglob("*.py"):
        for code, severity in findings_in(ast.parse(path.read_text("utf-8"))):
            made[code].add(severity)
    assert len(made) >= 20
    section = PAGE[PAGE.index("## Findings") : PAGE.index("## Repair")]
    explained = defaultdict(set)
    for code, severities in re.findall(r"^\| `([a-z0-9-]+)` \| ([a-z, ]+) \|", section, re.MULTILINE):
        explained[code] |= set(severities.split(", "))
    assert explained == made


def test_every_exit_code_is_explained() -> None:
    section = PAGE[PAGE.index("Exit codes of") : PAGE.index("## Sizing")]
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    errors = [IndexTablesError]
    for error in errors:
        errors += error.__subclasses__()
    assert explained == {0, 130} | {error.exit_code for error in errors}
