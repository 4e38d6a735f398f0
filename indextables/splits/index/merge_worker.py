"""The child process of segments.py: lets tantivy merge the index in the folder given.

A process of its own, because a damaged index can abort it, and because a merge that panics is silent: the parent looks at the result.
"""

from __future__ import annotations

import sys

import tantivy

from indextables import limits


def merge(folder: str) -> None:
    writer = tantivy.Index.open(folder).writer(heap_size=limits.INDEX_HEAP_MIN, num_threads=1)
    writer.commit()
    writer.wait_merging_threads()


if __name__ == "__main__":
    merge(sys.argv[1])
