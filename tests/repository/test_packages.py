"""Other packages import only what the `__init__.py` of a package exports, or the modules listed here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A program that purges does not load the search: each family of verbs is a package of its own, entered through what it exports.
FAMILIES = "indextables.operations"
# The interfaces are entered module by module, so that pyspark and Airflow load only when used. Only these may be imported.
ENTRY_MODULES = {
    "indextables.airflow": {"factory"},
    "indextables.cli": {"display", "main"},
    "indextables.operations": {"repair", "request", "verbs"},
    "indextables.spark": {"jobs"},
}


def modules() -> dict[str, Path]:
    """Dotted name and file of every shipped module."""
    found = {}
    for file in [*(ROOT / "indextables").rglob("*.py"), *(ROOT / "jobs").glob("*.py"), *(ROOT / "dags").glob("*.py")]:
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


MODULES = modules()
PACKAGES = {name for name, file in MODULES.items() if file.name == "__init__.py"}


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Line and module of every import, including lazy and type-only imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield node.lineno, node.module if node.module in PACKAGES and alias.name in exports(node.module) else whole


@cache
def exports(package: str) -> frozenset[str]:
    """The names in `__all__` of a package; without `__all__`, the names that its `__init__.py` imports."""
    imported: set[str] = set()
    for node in ast.parse(MODULES[package].read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return frozenset(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{package}."):
            imported |= {alias.asname or alias.name for alias in node.names}
    return frozenset(imported)


def is_entry(package: str, child: str) -> bool:
    """Whether everyone may import this child of the package, instead of a name that the package exports."""
    if package == "indextables" or child in ENTRY_MODULES.get(package, ()):
        return True
    return package == FAMILIES and f"{package}.{child}" in PACKAGES


def internal_import(importer: str, target: str) -> str | None:
    """The package whose internals `importer` uses by importing `target`, or None.

    The `__init__.py` of a package exports names of its inner packages directly, so that each name is listed once.
    """
    parts = target.split(".")
    for length in range(1, len(parts)):
        package = ".".join(parts[:length])
        inside = f"{importer}.".startswith(f"{package}.") or (importer != "indextables" and package.startswith(f"{importer}."))
        if package in PACKAGES and not inside and not is_entry(package, parts[length]):
            return package
    return None


@pytest.mark.parametrize("name", sorted(MODULES))
def test_other_packages_are_imported_through_what_they_export(name: str) -> None:
    ours = [(line, target) for line, target in imports(MODULES[name].read_text()) if target.startswith("indextables.")]
    assert not [(line, target) for line, target in ours if internal_import(name, target)]


def test_an_internal_import_is_found() -> None:
    assert internal_import("indextables.api", "indextables.operations.merge.plan.plan_merge") == "indextables.operations.merge"
    assert internal_import("indextables.operations.merge.run", "indextables.operations.merge.plan.plan_merge") is None
    assert internal_import("indextables.api", "indextables.operations.merge") is None
    assert internal_import("indextables.api", "indextables.operations.deletion.delete") == "indextables.operations"
    assert internal_import("indextables.state", "indextables.state.checkpoints.avro.read") is None
    assert internal_import("indextables.table.base", "indextables.state.checkpoints.avro.read") == "indextables.state"
    assert internal_import("jobs.write", "indextables.spark.scan.read") == "indextables.spark"
    assert internal_import("jobs.write", "indextables.spark.jobs.main") is None
    assert [target for _, target in imports("from indextables.storage import local")] == ["indextables.storage.local"]


def own_exports(importer: str, source: str) -> list[tuple[int, str]]:
    """Imports of names from a package that the importing module is part of, except of the package's modules.

    Such an import goes through the `__init__.py` to a sibling, and so hides from the contract on cycles which one that is.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in PACKAGES and f"{importer}.".startswith(f"{node.module}."):
            found += [(node.lineno, alias.name) for alias in node.names if f"{node.module}.{alias.name}" not in MODULES]
    return found


@pytest.mark.parametrize("name", sorted(MODULES))
def test_siblings_import_each_other_by_module(name: str) -> None:
    assert not own_exports(name, MODULES[name].read_text())


def test_an_import_of_the_own_package_is_found() -> None:
    assert own_exports("indextables.storage.probe", "from indextables.storage import Store, local") == [(1, "Store")]
    assert own_exports("indextables.storage.probe", "def f():\n    from indextables import Table") == [(2, "Table")]
    assert own_exports("indextables.table.context", "from indextables.storage import Store") == []


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_no_export_has_the_name_of_a_module_of_the_package(name: str) -> None:
    """`package.module` always is the module."""
    folder = MODULES[name].parent
    for node in ast.parse(MODULES[name].read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module != name:
            assert not [alias.name for alias in node.names if (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()]


def named_in(text: str) -> set[str]:
    """The identifiers in backticks."""
    return set(re.findall(r"`([A-Za-z_]\w*)`", text))


def inside(package: str) -> set[str]:
    """The modules of a package, and the names that it exports."""
    return {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == package} | exports(package)


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_every_package_says_what_it_is_for_and_where_to_enter(name: str) -> None:
    """In at least two sentences. Names in backticks exist: the entry here, others anywhere in the package."""
    text = ast.get_docstring(ast.parse(MODULES[name].read_text())) or ""
    assert len(re.findall(r"[.](?=\s|$)", text)) >= 2
    assert named_in(text) & inside(name)
    sources = [path.read_text() for module, path in MODULES.items() if module == name or module.startswith(f"{name}.")]
    defined = {found for source in sources for found in re.findall(r"^ *(?:class|def) (\w+)", source, re.MULTILINE)}
    compound = {found for found in named_in(text) if "_" in found or found != found.lower()}
    assert compound <= defined | inside(name)


def test_a_docstring_without_an_entry_is_found() -> None:
    assert named_in("`where` uses `Store`, `a b` and `make demo`.") == {"where", "Store"}
    assert "open_store" in inside("indextables.storage")
    assert "where" not in inside("indextables.predicates")


@pytest.mark.parametrize(("package", "entries"), ENTRY_MODULES.items())
def test_every_listed_module_is_imported_from_outside(package: str, entries: set[str]) -> None:
    """A module that is no longer imported from outside must be removed from the list."""
    outside = [path for name, path in MODULES.items() if not f"{name}.".startswith(f"{package}.")]
    imported = {target for path in outside for _, target in imports(path.read_text())}
    assert {entry for entry in entries if any(f"{target}.".startswith(f"{package}.{entry}.") for target in imported)} == entries
