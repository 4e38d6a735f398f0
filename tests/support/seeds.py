"""Seeds of random tests. `INDEXTABLES_TEST_SEED=7 pytest …` passes one in, to plain random tests and to Hypothesis alike.

Each random test prints the seed that it uses; pytest shows what a test printed when it fails. tests/conftest.py registers the hook.
"""

from __future__ import annotations

import os
import random

import hypothesis
import pytest

VARIABLE = "INDEXTABLES_TEST_SEED"


def passed_seed() -> int | None:
    """The seed in the environment. An empty variable counts as unset."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if text else None


def random_seed(default: int | None = None) -> int:
    """The seed passed in, else `default`, else a new one for every call."""
    seed = passed_seed()
    if seed is None:
        seed = random.randrange(2**32) if default is None else default
    print(f"seed {seed}; repeat with {VARIABLE}={seed}")
    return seed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the seed to every Hypothesis test. Without one, Hypothesis prints how to repeat a failure itself."""
    seed = passed_seed()
    if seed is None:
        return
    for item in items:
        if isinstance(item, pytest.Function) and hypothesis.is_hypothesis_test(item.function):
            hypothesis.seed(seed)(item.function)
