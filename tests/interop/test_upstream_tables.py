"""Tables written by upstream, if these are available next to the repository, and one that the tests build in the same format."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import indextables as it
from indextables.cli.main import main
from tests.support.loading import loaded
from tests.support.logs import log_folder, metadata, protocol
from tests.support.states import write_table_state
from tests.support.tables import tree, write_version

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors"


@dataclass(frozen=True)
class Expected:
    path: Path | None  # None: built by the test
    version: int
    files: int
    rows: int


OURS = Expected(None, 3, 3, 6)


def _expected() -> dict[str, Expected]:
    found: dict[str, Expected] = {"ours": OURS}
    versions_053 = {"t10_types": (1, 1), "t11_nullpart": (1, 4), "t12_json_state": (12, 12)}
    for folder in ("upstream_tables", "upstream_tables_053"):
        file = VECTORS / folder / "expected.json"
        for name, facts in json.loads(file.read_text()).items() if file.is_file() else ():
            version, files = versions_053.get(name) or (facts["version"], facts["live_files"])
            found[name] = Expected(VECTORS / folder / name, version, files, facts.get("docs", facts.get("rows")))
    return found


EXPECTED = _expected()


@pytest.fixture(params=EXPECTED)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Expected]:
    expected = EXPECTED[request.param]
    if expected.path is not None:
        return expected.path, expected
    write_version(tmp_path, 0, protocol(4, 4), metadata())
    for version in (1, 2, 3):
        write_table_state(log_folder(tmp_path), version, [f"part-{n}.split" for n in range(version)])
    return tmp_path, expected


def test_version_files_and_rows(table: tuple[Path, Expected]) -> None:
    path, expected = table
    opened = it.open(path)
    described = opened.describe()
    assert (opened.version, described["num_files"], described["num_records"]) == (expected.version, expected.files, expected.rows)
    assert opened.files().num_rows == expected.files
    assert opened.count() == expected.rows
    assert opened.warnings == []
    assert (opened.protocol.min_reader_version, opened.protocol.min_writer_version) == (4, 4)


def test_history_has_every_version(table: tuple[Path, Expected]) -> None:
    path, expected = table
    history = it.open(path).history()
    versions = history.column("version").to_pylist()
    assert versions == list(range(expected.version, -1, -1))
    assert it.open(path, timestamp=history.column("timestamp").to_pylist()[0]).version == expected.version


def test_changes_need_version_files(table: tuple[Path, Expected]) -> None:
    """Model B commits states without version files, and their changes are not guessed."""
    path, expected = table
    opened = it.open(path)
    if (path / "_transaction_log" / f"{1:020d}.json").exists():
        assert set(opened.changes(0).column("version").to_pylist()) == set(range(1, expected.version + 1))
    else:
        with pytest.raises(it.VersionNotFound, match=r"version 1 of .* was committed as a state without a version file"):
            opened.changes(0)


def test_every_version_opens_and_version_0_is_empty(table: tuple[Path, Expected]) -> None:
    path, expected = table
    sizes = [it.open(path, version).files().num_rows for version in range(expected.version + 1)]
    assert (sizes[0], sizes[-1]) == (0, expected.files)


def test_every_doc_mapping_reference_is_registered(table: tuple[Path, Expected]) -> None:
    path, _ = table
    opened = it.open(path)
    registry = {key for key in opened.metadata.configuration if key.startswith("docMappingSchema.")}
    for add in loaded(opened).adds():
        assert add.doc_mapping_ref is None or add.doc_mapping_json or f"docMappingSchema.{add.doc_mapping_ref}" in registry


def test_doctor_and_health_report_fixes_that_work(table: tuple[Path, Expected], tmp_path: Path) -> None:
    """Nothing that purge would do is reported, because purge refuses another program's table."""
    path, expected = table
    before = tree(path)
    found = it.open(path).doctor()
    codes = {finding.code for finding in found}
    assert (
        codes <= {"small-splits"} if expected.path else codes == {"missing-pointer", "missing-split"}
    )  # the test table has no split files
    health = it.open(path).health()
    assert (health["version"], health["num_files"], health["num_records"]) == (expected.version, expected.files, expected.rows)
    assert health["status"] == ("error" if not expected.path else "warning" if found else "ok")
    assert tree(path) == before
    if "small-splits" in codes:
        copy = shutil.copytree(path, tmp_path / "copy", copy_function=shutil.copyfile)
        (finding,) = it.open(copy).doctor()
        assert main(shlex.split(finding.fix)[1:]) == 0
        assert it.open(copy).doctor() == []
        assert it.open(copy).count() == expected.rows


def test_writing_needs_a_take_over(table: tuple[Path, Expected]) -> None:
    path, _ = table
    opened = it.open(path)
    before = tree(path / "_transaction_log")
    verbs = (opened.merge_splits, opened.purge, opened.truncate_history)
    dry_runs = [partial(verb, dry_run=True) for verb in verbs]
    for verb in (lambda: opened.append([]), lambda: opened.overwrite([]), *verbs, *dry_runs):
        with pytest.raises(it.ProtocolUnsupported, match=r"protocol 4/4 without the feature arrowRowStore.*storage\.takeOver=true"):
            verb()
    assert tree(path / "_transaction_log") == before


def test_a_checkpoint_stays_readable_for_upstream(table: tuple[Path, Expected], tmp_path: Path) -> None:
    """A-06 requires take-over for our splits only: a checkpoint does not convert the table, and writes the state in both forms."""
    path, expected = table
    copy = tmp_path / "copy"
    shutil.copytree(path / "_transaction_log", copy / "_transaction_log", copy_function=shutil.copyfile)
    before = it.open(copy)
    before.log.commit([{"add": {"path": "more.split", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}])
    files = {file.relative_to(copy) for file in copy.rglob("*.*")}
    names = sorted(before.refresh().files().column("path").to_pylist())
    report = it.open(copy, options={"checkpoint.retention": "0", "logRetention.duration": "0"}).checkpoint()
    after = it.open(copy)
    state = copy / "_transaction_log" / f"state-v{after.version:020d}"
    assert (report.status, sorted(file.name for file in state.iterdir())) == ("success", ["_manifest.avro", "_manifest.json"])
    assert (sorted(after.files().column("path").to_pylist()), len(names)) == (names, expected.files + 1)
    assert "arrowRowStore" not in (after.protocol.reader_features or ())
    assert files <= {file.relative_to(copy) for file in copy.rglob("*.*")}, "nothing of another program's is deleted"
    assert after.checkpoint().status == "no_action"


def test_all_available_vectors_are_used() -> None:
    assert len(EXPECTED) == (13 if VECTORS.is_dir() else 1)
