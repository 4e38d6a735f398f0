"""docs/architecture.md lists every package, and every definition it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def definitions() -> set[str]:
    """Names of all functions, methods, classes and constants of the package; `module.name` too."""
    found: set[str] = set()
    for path in (ROOT / "indextables").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                inner = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
                names = [node.name, *(f"{node.name}.{name}" for name in inner)]
            elif isinstance(node, ast.FunctionDef):
                names = [node.name]
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            else:
                continue
            found.update(names)
            found.update(f"{path.stem}.{name}" for name in names)
    return found


def test_the_table_lists_every_package() -> None:
    packages = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "indextables").glob("*/__init__.py")}
    named = set(re.findall(r"^\| `(indextables/\w+)` \|", PAGE, re.MULTILINE))
    assert named == packages


def test_every_name_on_the_page_is_defined() -> None:
    known = definitions()
    named = set(re.findall(r"`((?:[a-z_]+\.)?(?:[A-Z][A-Za-z]+(?:\.[a-z_]+)?|[a-z]+_[a-z_]+|[A-Z]{3,}))`", PAGE))
    assert len(named) > 30
    assert not {name for name in named if name not in known and name != "no_action"}


def test_every_file_on_the_page_exists() -> None:
    for name in re.findall(r"`((?:dags|jobs|tests|indextables)/[\w/.]+)`", PAGE):
        assert (ROOT / name).exists(), name
