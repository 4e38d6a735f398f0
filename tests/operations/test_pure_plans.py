"""Functions named `plan` or `plan_…` get values without access to a store, and run while every store refuses every call."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import tomllib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from indextables.clock import HOUR_MS, Clock
from indextables.operations.checkpoint import gather_log_facts, referenced_manifests, with_checked_bases
from indextables.operations.expire import complete_purge_facts, gather_purge_facts, purge_options
from indextables.operations.merge import merge_options
from indextables.operations.verbs import MergeSplits, Purge
from indextables.state import NotGathered, Policy
from indextables.state.checkpoints.avro import manifest_cache
from indextables.state.retention import plan
from indextables.storage import LocalStore, open_store, opening
from indextables.storage.memory import MemoryStore
from indextables.storage.remote import RemoteStore
from indextables.table import TableContext
from tests.support.tables import make, rows

ROOT = Path(__file__).parents[2]
DAY = 24 * HOUR_MS
LATER = Clock(now_ms=lambda: Clock().now_ms() + 90 * DAY)
POLICY = Policy(log=30 * DAY, keep_versions=0, checkpoints=2 * HOUR_MS, keep_states=1, states=2 * HOUR_MS, manifests=HOUR_MS)


IMPURE = {"Store", "StoreSpec", "open_store", "TableContext", "TransactionLog", "FileLoader"}  # names that give access to a store


def plans() -> list[str]:
    """All plan functions, as module:function."""
    found = []
    for path in sorted((ROOT / "indextables").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and (node.name == "plan" or node.name.startswith("plan_")):
                found.append(f"{module}:{node.name}")
    return sorted(found)


def function(name: str) -> Callable[..., Any]:
    module, _, plan = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), plan)
    return found


def of_checkpoint(context: TableContext) -> Sequence[Any]:
    snapshot = context.snapshot()
    return snapshot, context.totals(snapshot), context.clock.now_ms(), DAY


def of_merge(context: TableContext) -> Sequence[Any]:
    snapshot = context.snapshot()
    options = merge_options(MergeSplits(where="date > '2024-01-01'"), context.config, snapshot)
    return context.load(snapshot, options.where), options, context.clock.now_ms()


def of_purge(context: TableContext) -> Sequence[Any]:
    options, now_ms = purge_options(Purge("7d", "30d"), context.config), context.clock.now_ms()
    return complete_purge_facts(context, gather_purge_facts(context), options, now_ms), options, now_ms


def of_retention(context: TableContext) -> Sequence[Any]:
    now_ms = context.clock.now_ms()
    facts, _ = gather_log_facts(context.log, context.snapshot().checkpoint or 0)
    return with_checked_bases(facts, POLICY, now_ms, lambda version: True), POLICY, now_ms


def of_truncation(context: TableContext) -> Sequence[Any]:
    facts, policy, now_ms = of_retention(context)
    named, unreadable = referenced_manifests(context.log, facts.inventory)
    return dataclasses.replace(facts, references=named, unreadable=unreadable), policy, now_ms


# The arguments for each plan. A new plan needs a line here.
ARGUMENTS: Mapping[str, Callable[[TableContext], Sequence[Any]]] = {
    "indextables.operations.checkpoint.plan:plan_checkpoint": of_checkpoint,
    "indextables.operations.expire.purge_plan:plan_purge": of_purge,
    "indextables.operations.expire.truncate_plan:plan_truncation": of_truncation,
    "indextables.operations.merge.plan:plan_merge": of_merge,
    "indextables.state.retention:plan": of_retention,
}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableContext:
    """A table three months after it was written, with states, tombstones, dead splits and an uncommitted split."""
    monkeypatch.setenv("INDEXTABLES_CACHE_DIR", str(tmp_path / "cache"))
    table = make(tmp_path / "t", appends=8, **{"checkpoint.interval": "3", "checkpoint.enabled": "true"})
    table.merge_splits(target_size="10M")
    for number in range(3):
        table.append(rows(1000 + 10 * number, 10))
    table.checkpoint()
    table.log.commit([{"remove": {"path": table.files().column("path")[0].as_py(), "dataChange": True}}])
    (tmp_path / "t" / "splits").mkdir(exist_ok=True)
    (tmp_path / "t" / "splits" / "split-00000000-0000-4000-8000-000000000000.split").write_bytes(b"x")
    opened = TableContext.at(tmp_path / "t", clock=LATER)
    return opened.for_table(opened.snapshot())


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after whose call every use of a store or of the cache of manifests fails."""

    def refused(*given: Any, **more: Any) -> Any:
        raise AssertionError("a store was called")

    def start() -> None:
        for kind in (LocalStore, MemoryStore, RemoteStore):
            for name, member in vars(kind).items():
                if inspect.isfunction(member) and not name.startswith("_"):
                    monkeypatch.setattr(kind, name, refused)
        monkeypatch.setattr(opening, "open_stores", types.SimpleNamespace(get_or_make=refused))
        for name in ("get", "put", "possible_paths", "put_paths"):
            monkeypatch.setattr(manifest_cache, name, refused)

    return start


def test_every_plan_is_tested_here_and_covered_by_the_import_contract() -> None:
    assert plans() == sorted(ARGUMENTS)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (bound,) = [contract["source_modules"] for contract in contracts if contract["id"] == "plans"]
    assert bound == sorted({name.partition(":")[0] for name in ARGUMENTS})


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_the_module_of_a_plan_uses_no_name_that_gives_access_to_a_store(name: str) -> None:
    tree = ast.parse(inspect.getsource(importlib.import_module(name.partition(":")[0])))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import) for alias in node.names}
    assert not imported & IMPURE


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_a_plan_runs_while_every_store_refuses(name: str, context: TableContext, refuse: Callable[[], None]) -> None:
    planned, given = function(name), ARGUMENTS[name](context)
    expected = planned(*given)
    refuse()
    found = planned(*given)
    assert isinstance(found, type(expected))
    for part in ("deletions", "groups", "num_files"):
        assert getattr(found, part, None) == getattr(expected, part, None)
        assert getattr(found, part, True), f"{name} found no {part}, so most of it did not run"


def test_an_impure_function_is_refused(context: TableContext, refuse: Callable[[], None]) -> None:
    snapshot = context.snapshot()
    refuse()
    for impure in (
        context.snapshot,
        lambda: context.load(snapshot),
        lambda: context.store.read("a"),
        lambda: open_store(context.store.spec),
    ):
        with pytest.raises(AssertionError, match="a store was called"):
            impure()


def kinds_in(annotation: Any, seen: set[Any]) -> Iterator[Any]:
    """All types contained in this type, through generics and the fields of dataclasses."""
    if annotation in seen:
        return
    seen.add(annotation)
    yield get_origin(annotation) or annotation
    for inner in get_args(annotation):
        if not isinstance(inner, list | types.EllipsisType):
            yield from kinds_in(inner, seen)
    if dataclasses.is_dataclass(annotation):
        for hint in get_type_hints(annotation, localns={"array": list}).values():  # array[int] exists only for type checkers
            yield from kinds_in(hint, seen)


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_a_plan_gets_values_without_access_to_a_store(name: str) -> None:
    hints = get_type_hints(function(name))
    kinds = set(kinds_in(tuple[tuple(hints.values())], set()))  # type: ignore[misc]
    assert Callable not in kinds  # type: ignore[comparison-overlap]
    homes = {kind.__module__ for kind in kinds if hasattr(kind, "__module__")}
    assert not {home for home in homes if home.startswith("indextables.storage")}
    assert homes.isdisjoint({"indextables.log.log", "indextables.table.context", "indextables.state.checkpoints.avro.file_loader"})


def test_a_missing_fact_is_an_error(context: TableContext) -> None:
    """It is never replaced by an assumption that deletes more."""
    facts, _ = gather_log_facts(context.log, context.snapshot().checkpoint or 0)
    with pytest.raises(NotGathered, match="was not gathered"):
        plan(facts, POLICY, context.clock.now_ms())
