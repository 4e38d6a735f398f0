"""File names in the log folder, and gaps between versions (LOG-02, LOG-07, RD-06)."""

from __future__ import annotations

import pytest

from indextables.log.names import LogListing, checkpoint_path, version_path


def test_names_have_twenty_digits() -> None:
    assert version_path(42) == "_transaction_log/00000000000000000042.json"
    assert checkpoint_path(42) == "_transaction_log/00000000000000000042.checkpoint.json"


def test_only_full_names_are_listed() -> None:
    good = ["00000000000000000000.json", "00000000000000000003.json", "00000000000000000003.checkpoint.json", "_last_checkpoint"]
    foreign = [
        ".00000000000000000001.json.crc",
        "00000000000000000001.json.tmp",
        "x00000000000000000001.json",
        "00000000000000000001.json\n",
        "000000000000000001.json",
        "00000000000000000002.checkpoint.abc.00001.json",
        ".tmp-0123",
        "_00000000000000000001.json",
        "00000000000000000001.json\n",
        "00000000000000000002.checkpoint.json\n",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١.json",
    ]
    listing = LogListing.of([*good, *foreign])
    assert (listing.versions, listing.checkpoints, listing.has_pointer) == ((0, 3), (3,), True)


def test_states_are_folders_with_a_manifest() -> None:
    good = [
        "state-v00000000000000000007/_manifest.avro",
        "state-v00000000000000000007/_manifest.json",
        "state-v00000000000000000009/_manifest.json",
    ]
    foreign = [
        "state-v00000000000000000008/manifest-a.avro",
        "state-v00000000000000000008/._manifest.avro.crc",
        "state-v8/_manifest.avro",
        "manifests/manifest-a.avro",
        "x/state-v00000000000000000008/_manifest.avro",
        "state-v99999999999999999999/_manifest.avro",
    ]
    listing = LogListing.of([*good, *foreign, "00000000000000000008.checkpoint.json"])
    assert (listing.states, listing.checkpoints, listing.bases, listing.is_empty) == ((7, 9), (8,), (7, 8, 9), False)
    assert LogListing.of(foreign).is_empty


@pytest.mark.parametrize(
    ("versions", "base", "tail", "gap"),
    [
        ((), -1, (), None),
        ((0, 1, 2), -1, (0, 1, 2), None),
        ((0, 1, 3), -1, (0, 1), 2),
        ((1, 2), -1, (), 0),
        ((0, 5, 6, 8), 4, (5, 6), 7),
        ((0, 5, 6), 6, (), None),
        ((0, 8), 6, (), 7),
    ],
)
def test_tail_stops_before_a_gap(versions: tuple[int, ...], base: int, tail: tuple[int, ...], gap: int | None) -> None:
    assert LogListing(versions, (), False).tail(base) == (tail, gap)
