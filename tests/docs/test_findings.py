"""docs/operations.md explains every finding of doctor and verify, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from indextables.errors import IndexTablesError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
MAKERS = {"Finding", "finding", "_finding", "_finding_of"}


def codes_in(tree: ast.Module) -> Iterator[str]:
    """The code of every finding: the first argument of the call that makes it, as a literal or a constant of the module."""
    texts = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _name(node.func) in MAKERS:
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else texts.get(first.id) if isinstance(first, ast.Name) else None
            if isinstance(text, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text):
                yield text


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def test_every_finding_is_explained() -> None:
    sources = (ROOT / "indextables").rglob("*.py")
    made = {code for path in sources for code in codes_in(ast.parse(path.read_text("utf-8")))}
    assert len(made) >= 20
    section = PAGE[PAGE.index("## Findings") : PAGE.index("## Repair")]
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)) == made


def test_every_exit_code_is_explained() -> None:
    section = PAGE[PAGE.index("Exit codes of") : PAGE.index("## Sizing")]
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    errors = [IndexTablesError]
    for error in errors:
        errors += error.__subclasses__()
    assert explained == {0, 130} | {error.exit_code for error in errors}
