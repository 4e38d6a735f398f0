"""INDEXTABLES_TEST_SEED sets the seed of every random test, and a failing test shows its seed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.seeds import VARIABLE, random_seed

ROOT = Path(__file__).parents[2]
RANDOM_TESTS = """
import random
from hypothesis import Phase, given, settings, strategies as st
from tests.support.seeds import random_seed

def test_plain():
    raise AssertionError(f"drew {random.Random(random_seed()).random()}")

@settings(derandomize=True, max_examples=5, database=None, phases=[Phase.generate])
@given(st.integers(0, 10**18))
def test_hypothesis(number):
    with open("drawn", "a") as file:
        print(number, file=file)
"""
UNSEEDED = re.compile(r"(?<![\w.])(random\.(randrange|randint|random|choices?|sample|shuffle|uniform|randbytes|getrandbits)|os\.urandom)\(")


def run_random_tests(folder: Path, seed: str) -> tuple[str, str]:
    """The output of pytest, and the numbers that the Hypothesis test drew."""
    folder.mkdir()
    (folder / "test_random.py").write_text(RANDOM_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.support.seeds", "test_random.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: seed}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout, (folder / "drawn").read_text()


def test_a_seed_in_the_environment_repeats_plain_and_hypothesis_tests(tmp_path: Path) -> None:
    first, again, other = (run_random_tests(tmp_path / name, seed) for name, seed in (("a", "7"), ("b", "7"), ("c", "8")))
    drawn = [re.findall(r"drew ([0-9.]+)", output)[0] for output, _ in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert first[1] == again[1] != other[1]


def test_a_failing_test_shows_its_seed(tmp_path: Path) -> None:
    output, _ = run_random_tests(tmp_path / "t", "")
    (seed,) = re.findall(rf"^seed ([0-9]+); repeat with {VARIABLE}=\1$", output, re.MULTILINE)
    repeated, _ = run_random_tests(tmp_path / "again", seed)
    assert re.findall(r"drew ([0-9.]+)", repeated)[0] == re.findall(r"drew ([0-9.]+)", output)[0]


def test_the_environment_comes_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert random_seed(3) == 3
    assert random_seed() != random_seed()
    monkeypatch.setenv(VARIABLE, "12")
    assert random_seed(3) == random_seed() == 12


def test_no_test_draws_from_a_generator_that_takes_no_seed() -> None:
    """The functions of the module `random` share a generator that nobody seeds; `random.Random(random_seed())` is seeded."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.name not in ("seeds.py", "test_seeds.py")]
    lines = [f"{path}: {line.strip()}" for path in files for line in path.read_text("utf-8").splitlines() if UNSEEDED.search(line)]
    assert lines == []
