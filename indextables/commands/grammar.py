"""The syntax of the commands, for lark. Keywords are case-insensitive whole words; INDEXTABLES and TANTIVY4SPARK are synonyms.

The rule of a command has the name of its verb, and the rule of a clause that of its option: `parse` makes the request from these names.
A predicate is any sequence of tokens up to the next clause; the predicate parser interprets it. Clauses that may follow a predicate are
single terminals of several words, so that a column may be named `target` or `max`.
"""

from __future__ import annotations

import re

PHRASES = ("TARGET SIZE", "MAX DEST SPLITS", "MAX SOURCE SPLITS PER MERGE")  # such terminals, named with underscores
_KEYWORDS = (
    "MERGE SPLITS PURGE DROP PARTITIONS FROM CHECKPOINT COMPACT TRUNCATE TIME TRAVEL REPAIR INDEXFILES TRANSACTION LOG AT "
    "LOCATION DESCRIBE STATE INCLUDE ALL INVALIDATE CACHE FOR INDEXTABLE OLDER THAN RETENTION DRY RUN"
)
GRAMMAR = (
    "\n".join(rf"{word}: /{word}\b/i" for word in _KEYWORDS.split())
    + "\n"
    + "\n".join("_".join(words) + ".2: /" + r"\s+".join(words) + r"\b/i" for words in map(str.split, PHRASES))
    + r"""
start: command _SEMICOLON?

?command: merge_splits | purge | drop_partitions | checkpoint | truncate_history | repair
    | describe_state | describe_log | invalidate_cache

merge_splits: MERGE SPLITS _target _merge_clause*
_merge_clause: where | target_size | max_dest_splits | max_source_splits | precommit
where: WHERE predicate
target_size: TARGET_SIZE BYTES
max_dest_splits: MAX_DEST_SPLITS NUMBER
max_source_splits: MAX_SOURCE_SPLITS_PER_MERGE NUMBER
precommit: PRECOMMIT
predicate: _predicate_token+
_predicate_token: P_QUOTED | P_WORD | P_SYMBOL

purge: PURGE (INDEXTABLE | INDEXTABLES) _target _purge_clause*
_purge_clause: older_than | log_retention | dry_run
older_than: OLDER THAN NUMBER _unit
log_retention: TRANSACTION LOG RETENTION NUMBER _unit
_unit: DAYS | HOURS
dry_run: DRY RUN

drop_partitions: DROP INDEXTABLES PARTITIONS FROM _target where
checkpoint: (CHECKPOINT | compact) INDEXTABLES _target
compact: COMPACT
truncate_history: TRUNCATE INDEXTABLES TIME TRAVEL _target dry_run?
repair: REPAIR INDEXFILES TRANSACTION LOG _target AT LOCATION destination
destination: _target
describe_state: DESCRIBE INDEXTABLES STATE _target
describe_log: DESCRIBE INDEXTABLES TRANSACTION LOG _target include_all?
include_all: INCLUDE ALL
invalidate_cache: INVALIDATE INDEXTABLES TRANSACTION LOG CACHE (FOR _target)?

_target: QUOTED_PATH | BARE_PATH

INDEXTABLES: /(indextables|tantivy4spark)\b/i
DAYS: /days?\b/i
HOURS: /hours?\b/i

WHERE.2: /where\b/i
PRECOMMIT.2: /precommit\b/i

NUMBER: /[0-9]+(?![\w.])/
BYTES: /[0-9][\w.]*/
QUOTED_PATH: /'(?:[^']|'')+'|"(?:[^"]|"")+"|`(?:[^`]|``)+`/
BARE_PATH: /(?!(?:where|target|max|precommit|older|transaction|dry|from|at|include|for)(?![\w.:\/-]))[^\s'"`;(),]+/i
P_QUOTED: /'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`/
P_WORD: /\w+/
P_SYMBOL: /[^\w\s'"`;]/
_SEMICOLON: ";"

COMMENT.3: /--[^\n]*|\/\*(?:[^*]|\*(?!\/))*\*\//
%ignore COMMENT
%ignore /\s+/
"""
)

# What an error message calls a terminal, if not by its own name with spaces.
NAMES = {
    "NUMBER": "a number",
    "BYTES": "a size such as 100M",
    "QUOTED_PATH": "a path",
    "BARE_PATH": "a path",
    "P_QUOTED": "a condition",
    "P_WORD": "a condition",
    "P_SYMBOL": "a condition",
    "_SEMICOLON": "the end",
    "$END": "the end",
}

_SPACE = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
_TABLES = frozenset({"INDEXTABLE", "INDEXTABLES", "TANTIVY4SPARK", "INDEXFILES"})
_VERBS = frozenset({"PURGE", "DROP", "CHECKPOINT", "COMPACT", "TRUNCATE", "REPAIR", "INVALIDATE"})


def is_command(text: str) -> bool:
    """Whether a text begins like one of these commands; other texts are left to the caller's own SQL engine."""
    words = _SPACE.sub(" ", text).upper().split()[:3]
    first, second, third = (*words, "", "", "")[:3]
    if first == "DESCRIBE":
        return second in _TABLES and third in ("STATE", "TRANSACTION")
    return (first, second) == ("MERGE", "SPLITS") or (first in _VERBS and second in _TABLES)
