"""The grammar of the table commands: every form in upper and lower case, error positions, and random texts."""

from __future__ import annotations

import random

import pytest

import indextables as it
from indextables.commands import is_command
from indextables.commands.parse import Command, parse_command
from indextables.operations import verbs
from tests.support.seeds import random_seed

GOOD: dict[str, Command] = {
    "MERGE SPLITS '/a/b'": Command(verbs.MergeSplits(), "/a/b"),
    "MERGE SPLITS '/a/b' TARGET SIZE 100M": Command(verbs.MergeSplits(target_size=100 * 2**20), "/a/b"),
    'MERGE SPLITS "it""s" TARGET SIZE 4194304': Command(verbs.MergeSplits(target_size=4194304), 'it"s'),
    "MERGE SPLITS s3://b/t MAX SOURCE SPLITS PER MERGE 7 MAX DEST SPLITS 3 TARGET SIZE 1G": Command(
        verbs.MergeSplits(2**30, None, 3, 7), "s3://b/t"
    ),
    "MERGE SPLITS t WHERE target = 1 AND max > 2 TARGET SIZE 1G MAX DEST SPLITS 3": Command(
        verbs.MergeSplits(2**30, "target = 1 AND max > 2", 3), "t", 21
    ),
    "MERGE SPLITS t TARGET SIZE 1G WHERE a IN ('x;--y', \"Z\") ;": Command(verbs.MergeSplits(2**30, "a IN ('x;--y', \"Z\")"), "t", 36),
    "PURGE INDEXTABLE '/t'": Command(verbs.Purge(), "/t"),
    "PURGE INDEXTABLES '/t' OLDER THAN 7 DAYS": Command(verbs.Purge("168h"), "/t"),
    "PURGE TANTIVY4SPARK '/t' DRY RUN OLDER THAN 1 DAY": Command(verbs.Purge("24h", dry_run=True), "/t"),
    "PURGE INDEXTABLE '/t' TRANSACTION LOG RETENTION 36 HOURS OLDER THAN 48 HOURS DRY RUN": Command(verbs.Purge("48h", "36h", True), "/t"),
    "DROP INDEXTABLES PARTITIONS FROM '/t' WHERE date = '2024-01-01'": Command(verbs.DropPartitions("date = '2024-01-01'"), "/t", 44),
    "CHECKPOINT INDEXTABLES `a``b`": Command(verbs.Checkpoint(), "a`b"),
    "COMPACT TANTIVY4SPARK warehouse/logs": Command(verbs.Checkpoint(compact=True), "warehouse/logs"),
    "TRUNCATE INDEXTABLES TIME TRAVEL 'it''s'": Command(verbs.TruncateHistory(), "it's"),
    "TRUNCATE INDEXTABLES TIME TRAVEL t DRY RUN;": Command(verbs.TruncateHistory(dry_run=True), "t"),
    "REPAIR INDEXFILES TRANSACTION LOG 'a/_transaction_log' AT LOCATION 'b'": Command(verbs.Repair("b"), "a/_transaction_log"),
    "DESCRIBE INDEXTABLES STATE '/t'": Command(verbs.DescribeState(), "/t"),
    "DESCRIBE TANTIVY4SPARK TRANSACTION LOG '/t'": Command(verbs.DescribeLog(), "/t"),
    "DESCRIBE INDEXTABLES TRANSACTION LOG '/t' INCLUDE ALL": Command(verbs.DescribeLog(include_all=True), "/t"),
    "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE": Command(verbs.InvalidateCache(), None),
    "INVALIDATE INDEXTABLES TRANSACTION LOG CACHE FOR '/t'": Command(verbs.InvalidateCache(), "/t"),
}
KEYWORDS = {word for text in GOOD for word in text.split() if word.isalpha() and word.isupper()} | {"TANTIVY4SPARK"}


@pytest.mark.parametrize("text", GOOD)
def test_commands_in_any_case(text: str) -> None:
    """C-54: PURGE INDEXTABLE and INDEXTABLES; INDEXTABLES and TANTIVY4SPARK are the same."""
    assert parse_command(text) == GOOD[text]
    assert is_command(text)
    for case in (str.lower, str.title):
        changed = " ".join(case(word) if word in KEYWORDS - {"AND", "IN"} else word for word in text.split(" "))
        assert changed != text
        assert parse_command(changed) == GOOD[text]


def test_comments_and_white_space_are_ignored() -> None:
    text = "-- nightly\nPURGE /* all\n of it */ INDEXTABLE\n\t'/t'  -- the table\nDRY RUN; -- done"
    assert parse_command(text) == Command(verbs.Purge(dry_run=True), "/t")
    assert is_command(text)


BAD = {
    "": (None, "expected CHECKPOINT, COMPACT, DESCRIBE, DROP, INVALIDATE, MERGE, PURGE, REPAIR or TRUNCATE, found the end"),
    "SELECT 1": (0, "expected CHECKPOINT, .* found SELECT"),
    "MERGE SPLIT '/t'": (6, "expected SPLITS, found SPLIT"),
    "MERGE SPLITS": (12, "expected a path, found the end"),
    "MERGE SPLITS WHERE a = 1": (13, "expected a path, found WHERE"),
    "MERGE SPLITS t 100M": (15, "expected MAX DEST SPLITS, .*TARGET SIZE.* found 100M"),
    "MERGE SPLITS t TARGET 100M": (22, "expected SIZE, found 100M"),
    "MERGE SPLITS t target siz 100M": (22, "expected SIZE, found siz"),
    "MERGE SPLITS t MAX SPLITS 3": (19, "expected DEST or SOURCE, found SPLITS"),
    "MERGE SPLITS t MAX SOURCE SPLITS 3": (33, "expected PER, found 3"),
    "MERGE SPLITS t TARGET SIZE 10K": (27, "target size '10K' is below the minimum of 1M"),
    "MERGE SPLITS t TARGET SIZE": (26, "expected a size such as 100M, found the end"),
    "MERGE SPLITS t TARGET SIZE 1Q": (27, "'1Q' is not a size"),
    "MERGE SPLITS t TARGET SIZE 1" + "0" * 400: (27, "is not a size"),
    "MERGE SPLITS t MAX DEST SPLITS 0": (31, "0 is not a whole number of at least 1"),
    "MERGE SPLITS t MAX SOURCE SPLITS PER MERGE 1.5": (43, "expected a number, found 1.5"),
    "MERGE SPLITS t PRECOMMIT": (15, "PRECOMMIT is not supported"),
    "MERGE SPLITS t TARGET SIZE 1M TARGET SIZE 2M": (30, "TARGET SIZE … is given twice"),
    "MERGE SPLITS t WHERE": (20, "expected a condition, found the end"),
    "MERGE SPLITS 't": (13, "the ' at position 13 is never closed"),
    "MERGE SPLITS ''": (13, "never closed, or quotes nothing"),
    "DROP INDEXTABLES PARTITIONS FROM t": (34, "expected WHERE, found the end"),
    "DROP INDEXTABLES PARTITIONS t WHERE a = 1": (28, "expected FROM, found t"),
    "PURGE INDEXTABLES t OLDER THAN -3 DAYS": (31, "expected a number, found -"),
    "PURGE INDEXTABLES t OLDER THAN 3 WEEKS": (33, "expected DAYS or HOURS, found WEEKS"),
    "PURGE INDEXTABLES t OLDER THAN 99999999999999999999 DAYS": (31, "is more than 2147483647"),
    "CHECKPOINT INDEXTABLES t u": (25, "expected the end, found u"),
    "DESCRIBE INDEXTABLES STATE t INCLUDE ALL": (29, "expected the end, found INCLUDE"),
    "DESCRIBE INDEXTABLES PREWARM JOBS": (21, "expected STATE or TRANSACTION, found PREWARM"),
    "REPAIR INDEXFILES TRANSACTION LOG 'a' AT 'b'": (41, "expected LOCATION, found 'b'$"),
    "CHECKPOINT '/t'": (11, "expected INDEXTABLES, found '/t'$"),
    'PURGE "/t" DRY RUN': (6, 'expected INDEXTABLE or INDEXTABLES, found "/t"$'),
    "DESCRIBE `it``s`": (9, "expected INDEXTABLES, found `it``s`$"),
    "CHECKPOINT '/t": (11, "the ' at position 11 is never closed"),
    "TRUNCATE INDEXTABLES TIME TRAVEL t; TRUNCATE": (36, "expected the end, found TRUNCATE"),
}


@pytest.mark.parametrize("text", BAD)
def test_errors_have_the_position_of_the_word(text: str) -> None:
    position, message = BAD[text]
    with pytest.raises(it.InvalidCommand, match=message) as caught:
        parse_command(text)
    assert caught.value.exit_code == 2
    if position is not None:
        assert caught.value.position == position
        caret = caught.value.caret()
        assert caret is not None
        assert caret.splitlines()[1].endswith("^")


@pytest.mark.parametrize(
    "text",
    ["SELECT 1", "", "MERGE INTO t USING s", "DROP TABLE indextables", "TRUNCATE TABLE t", "DESCRIBE indextables", "DESCRIBE t STATE"],
)
def test_other_statements_are_not_recognized(text: str) -> None:
    assert not is_command(text)


def test_any_text_is_a_command_or_raises_invalid_command() -> None:
    """2,000 texts: pieces of commands in random order, truncated, repeated, and with unusual characters between them."""
    seed = random_seed()
    chance = random.Random(seed)
    pieces = [word for text in GOOD for word in text.split()] + [
        "'",
        '"',
        "`",
        ";",
        "--",
        "/*",
        "*/",
        "\0",
        "é",
        "١",
        "\ud800",
        "\n",
        "(",
        "9" * 30,
    ]
    outcomes = {"command": 0, "error": 0}
    for number in range(2000):
        if number % 2:
            words = [chance.choice(pieces) for _ in range(chance.randrange(12))]
        else:
            words = chance.choice(list(GOOD)).split(" ")
            for _ in range(chance.randrange(3)):
                at = chance.randrange(len(words))
                words[at : at + chance.randrange(2)] = [chance.choice(pieces)] * chance.randrange(2) or [words[at][:-1]]
        text = chance.choice([" ", " ", "\t", " -- c\n"]).join(words)
        is_command(text)
        try:
            parse_command(text)
            outcomes["command"] += 1
        except it.InvalidCommand as error:
            outcomes["error"] += 1
            error.caret()
    assert sum(outcomes.values()) == 2000
    assert min(outcomes.values()) > 100, outcomes


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(it.InvalidCommand, match="characters, more than"):
        parse_command("MERGE SPLITS t WHERE " + "a = 1 AND " * 1_000_000)


def test_a_command_must_be_a_string() -> None:
    with pytest.raises(it.InvalidArgument, match="not 'bytes'"):
        it.sql(b"x")  # type: ignore[arg-type]
