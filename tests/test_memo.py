"""Memo: results that are kept as long as the value they were computed from."""

from __future__ import annotations

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from indextables.memo import Memo


class Key:
    pass


def test_a_result_is_computed_once_and_dropped_with_its_key() -> None:
    memo: Memo[Key, list[int]] = Memo()
    key, made = Key(), list[int]()

    def make(_: Key) -> list[int]:
        made.append(1)
        return [len(made)]

    assert memo.peek(key) is None
    assert memo.get(key, make) is memo.get(key, make) is memo.peek(key)
    assert memo.get(Key(), make) == [2]
    del key
    gc.collect()
    assert len(memo._slots) == 0


def test_a_failed_computation_is_not_kept() -> None:
    memo: Memo[Key, int] = Memo()
    key = Key()
    with pytest.raises(ZeroDivisionError):
        memo.get(key, lambda _: 1 // 0)
    assert memo.get(key, lambda _: 7) == 7


def test_threads_wait_for_the_one_that_computes_the_result() -> None:
    memo: Memo[Key, object] = Memo()
    key, made = Key(), list[int]()

    def make(_: Key) -> object:
        made.append(threading.get_ident())
        time.sleep(0.05)
        return object()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: memo.get(key, make), range(8)))
    assert (len(made), len(found)) == (1, 1)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_locks_of_its_parents_threads() -> None:
    memo: Memo[Key, int] = Memo()
    key, started, finish = Key(), threading.Event(), threading.Event()

    def slow(_: Key) -> int:
        started.set()
        finish.wait(60)
        return 1

    thread = threading.Thread(target=memo.get, args=(key, slow))
    thread.start()
    started.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(memo.get(key, lambda _: 2))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    finish.set()
    thread.join()
    assert memo.peek(key) == 1
