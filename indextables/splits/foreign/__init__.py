"""Splits written by the Scala and native programs (upstream), read as untrusted input.

Start with `is_upstream_split` and `translate`, which rewrites such a split as one of ours; a child process decodes its documents
(`worker`).
"""

from indextables.splits.foreign.split import fingerprint, is_upstream_split, rewrite_upstream_split, verified_rows
