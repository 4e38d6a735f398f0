"""Files that appear complete or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from indextables.atomic_file import replacing


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "new"}


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(target) as temporary, temporary.open("w", encoding="ascii") as out:
        out.write("hälf")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_the_error_of_a_path_through_a_file_is_that_of_the_write(tmp_path: Path) -> None:
    """Deleting the temporary file fails as well, and must not hide why."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError) as caught, replacing(tmp_path / "file" / "a") as temporary:
        temporary.open("x")
    assert caught.value.__context__ is None
