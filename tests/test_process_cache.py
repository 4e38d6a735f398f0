"""ProcessCache, which the threads of a process share."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from indextables.process_cache import ProcessCache


def test_the_least_recently_used_value_is_evicted_first() -> None:
    cache: ProcessCache[str, int] = ProcessCache(lambda: (3,))
    for number, key in enumerate("abc"):
        assert cache.put(key, number) == number
    assert cache.get("a") == 0
    cache.put("d", 3)
    assert cache.items() == [("c", 2), ("a", 0), ("d", 3)]
    assert (cache.get("b"), len(cache)) == (None, 3)


def test_the_first_value_of_a_key_is_kept() -> None:
    cache: ProcessCache[str, list[int]] = ProcessCache(lambda: (5,), lambda value: (len(value),))
    first = cache.put("a", [1, 2, 3])
    assert cache.put("a", [4, 5]) is first
    cache.put("b", [6, 7])
    assert cache.values() == [[1, 2, 3], [6, 7]]


def test_every_bound_holds_and_the_newest_value_is_kept() -> None:
    bounds = [3, 10]
    cache: ProcessCache[str, int] = ProcessCache(lambda: tuple(bounds), lambda value: (1, value))
    for key, value in [("a", 4), ("b", 4), ("c", 4)]:
        cache.put(key, value)
    assert cache.values() == [4, 4]  # the second bound
    cache.put("d", 99)
    assert cache.values() == [99]
    for key in "efg":
        cache.put(key, 0)
    assert cache.values() == [0, 0, 0]  # the first bound, and 99 no longer counts
    bounds[0] = 1
    cache.put("h", 1)
    assert cache.items() == [("h", 1)]


def test_removed_values_do_not_count() -> None:
    cache: ProcessCache[str, int] = ProcessCache(lambda: (10,), lambda value: (value,))
    cache.put("a", 9)
    assert (cache.pop("a"), cache.pop("a")) == (9, None)
    cache.put("b", 9)
    cache.clear()
    cache.put("c", 5)
    cache.put("d", 5)
    assert cache.values() == [5, 5]


def test_a_value_is_made_once_and_a_failure_is_not_kept() -> None:
    cache: ProcessCache[str, object] = ProcessCache()

    def fails() -> object:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        cache.get_or_make("a", fails)
    made = []

    def make() -> object:
        time.sleep(0.01)
        made.append(object())
        return made[-1]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cache.get_or_make("a", make), range(8)))
    assert len(made) == 1
    assert set(found) == set(made)


def test_a_cached_value_does_not_wait_for_one_that_is_being_made() -> None:
    cache: ProcessCache[str, int] = ProcessCache()
    cache.put("known", 1)
    found = []

    def make() -> int:
        reader = threading.Thread(target=lambda: found.append(cache.get_or_make("known", lambda: 2)))
        reader.start()
        reader.join(10)
        return 3

    assert (cache.get_or_make("new", make), found) == (3, [1])


def in_a_child(work: Callable[[], None]) -> None:
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(20)
    stuck = child.is_alive()
    child.kill()
    assert (stuck, child.exitcode) == (False, 0)


class Resource:
    """Counts how many instances were freed."""

    freed = 0

    def __del__(self) -> None:
        Resource.freed += 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_of_a_fork_starts_empty_and_frees_nothing() -> None:
    """Even if another thread holds the locks or is making a value."""
    cache: ProcessCache[str, Resource] = ProcessCache(lambda: (1,))
    kept = cache.put("a", Resource())
    before = Resource.freed
    del kept

    def work() -> None:
        assert len(cache) == 0
        own = cache.get_or_make("a", Resource)
        assert cache.get("a") is own
        assert Resource.freed == before

    with cache._lock, cache._making:
        in_a_child(work)
    assert len(cache) == 1
