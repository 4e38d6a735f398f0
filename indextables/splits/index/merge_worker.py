"""The child process of segments.py: has tantivy merge the index in a given folder.

It is a separate process because a damaged index can abort it. A merge that panics reports no error: the parent checks the result.
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
