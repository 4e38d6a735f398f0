"""Tables as people see them: readable in a narrow window, and values cannot control the terminal."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from indextables.cli import display as terminal
from tests.support.tables import make


class Window(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(rows: list[dict[str, object]], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    out = Window()
    terminal.print_rows(list(rows[0]), rows, out)
    return re.sub(r"\x1b\[\d*m", "", out.getvalue())  # without the bold type of the headers


ROW: dict[str, object] = {f"column_{n}": f"value number {n}" for n in range(8)}


def test_a_narrow_window_shows_one_value_per_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown([ROW, ROW], 80, monkeypatch).splitlines()
    assert [line.split(maxsplit=1) for line in lines[:8]] == [[name, value] for name, value in ROW.items()]
    assert len(lines) == 18
    wide = shown([ROW, ROW], 200, monkeypatch)
    (line,) = {line for line in wide.splitlines() if "number" in line}
    assert all(str(value) in line for value in ROW.values())


def test_control_characters_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown([{"a\x1b[2J": "\x00nul \x1b[31;1mred \u202ebidi ä ☃"}], 120, monkeypatch)
    assert not set(text) & {"\x1b", "\x00", "\u202e"}
    assert r"\x00nul \x1b[31;1mred \u202ebidi ä ☃" in text
    assert r"a\x1b[2J" in text


def test_numbers_keep_their_significant_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {-0.00001: "-1e-05", 2182.69: "2182.69", 5.0512345: "5.05123", 3.0: "3", 1e300: "1e+300", 123456789.0: "123456789"}
    numbers |= {1234567.5: "1234567.5", -123456.78: "-123456.78"}
    for number, text in numbers.items():
        assert text in shown([{"n": number}], 80, monkeypatch).split()


@pytest.mark.parametrize("form", ["table", "csv", "jsonl", "json"])
def test_a_reader_that_stops_early_is_not_an_error(tmp_path: Path, form: str) -> None:
    table = make(tmp_path / "t", 1, each=20_000)
    child = subprocess.Popen(
        [sys.executable, "-m", "indextables", "scan", table.path, "--format", form], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline()
    child.stdout.close()
    assert child.stderr is not None
    assert (child.wait(), child.stderr.read()) == (0, b"")
    child.stderr.close()
