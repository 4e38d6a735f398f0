"""What the processes of a race run. It imports little: they are started for every race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from indextables.storage import StoreSpec

PROCESSES = 4
THREADS = 4
WRITERS = PROCESSES * THREADS


def race(spec: StoreSpec, keys: int, process: int) -> list[list[int]]:
    """The keys that each thread of this process won."""
    store = spec.open()

    def write(thread: int) -> list[int]:
        writer = process * THREADS + thread
        return [key for key in range(keys) if store.create(f"log/{key:06d}", f"writer {writer}".encode())]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(write, range(THREADS)))


def create_one(spec: StoreSpec) -> bool:
    return spec.open().create("one", b"1")
