"""R1: sixteen processes, each with its own store, compete to create one key after another, starting each attempt together.

Processes are forked from a server that has already imported this module, so sixteen of them start within a second.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkServerContext
from typing import Any, Protocol

from indextables.storage import Store, StoreSpec, open_store

WRITERS = 16
TIMEOUT = 120  # seconds until the slowest process must be ready
PRELOADED = ["tests.support.killed_writers", "indextables.storage.remote", "indextables.storage.s3", "s3fs", "gcsfs.core"]
SPREAD = 0.002  # maximum random delay in seconds after the common start, so that requests arrive in varying order


class Start(Protocol):
    """A barrier of threads or of processes."""

    def wait(self, timeout: float) -> int: ...

    def abort(self) -> None: ...


def light_processes() -> ForkServerContext:
    """Processes that start by a fork with the store libraries already imported. All inherit the environment of the first start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def key_path(key: int) -> str:
    return f"log/{key:06d}"


def content(writer: int, key: int) -> bytes:
    return f"writer {writer} for {key}".encode()


def race(store: Store, keys: range, writer: int, seed: int, start: Start) -> list[int]:
    """The keys that this writer created. A failure aborts the barrier, so that the others do not wait."""
    chance = random.Random(f"{seed} {writer} {keys}")
    won = []
    try:
        for key in keys:
            start.wait(TIMEOUT)
            time.sleep(chance.uniform(0, SPREAD))
            if store.create(key_path(key), content(writer, key)):
                won.append(key)
    except BaseException:
        start.abort()
        raise
    return won


def _process(spec: StoreSpec, lanes: list[tuple[range, Any]], writer: int, seed: int, tell: Any, environment: dict[str, str]) -> None:
    """Runs each lane in a thread. Sends the created keys, or the traceback of a failure."""
    try:
        os.environ.update(environment)
        store = open_store(spec)
        with ThreadPoolExecutor(len(lanes)) as pool:
            parts = list(pool.map(lambda lane: race(store, lane[0], writer, seed, lane[1]), lanes))
        tell.send(([key for part in parts for key in part], None))
    except BaseException:
        tell.send(([], traceback.format_exc()))


def race_of_processes(spec: StoreSpec, keys: int, seed: int, lanes: int = 1) -> list[list[int]]:
    """The keys that each process created. With `lanes`, that many keys are contested at a time, for servers that make losers wait."""
    context = light_processes()
    shares = [(range(lane, keys, lanes), context.Barrier(WRITERS)) for lane in range(lanes)]
    pipes = [context.Pipe(duplex=False) for _ in range(WRITERS)]
    arguments = [(spec, shares, writer, seed, tell, dict(os.environ)) for writer, (_, tell) in enumerate(pipes)]
    processes = [context.Process(target=_process, args=given, daemon=True) for given in arguments]
    for process in processes:
        process.start()
    answers = [hear.recv() for hear, _ in pipes]
    for process in processes:
        process.join()
    failures = [trace for _, trace in answers if trace is not None]
    assert not failures, "\n".join(failures)
    return [won for won, _ in answers]


def race_of_threads(open_store: Callable[[], Store], keys: int, seed: int) -> list[list[int]]:
    """The same with threads in one process, for in-memory stores. Threads are switched as often as possible."""
    start = threading.Barrier(WRITERS)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            return list(pool.map(lambda writer: race(open_store(), range(keys), writer, seed, start), range(WRITERS)))
    finally:
        sys.setswitchinterval(interval)


def create_one(spec: StoreSpec) -> bool:
    return open_store(spec).create("one", b"1")
