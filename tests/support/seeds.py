"""The seed of a random test: given in INDEXTABLES_TEST_SEED, or chosen here, and always printed, so that pytest shows it on a failure."""

from __future__ import annotations

import os
import random

VARIABLE = "INDEXTABLES_TEST_SEED"


def given_seed() -> int | None:
    """The seed that the user passes in. An empty variable counts as unset."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if text else None


def random_seed(default: int | None = None) -> int:
    """The given seed, else `default`, else a new one. Without a default, every run tries something new."""
    given = given_seed()
    fallback = random.randrange(2**32) if default is None else default
    seed = fallback if given is None else given
    print(f"seed {seed}, to repeat: {VARIABLE}={seed}")
    return seed
