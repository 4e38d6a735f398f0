"""Verify tells damage from a store that does not answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import indextables as it
from indextables.cli.main import main
from indextables.errors import StorageRefused
from tests.support.intercepted_store import Call, Perform, intercepting
from tests.support.tables import make, version_file


def splits_fail(call: Call, perform: Perform) -> Any:
    if call.path.endswith(".split"):
        raise it.StorageError(f"the store did not answer for {call.path}")
    return perform()


def test_a_store_that_does_not_answer_is_no_damage(tmp_path: Path) -> None:
    make(tmp_path / "t", appends=2)
    with intercepting(tmp_path / "t", splits_fail):
        table = it.open(tmp_path / "t")
        for deep in (False, True):
            with pytest.raises(it.StorageError, match="did not answer"):
                table.verify(deep=deep)
        with pytest.raises(it.StorageError, match="did not answer"):
            it.repair(tmp_path / "t", tmp_path / "new_log")
        assert main(["verify", str(tmp_path / "t")]) == 75
    assert not (tmp_path / "new_log").exists()
    assert it.open(tmp_path / "t").verify(deep=True) == []


def test_a_split_that_the_store_refuses_is_a_finding(tmp_path: Path) -> None:
    """A retry does not help, and the other splits are still verified."""
    table = make(tmp_path / "t", appends=2)
    first = table.files().column("path")[0].as_py()

    def refused(call: Call, perform: Perform) -> Any:
        if call.path == first:
            raise StorageRefused(f"access to {call.path} is denied")
        return perform()

    with intercepting(tmp_path / "t", refused):
        (finding,) = it.open(tmp_path / "t").verify()
    assert finding.code == "unreadable-split"
    assert first in finding.message


def test_verify_prints_a_finding_for_a_log_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "t", appends=2)
    version_file(tmp_path / "t", 1).write_text("damaged")
    assert main(["verify", str(tmp_path / "t"), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert main(["doctor", str(tmp_path / "t"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"findings": [finding]}
    assert main(["verify", str(tmp_path / "t")]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "error unreadable: version 1, line 1 is not an action" in printed
    assert "fix: indextables repair" in printed
    assert main(["verify", str(tmp_path / "none"), "--json"]) == 78
    assert capsys.readouterr().out == ""
