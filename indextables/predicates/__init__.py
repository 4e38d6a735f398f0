"""`where` predicates: parsed, bound to a schema, and evaluated over Arrow batches, single rows and ranges."""

from __future__ import annotations

from indextables.predicates.predicate import Predicate, parse_predicate

__all__ = ["Predicate", "parse_predicate"]
