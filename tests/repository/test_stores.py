"""Outside of `indextables/storage` code uses the interface and the declared capabilities of a store, never its class."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / "indextables" / "storage"
OUTSIDE = sorted(
    path for folder in ("indextables", "jobs", "dags") for path in (ROOT / folder).rglob("*.py") if STORAGE not in path.parents
)


@cache
def classes_of_stores() -> set[str]:
    """The classes in `storage/` that implement the store interface."""
    found = set()
    for path in STORAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and {"create", "list", "delete"} <= {
                part.name for part in node.body if isinstance(part, ast.FunctionDef)
            }:
                found.add(node.name)
    return found - {"Store"}


def named(tree: ast.AST) -> set[str]:
    """Names, attributes and imported names in the code."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name.rpartition(".")[2])
    return found


def asked_types(tree: ast.AST) -> set[str]:
    """The types in calls of `isinstance` and `issubclass`."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return {name for call in calls if call.func.id in ("isinstance", "issubclass") for kind in call.args[1:] for name in named(kind)}  # type: ignore[attr-defined]


def test_the_classes_of_stores_are_found() -> None:
    assert classes_of_stores() == {"LocalStore", "MemoryStore", "RemoteStore"}
    assert asked_types(ast.parse("isinstance(log.store, LocalStore | storage.Store)")) == {"LocalStore", "storage", "Store"}


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_outside_storage_uses_the_class_of_a_store(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert not named(tree) & classes_of_stores()
    assert "Store" not in asked_types(tree)
