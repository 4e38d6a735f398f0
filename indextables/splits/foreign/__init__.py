"""Splits written by the upstream Scala program, decoded in a child process."""

from indextables.splits.foreign.split import fingerprint, is_upstream_split, rewrite_upstream_split, verified_rows
