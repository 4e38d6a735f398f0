"""Values as text in the log: they round-trip exactly, and forms of other writers are read or refused."""

from __future__ import annotations

import re
import struct
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.values import Scalar, decode_value, encode_value

ZONED, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
single = st.floats(width=32, allow_nan=False)
pairs = st.one_of(
    st.tuples(st.text(), st.just(pa.string())),
    st.tuples(st.booleans(), st.just(pa.bool_())),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.just(pa.int64())),
    st.tuples(st.floats(allow_nan=False), st.just(pa.float64())),
    st.tuples(st.dates(), st.just(pa.date32())),
    st.tuples(st.datetimes(timezones=st.just(UTC)), st.just(ZONED)),
    st.tuples(st.datetimes(), st.just(LOCAL)),
)


@given(pairs)
def test_values_round_trip(pair: tuple[Scalar, pa.DataType]) -> None:
    value, kind = pair
    back = decode_value(encode_value(value, kind), kind)
    assert back == value
    assert type(back) is type(value)


@given(single)
def test_single_precision_floats_round_trip(value: float) -> None:
    back = decode_value(encode_value(value, pa.float32()), pa.float32())
    assert isinstance(back, float)
    assert struct.pack("f", back) == struct.pack("f", value)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, pa.bool_(), "true"),
        (False, pa.bool_(), "false"),
        (-7, pa.int32(), "-7"),
        (0.1, pa.float64(), "0.1"),
        (0.1, pa.float32(), "0.1"),
        (date(2024, 1, 31), pa.date32(), "2024-01-31"),
        (datetime(2024, 1, 31, 1, 2, 3, tzinfo=UTC), ZONED, "2024-01-31T01:02:03.000000Z"),
        (datetime(2024, 1, 31, 1, 2, 3, 4), LOCAL, "2024-01-31T01:02:03.000004"),
        ("a b", pa.string(), "a b"),
    ],
)
def test_text_of_values(value: Scalar, kind: pa.DataType, text: str) -> None:
    assert encode_value(value, kind) == text


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("TRUE", pa.bool_(), True),
        ("2024-01-31T01:02:03+01:00", ZONED, datetime(2024, 1, 31, 0, 2, 3, tzinfo=UTC)),
        ("2024-01-31 01:02:03", ZONED, datetime(2024, 1, 31, 1, 2, 3, tzinfo=UTC)),
        ("2024-01-31T01:02:03+01:00", LOCAL, datetime(2024, 1, 31, 0, 2, 3)),
        ("Infinity", pa.float64(), float("inf")),
    ],
)
def test_text_of_other_writers(text: str, kind: pa.DataType, value: Scalar) -> None:
    assert decode_value(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("yes", pa.bool_()),
        ("1.5", pa.int64()),
        ("", pa.int64()),
        ("one", pa.float64()),
        ("31.01.2024", pa.date32()),
        ("noon", ZONED),
        ("x", pa.binary()),
    ],
)
def test_text_that_is_not_a_value_of_the_type_is_refused(text: str, kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        decode_value(text, kind)


@pytest.mark.parametrize("text", ["1612010112345", "20240101T000000", "1704067200000"])
def test_digits_alone_are_not_a_timestamp(text: str) -> None:
    """Other writers write milliseconds, which would be misread as a date centuries ago."""
    with pytest.raises(ValueError, match=text):
        decode_value(text, LOCAL)
