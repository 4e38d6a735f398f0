"""The syntax of the commands, for lark. Keywords are case-insensitive whole words; INDEXTABLES and TANTIVY4SPARK are synonyms.

A predicate is any sequence of tokens up to the next clause; the predicate parser interprets it. Clauses that may follow a predicate are
single terminals of several words, so that a column may be named `target` or `max`.
"""

_KEYWORDS = (
    "MERGE SPLITS PURGE DROP PARTITIONS FROM CHECKPOINT COMPACT TRUNCATE TIME TRAVEL REPAIR INDEXFILES TRANSACTION LOG AT "
    "LOCATION DESCRIBE STATE INCLUDE ALL INVALIDATE CACHE FOR INDEXTABLE OLDER THAN RETENTION DRY RUN"
)
GRAMMAR = (
    "\n".join(rf"{word}: /{word}\b/i" for word in _KEYWORDS.split())
    + r"""
start: command _SEMICOLON?

?command: merge | purge | drop_partitions | checkpoint | truncate | repair | describe_state | describe_log | invalidate

merge: MERGE SPLITS _target _merge_clause*
_merge_clause: where | target_size | max_dest | max_source | precommit
where: WHERE predicate
target_size: TARGET_SIZE BYTES
max_dest: MAX_DEST_SPLITS NUMBER
max_source: MAX_SOURCE_SPLITS_PER_MERGE NUMBER
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
checkpoint: (CHECKPOINT | COMPACT) INDEXTABLES _target
truncate: TRUNCATE INDEXTABLES TIME TRAVEL _target dry_run?
repair: REPAIR INDEXFILES TRANSACTION LOG _target AT LOCATION _target
describe_state: DESCRIBE INDEXTABLES STATE _target
describe_log: DESCRIBE INDEXTABLES TRANSACTION LOG _target include_all?
include_all: INCLUDE ALL
invalidate: INVALIDATE INDEXTABLES TRANSACTION LOG CACHE (FOR _target)?

_target: QUOTED_PATH | BARE_PATH

INDEXTABLES: /(indextables|tantivy4spark)\b/i
DAYS: /days?\b/i
HOURS: /hours?\b/i

WHERE.2: /where\b/i
TARGET_SIZE.2: /target\s+size\b/i
MAX_DEST_SPLITS.2: /max\s+dest\s+splits\b/i
MAX_SOURCE_SPLITS_PER_MERGE.2: /max\s+source\s+splits\s+per\s+merge\b/i
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
