"""R15 for the terminal: any arguments end with a documented exit code and one line with the reason."""

from __future__ import annotations

import contextlib
import io
import random
import re
from pathlib import Path

import pytest

from indextables.cli.main import main
from indextables.cli.verbs import VERBS as TERMINAL_VERBS
from tests.support.seeds import random_seed
from tests.support.tables import make, rows

EXAMPLES = 2000
CODES = {0, 1, 2, 75, 78}
VERBS = [verb.name for verb in TERMINAL_VERBS]
VALUES = (
    *("", " ", "-", "--", "0", "-1", "1", "999999999999999999999", "1e9", "nan", "7d", "1x", "100M", "9e99G", "true", "id", "text"),
    *("id = 1", "id = ", "id = 1 OR", "nope = 1", "date = '2026-01-05'", "((((", "')--", "a AND b", "a AND", "text:(", "*", "id:[1 TO 2]"),
    *("n=count:*", "n=max:id", "n=", "count", "id=histogram:id:0", "checkpoint.interval=0", "no.such.key=1", "=", "s3.endpoint=x", "a=b=c"),
    *("2026-01-01", "2026-13-45", "DESCRIBE INDEXTABLES STATE 't'", "MERGE SPLITS", "\x00", "\udcff", "ä☃", "../..", "t", "gone", "t/../t"),
    *("x.parquet", "no-such-file.csv", "csv", "arrow", "asc", "id desc", "date,id"),
)


def random_arguments(draw: random.Random, flags: dict[str, list[str]]) -> list[str]:
    """Usually a verb, a path and options of this verb with values, sometimes anything else."""
    verb = draw.choice(VERBS)
    argv = [verb, "t"] if draw.random() < 0.9 else [draw.choice([verb, *VALUES]), draw.choice(VALUES)]
    for _ in range(draw.randrange(4)):
        if draw.random() < 0.85:
            argv.append(draw.choice(flags[verb]))
        if draw.random() < 0.6:
            argv.append(draw.choice(VALUES))
    return argv


def run(argv: list[str]) -> tuple[int, str, str]:
    """Runs with the streams of a real process: stdout raises for characters that cannot be encoded, stderr escapes them."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
    for stream in (out, err):
        stream.seek(0)
    return code, out.read(), err.read()


def test_any_arguments_end_with_a_documented_code_and_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seed = random_seed()
    draw = random.Random(seed)
    flags = {verb: sorted(set(re.findall(r"(?<!\S)-(?:-[a-z-]+|o)\b", run([verb, "--help"])[1]))) for verb in VERBS}
    ended = dict.fromkeys(CODES, 0)
    for number in range(EXAMPLES):
        if not Path("t", "_transaction_log").exists():
            make(tmp_path / "t").append(rows(0, 4))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        argv = random_arguments(draw, flags)
        case = f"seed {seed}, example {number}: {argv}"
        try:
            code, out, err = run(argv)
        except Exception as error:
            raise AssertionError(case) from error
        assert code in CODES, f"{case}: {code}"
        if code and not {"--debug", "doctor", "verify"} & set(argv):
            assert [line.startswith("error: ") for line in err.splitlines()].count(True) == 1, f"{case}: {err}"
            assert "Traceback" not in err, f"{case}: {err}"
            assert not out, f"{case}: {out}"
        ended[code] += 1
    print(f"R15: {EXAMPLES} command lines, ended with {ended}, seed {seed}")
    assert min(ended[code] for code in (0, 1, 2, 78)) > 0
