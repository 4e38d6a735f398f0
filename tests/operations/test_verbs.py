"""A verb is defined once: every interface offers exactly the options of its request, with the same names, defaults and checks."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import indextables as it
import indextables.spark
from indextables.airflow.factory import build
from indextables.airflow.tables import load, maintain_options
from indextables.cli.arguments import parse
from indextables.cli.verbs import VERBS
from indextables.command_line import add_arguments, request_of
from indextables.commands import is_command
from indextables.commands.parse import parse_command
from indextables.config import KEYS
from indextables.errors import InvalidArgument
from indextables.operations import verbs
from indextables.operations.request import FLAG, Interface, Request, option
from indextables.spark.jobs import JOBS
from indextables.spark.options import READING, WRITING

REQUESTS = [found for found in vars(verbs).values() if isinstance(found, type) and issubclass(found, Request) and found is not Request]

# Python names what it calls; arguments that are no options: the rows, how a table is opened, and who does the work.
METHODS: dict[type[Request], list[Any]] = {verbs.Write: [it.Table.append, it.Table.overwrite], verbs.Create: [it.create]}
METHODS |= {verbs.Drop: [it.drop], verbs.Repair: [it.repair]}
NOT_OPTIONS = {"self", "data", "path", "schema", "options", "clock", "source", "executor"}

# A command for each verb that SQL offers, with every clause.
COMMANDS = {
    verbs.MergeSplits: "MERGE SPLITS t TARGET SIZE 2M WHERE a = 1 MAX DEST SPLITS 3 MAX SOURCE SPLITS PER MERGE 4",
    verbs.Checkpoint: "COMPACT INDEXTABLES t",
    verbs.Purge: "PURGE INDEXTABLES t OLDER THAN 2 DAYS TRANSACTION LOG RETENTION 3 HOURS DRY RUN",
    verbs.DropPartitions: "DROP INDEXTABLES PARTITIONS FROM t WHERE a = 1",
    verbs.TruncateHistory: "TRUNCATE INDEXTABLES TIME TRAVEL t DRY RUN",
    verbs.Repair: "REPAIR INDEXFILES TRANSACTION LOG t AT LOCATION u",
    verbs.DescribeState: "DESCRIBE INDEXTABLES STATE t",
    verbs.DescribeLog: "DESCRIBE INDEXTABLES TRANSACTION LOG t INCLUDE ALL",
    verbs.InvalidateCache: "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE",
}


def methods(request: type[Request]) -> list[Any]:
    return METHODS.get(request) or [getattr(it.Table, request.verb_name())]


@pytest.mark.parametrize("request_type", [one for one in REQUESTS if Interface.PYTHON in one.interfaces], ids=lambda one: one.__name__)
def test_python_methods_have_the_options_and_defaults(request_type: type[Request]) -> None:
    offered = {one.name: one.default for one in request_type.options(Interface.PYTHON)}
    if request_type is verbs.Write:  # Python gives name and number together
        assert {offered.pop("txn_app"), offered.pop("txn_version")} == {None}
        offered["txn"] = None
    found: dict[str, Any] = {}
    for method in methods(request_type):
        arguments = inspect.signature(method).parameters.values()
        found |= {one.name: one.default for one in arguments if one.name not in NOT_OPTIONS}
    empty = {name: None if default in (inspect.Parameter.empty, ()) else default for name, default in found.items()}
    if request_type is verbs.Changes:
        empty["start"] = -1  # a required argument of the method
    assert empty == offered


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.request], ids=lambda verb: verb.name)
def test_the_terminal_offers_the_options(verb: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([verb.name, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for one in verb.request.options(Interface.TERMINAL):
        name = one.type.metavar if one.is_positional else one.flag(Interface.TERMINAL)
        assert (name in text.split() or f"[{name}" in text) == (one.name not in verb.without), one.name


def test_every_request_of_the_terminal_has_a_verb() -> None:
    assert {verb.request for verb in VERBS if verb.request} == {one for one in REQUESTS if Interface.TERMINAL in one.interfaces}


def test_every_request_of_a_job_has_one() -> None:
    assert {script.stem for script in (Path(__file__).parents[2] / "jobs").glob("[a-z]*.py")} == set(JOBS)
    assert {job.verb for job in JOBS.values()} == {one for one in REQUESTS if Interface.JOB in one.interfaces}


@pytest.mark.parametrize("interface", [Interface.TERMINAL, Interface.JOB])
@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda one: one.__name__)
def test_a_command_line_without_options_is_the_request_with_its_defaults(request_type: type[Request], interface: Interface) -> None:
    if interface not in request_type.interfaces or request_type is verbs.Aggregate:  # its texts are parsed by the terminal
        return
    parser = argparse.ArgumentParser()
    add_arguments(parser, request_type, interface)
    needed = [one for one in request_type.options(interface) if one.required]
    flags = [word for one in needed if not (one.is_positional and interface is Interface.TERMINAL) for word in (one.flag(interface), "x")]
    positional = ["x" for one in needed if one.is_positional and interface is Interface.TERMINAL]
    request = request_of(request_type, parser.parse_args([*flags, *positional]), interface)
    assert request == request_type(**{one.name: "x" for one in needed})


@pytest.mark.parametrize("request_type", [one for one in REQUESTS if Interface.SQL in one.interfaces], ids=lambda one: one.__name__)
def test_sql_has_a_clause_for_each_option(request_type: type[Request]) -> None:
    assert is_command(COMMANDS[request_type]), "Spark passes a text that is no command of ours to its own SQL"
    request = parse_command(COMMANDS[request_type]).request
    assert isinstance(request, request_type)
    set_by_clauses = {one.name for one in request_type.all_options() if getattr(request, one.name) != one.default}
    assert set_by_clauses == {one.name for one in request_type.options(Interface.SQL)}


def test_the_tables_file_and_the_dag_form_have_the_options_of_the_maintenance(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "tables.yaml").write_text("tables: [{name: t, path: t, write: {source: s}}]")
    writing, maintaining = build(load(tmp_path / "dags", {}).tables[0])
    names = [one.name for one in maintain_options()]
    assert set(names) == {one.name for verb in verbs.MAINTENANCE for one in verb.options(Interface.AIRFLOW)} - {"dry_run"}
    assert list(maintaining.params) == [*names, "dry_run"]
    assert {task.task_id for task in maintaining.tasks} == {verb.verb_name() for verb in verbs.MAINTENANCE}
    for task in (*maintaining.tasks, *writing.tasks):
        verb = JOBS[task.job].verb
        flags = {one.flag(Interface.JOB).removeprefix("--") for one in verb.options(Interface.JOB)}
        assert set(task.arguments) <= flags
        if verb in verbs.MAINTENANCE:
            assert set(task.arguments) == flags, "every option of a step can be given to a run"


def test_the_tables_file_and_the_write_dag_have_the_options_of_a_write(tmp_path: Path) -> None:
    """Its number comes from the run; what tables.yaml says reaches the job."""
    section = {"source": "s", "format": "csv", "mode": "overwrite", "partition_by": ["day"]}
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "tables.yaml").write_text(json.dumps({"tables": [{"name": "t", "path": "t", "write": section}]}))
    (table,) = load(tmp_path / "dags", {}).tables
    assert table.write is not None
    (task,) = build(table)[0].tasks
    options = verbs.Write.options(Interface.AIRFLOW)
    assert set(task.arguments) == {one.flag(Interface.JOB).removeprefix("--") for one in options}
    assert {one.name for one in options} - {"txn_app", "txn_version"} == set(section)
    assert {field.name for field in dataclasses.fields(table.write)} == {*section, "schedule"}
    params = {name: build(table)[0].params[name] for name in ("source", "mode")}
    assert {**params, "format": task.arguments["format"], "partition_by": task.arguments["partition-by"]} == section


def test_spark_functions_have_the_options_of_the_verbs_and_their_defaults() -> None:
    def given(function: Any) -> dict[str, Any]:
        return {one.name: None if one.default is one.empty else one.default for one in inspect.signature(function).parameters.values()}

    def offered(request_type: type[Request], interface: Interface) -> dict[str, Any]:
        return {one.name_in(interface): one.default for one in request_type.options(interface)}

    reading = offered(verbs.Scan, Interface.PYTHON) | offered(verbs.Search, Interface.PYTHON)
    ranked = {"limit", "order_by", "offset", "snippets"}  # a frame has all matching rows
    assert ranked < set(reading)
    found = given(indextables.spark.read)
    assert {found.pop(name) for name in ("spark", "path", "version", "options")} == {None}
    assert found == {name: default for name, default in reading.items() if name not in ranked}
    assert {*found, "version"} == set(READING)

    writing = offered(verbs.Write, Interface.JOB)
    assert {writing.pop(name) for name in ("source", "format", "txn_app", "txn_version")} == {None}  # the rows are a frame
    found = given(indextables.spark.write)
    assert {found.pop(name) for name in ("df", "path", "txn", "target_split_size", "options")} == {None}
    assert found == writing


def test_the_data_source_has_the_options_of_a_write() -> None:
    job = {one.name_in(Interface.JOB) for one in verbs.Write.options(Interface.JOB)}
    only_in_spark = {"target_split_size", "partition_overwrite_mode"}
    assert set(WRITING) - only_in_spark == job - {"source", "format", "mode"}


def test_defaults_that_a_table_can_set_name_a_key() -> None:
    keys = {key.name: key for key in KEYS}
    named = [one for request in REQUESTS for one in request.all_options() if "Default: " in one.help and one.default is None]
    assert {one.name for one in named} == {"target_size", "max_source_splits", "log_retention"}
    for one in named:
        key = one.help.rsplit("Default: ", 1)[1].split(" ", 1)[0]
        assert f"({keys[key].default})" in one.help


@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda one: one.__name__)
def test_help_texts_are_sentences(request_type: type[Request]) -> None:
    assert (request_type.__doc__ or "").splitlines()[0].endswith(".")
    for one in request_type.all_options():
        assert one.help[0].isupper(), one.name
        assert one.help.endswith("."), one.name


@pytest.mark.parametrize(
    ("request_type", "given"),
    [
        (verbs.MergeSplits, {"target_size": "1K"}),
        (verbs.MergeSplits, {"target_size": "big"}),
        (verbs.MergeSplits, {"max_dest_splits": 0}),
        (verbs.MergeSplits, {"max_source_splits": True}),
        (verbs.MergeSplits, {"dry_run": "yes"}),
        (verbs.Purge, {"older_than": "7 days"}),
        (verbs.Search, {"query": "x", "limit": 0}),
        (verbs.Write, {"mode": "replace"}),
        (verbs.Write, {"where": "a = 1"}),
        (verbs.Write, {"txn_app": "a"}),
        (verbs.Write, {"txn_version": 1, "txn_app": ""}),
        (verbs.Write, {"source": ""}),
        (verbs.Create, {"like": ""}),
        (verbs.Write, {"partition_by": "day"}),
    ],
)
def test_a_request_that_is_not_well_formed_is_refused(request_type: type[Request], given: dict[str, Any]) -> None:
    name = next(reversed(given))
    value = given[name]
    with pytest.raises(InvalidArgument, match=f"{name}|{value!r}"):
        request_type(**given)


def test_an_unknown_default_is_refused() -> None:
    with pytest.raises(KeyError):
        option(FLAG, "Text.", default_from="merge.noSuchKey")
