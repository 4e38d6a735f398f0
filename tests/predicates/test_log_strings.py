"""Keys of strings of the log: exactly the strings that `decode_value` accepts have one, and keys compare as the values do."""

from __future__ import annotations

from operator import ge, lt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indextables.predicates.expressions import order_key
from indextables.predicates.keys import IntegerKeys, TextKeys, lifted
from indextables.predicates.literals import single
from indextables.predicates.log_strings import keys_of
from indextables.schema import UTC_TIMESTAMP
from indextables.values import decode_value, encode_value
from tests.support.random_predicates import SCHEMA, VALUES

STRANGE = ["x", "", " ", "nan", "inf", "-Infinity", "10", " 7 ", "1_0", "٣", "+5", "-0", "9" * 18, "9" * 19, "9" * 30, "1.5", "1.", ".5"]
STRANGE += ["1e39", "-1e39", "1e400", "3.4028236e38", "0.1", "TRUE", "1", "2024-02-30", "20240102", "0000-01-01", "2024-1-2", "2024-01-02"]
STRANGE += ["2024-01-02 12:00", "2024-01-02T12:00:00.5Z", "2024-01-02T24:00:00", "2024-01-02T12:00:60", "2024-01-02 12:00:00.123"]
STRANGE += ["2024-01-02T12:00:00+02:00", "2024-01-02T12:00:00.123456ZZ", "9999-12-31T23:59:59.999999Z", "10000-01-01", "1612010112345"]


def value_of(text: str | None, kind: pa.DataType) -> Any:
    try:
        value: Any = None if text is None else decode_value(text, kind)
        value = single(value) if value is not None and pa.types.is_float32(kind) else value
    except (ValueError, OverflowError):
        return None
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


@pytest.mark.parametrize("name", [name for name in SCHEMA.names if name != "s"])
@given(data=st.data())
def test_keys_are_ranks_of_values(name: str, data: st.DataObject) -> None:
    kind = SCHEMA.field(name).type
    usual = [encode_value(value, kind) for value in VALUES[name]]  # type: ignore[arg-type]
    texts = data.draw(st.lists(st.sampled_from(usual) | st.sampled_from([*STRANGE, None]), max_size=12))
    keys = keys_of(pa.array(texts, pa.string()), kind)
    values = [value_of(text, kind) for text in texts]
    assert isinstance(keys, IntegerKeys)
    assert keys.known.tolist() == [value is not None for value in values]
    ranked = [(int(key), value) for key, value in zip(keys.values, values, strict=True) if value is not None]
    for key, value in ranked:
        for other_key, other in ranked:
            assert (key < other_key) == (order_key(value) < order_key(other)), (value, other)


def test_unusual_strings_are_parsed_as_decode_value_does() -> None:
    """Parsed together, so that one string that only looks like a date sends all of them to the slow path, with the same result."""
    asked = 0
    for field in SCHEMA:
        if pa.types.is_string(field.type):
            continue
        known = keys_of(pa.array([*STRANGE, None]), field.type).known.tolist()
        assert known == [value_of(text, field.type) is not None for text in [*STRANGE, None]], field
        asked += len(known)
    assert asked == 10 * (len(STRANGE) + 1)


def test_repeated_strings_are_stored_once() -> None:
    often = keys_of(pa.array(["b", "a", None, "b"] * 100), pa.string())
    seldom = keys_of(pa.array([str(n) for n in range(400)]), pa.string())
    assert isinstance(often, TextKeys)
    assert isinstance(seldom, TextKeys)
    assert len(often.texts) == 3
    assert seldom.codes is None
    assert len(often) == len(seldom) == 400
    assert often.rows().to_pylist() == ["b", "a", None, "b"] * 100
    assert often.compared(lt, "b").tolist() == [False, True, False, False] * 100
    assert often.compared(ge, "b").tolist() == [True, False, False, True] * 100


def test_dates_compare_with_timestamps_as_midnight() -> None:
    days = keys_of(pa.array(["1969-12-31", "0001-01-01", "9999-12-31"]), pa.date32())
    midnights = keys_of(pa.array(["1969-12-31T00:00:00", "0001-01-01", "9999-12-31 00:00:00Z"]), UTC_TIMESTAMP)
    found = lifted(days, pa.date32(), UTC_TIMESTAMP)
    assert isinstance(found, IntegerKeys)
    assert isinstance(midnights, IntegerKeys)
    assert found.values.tolist() == midnights.values.tolist()
