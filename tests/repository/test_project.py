"""Pinned requirements, licence, extras, and the sizes of modules and functions."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scorecard import ABOUT, PROMISES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8")
STANZAS = [stanza for stanza in re.split(r"^(?=[^\s#])", CONSTRAINTS, flags=re.MULTILINE) if stanza.strip()]
SOURCES = sorted(path for folder in ("indextables", "jobs", "dags") for path in (ROOT / folder).rglob("*.py"))
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required() -> set[str]:
    """Names of all requirements in pyproject.toml, including the build back end."""
    project = PROJECT["project"]
    lists = [project["dependencies"], PROJECT["build-system"]["requires"], *project["optional-dependencies"].values()]
    return {normal(re.split(r"[^A-Za-z0-9_.-]", entry, maxsplit=1)[0]) for entries in lists for entry in entries}


@pytest.mark.parametrize("stanza", STANZAS, ids=lambda stanza: stanza.split()[0])
def test_every_pin_is_exact_and_hashed(stanza: str) -> None:
    assert re.match(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[^\s*]+( ; .+)? \\\n", stanza), stanza.splitlines()[0]
    assert re.search(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$", stanza, re.MULTILINE)


def test_every_requirement_is_pinned() -> None:
    pinned = {normal(re.split(r"[=\[]", stanza, maxsplit=1)[0]) for stanza in STANZAS}
    assert len(pinned) > 150
    assert required() <= pinned


def test_the_pins_name_no_index_and_no_local_path() -> None:
    assert not re.search(r"https?://|file:|--(extra-)?index-url|--find-links|--trusted-host|(^|\s)/\w", CONSTRAINTS)


def test_pyspark_and_its_client_are_the_same_version() -> None:
    versions = set(re.findall(r"^pyspark(?:-client)?==(\S+)", CONSTRAINTS, re.MULTILINE))
    assert len(versions) == 1


def test_extras_and_licence() -> None:
    project = PROJECT["project"]
    assert {"spark", "airflow", "java", "dev"} <= set(project["optional-dependencies"])
    assert project["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 500
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {node.name: lines for node in functions if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > 70}
    assert not long


def test_dockerignore_sends_exactly_what_the_image_copies() -> None:
    copied = set()
    for line in (ROOT / "docker" / "Dockerfile").read_text("utf-8").splitlines():
        if line.startswith("COPY "):
            copied |= {word.rstrip("/") for word in line.split()[1:-1] if not word.startswith("--")}
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_msgspec_decoders_are_created_at_import() -> None:
    """If two threads make msgspec analyse a type at the same time, the process crashes. `convert` analyses types as decoders do."""
    for file in SOURCES:
        assert list(late_types(file.read_text("utf-8"))) == [], file


def late_types(source: str) -> Iterator[str]:
    """Uses of msgspec that analyse a type after the import: all but decoders of the module, and `convert` to the type of such a decoder."""
    tree = ast.parse(source)
    inside = {id(node) for function in ast.walk(tree) if isinstance(function, _FUNCTIONS) for node in ast.walk(function)}
    decoders = {
        f"{target.id}.type"
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("msgspec.json.Decoder(")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "msgspec":
            yield from (alias.name for alias in node.names if alias.name in ("convert", "json", "msgpack"))
        elif isinstance(node, ast.Call):
            name, kinds = ast.unparse(node.func), [keyword for keyword in node.keywords if keyword.arg == "type"]
            given = [ast.unparse(argument) for argument in (*node.args[1:2], *(kind.value for kind in kinds))]
            is_late = {
                "msgspec.json.decode": bool(kinds),
                "msgspec.json.Decoder": id(node) in inside,
                "msgspec.convert": not decoders.issuperset(given),
            }
            if is_late.get(name, name.startswith("msgspec.msgpack.")):
                yield ast.unparse(node)


def test_late_types_are_found() -> None:
    late = ["msgspec.json.decode(b'', type=A)", "msgspec.convert(x, A)", "msgspec.convert(x, type=A)"]
    assert [list(late_types(code)) for code in late] == [[code] for code in late]
    assert list(late_types("def f():\n    return msgspec.json.Decoder(A)")) == ["msgspec.json.Decoder(A)"]
    assert list(late_types("from msgspec import convert, structs")) == ["convert"]
    assert list(late_types("_A = msgspec.json.Decoder(A)\nmsgspec.convert(x, _A.type)\nmsgspec.json.decode(b'')")) == []


def test_every_promise_of_the_scorecard_has_a_test() -> None:
    """`make scorecard` finds the tests by their docstrings."""
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        for node in (tree, *(node for node in tree.body if isinstance(node, ast.FunctionDef))):
            found |= {name for hit in ABOUT.finditer(ast.get_docstring(node) or "") for name in re.findall(r"R\d+", hit.group())}
    assert found >= set(PROMISES)
    assert list(PROMISES) == [f"R{number}" for number in range(1, 21)]
