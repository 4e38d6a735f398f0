"""Replay against a model: a dict of paths (RD-01, C-33)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from indextables.actions import Add, Metadata, Protocol, Remove, Skip, Txn
from indextables.actions.codec import decode_actions, encode_actions
from indextables.actions.replay import Replay

PATHS = st.sampled_from([f"splits/s{i}.split" for i in range(6)])


def add_of(path: str, size: int = 1) -> Add:
    return Add(path=path, partition_values={}, size=size, modification_time=0, data_change=True, num_records=size)


ACTIONS = st.one_of(
    st.builds(add_of, PATHS, st.integers(1, 1000)),
    st.builds(lambda path: Remove(path=path), PATHS),
    st.builds(lambda n: Protocol(min_reader_version=n, min_writer_version=n), st.integers(1, 2)),
    st.builds(lambda n: Metadata(id=f"m{n}", schema_string="{}"), st.integers(0, 5)),
    st.builds(lambda app, n: Txn(app_id=app, version=n), st.sampled_from("ab"), st.integers(0, 9)),
)
LOGS = st.lists(st.lists(ACTIONS, max_size=6), max_size=12)


@settings(max_examples=300, deadline=None)
@given(LOGS)
def test_replay_equals_a_dict(log: list[list[object]]) -> None:
    replay = Replay(lambda path: path)
    files: dict[str, tuple[int, int]] = {}
    txns: dict[str, int] = {}
    protocol = metadata = None
    for version, actions in enumerate(log):
        replay.apply(version, actions)
        for action in actions:
            if isinstance(action, Add):
                files[action.path] = (action.size, version)
            elif isinstance(action, Remove):
                files.pop(action.path, None)
            elif isinstance(action, Txn):
                txns[action.app_id] = max(action.version, txns.get(action.app_id, -1))
            elif isinstance(action, Protocol):
                protocol = action
            else:
                metadata = action
    assert {path: (add.size, add.added_at_version) for path, add in ((a.path, a) for a in replay.files().complete.adds())} == files
    assert {app: txn.version for app, txn in replay.txns.items()} == txns
    assert (replay.protocol, replay.metadata) == (protocol, metadata)


@settings(max_examples=200, deadline=None)
@given(LOGS)
def test_actions_round_trip(log: list[list[object]]) -> None:
    for actions in log:
        decoded = decode_actions(encode_actions(actions), "test")
        assert decoded.actions == actions
        assert decoded.unknown == 0


def test_skips_of_a_path_are_combined() -> None:
    """SKP-02 … SKP-04: the highest count, the latest retry time, and the last reason."""
    replay = Replay(lambda path: path)
    first = Skip(path="a", skip_timestamp=1, reason="first", retry_after=50, skip_count=3)
    replay.apply(1, [first, Skip(path="b", skip_timestamp=1, reason="other")])
    replay.apply(2, [Skip(path="a", skip_timestamp=2, reason="second", retry_after=40)])
    assert replay.skips["a"] == Skip(path="a", skip_timestamp=2, reason="second", retry_after=50, skip_count=3)
    assert (replay.skips["b"].count, replay.skips["b"].retry_after) == (1, None)


def test_a_removed_file_is_no_longer_skipped() -> None:
    replay = Replay(lambda path: path)
    replay.apply(1, [Skip(path="a", skip_timestamp=1, reason="r")])
    replay.apply(2, [Remove(path="a")])
    assert replay.skips == {}


def test_the_null_partition_of_other_writers_is_null() -> None:
    replay = Replay(lambda path: path)
    values = {"date": "__HIVE_DEFAULT_PARTITION__", "level": "x"}
    replay.apply(1, [Add(path="a", partition_values=values, size=1, modification_time=1, data_change=True)])
    assert [add.partition_values for add in replay.files().complete.adds()] == [{"level": "x"}]
