"""`where` predicates: parsed, bound to a schema, and evaluated on Arrow batches, single rows and ranges of column statistics.

Start with `parse_predicate`, which returns a `Predicate`. `outcomes` evaluates it on many files at once, for pruning.
"""

from __future__ import annotations

from indextables.predicates.expressions import order_key
from indextables.predicates.keys import NAN, Keys, Mask, TextKeys, compared, mask_of, typed_array, typed_scalar
from indextables.predicates.log_strings import has_keys, keys_of
from indextables.predicates.possible_outcomes import FALSE, NO, NULL, TRUE, Ranges, outcomes
from indextables.predicates.predicate import Predicate, parse_predicate
