"""Maps the values of a column to keys (64-bit integers or strings) that compare in bulk exactly as the values do.

Booleans, dates (days) and timestamps (microseconds, UTC) are integers already. A float maps to an integer of the same rank, so that NaN
equals itself and is greatest, and -0.0 equals 0.0. Comparisons with an unknown key are false. `typed_array` gives literals as Arrow values.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from operator import eq, ge, gt, index, le, lt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.values import encode_value

Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Key = Any  # an int of 64 bits for `IntegerKeys`, a str for `TextKeys`
Test = Callable[[Any, Any], Any]  # one of the operators eq, ge, gt, le, lt

NAN = 2**63 - 1
_KERNELS: dict[Test, Test] = {eq: pc.equal, ge: pc.greater_equal, gt: pc.greater, le: pc.less_equal, lt: pc.less}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True, slots=True, eq=False)
class IntegerKeys:
    values: Integers
    known: Mask

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.known.nbytes

    def compared(self, test: Test, key: Key) -> Mask:
        found: Mask = test(self.values, key)
        return found & self.known

    def take(self, rows: Integers) -> IntegerKeys:
        return IntegerKeys(self.values.take(rows), self.known.take(rows))

    def only(self, rows: Mask) -> IntegerKeys:
        """The same keys, unknown outside these rows."""
        return IntegerKeys(self.values, self.known & rows)


@dataclass(frozen=True, slots=True, eq=False)
class TextKeys:
    texts: pa.Array  # null: unknown
    codes: Integers | None = None  # the index of each row's string in `texts`; None: `texts` has one per row

    def __len__(self) -> int:
        return len(self.texts) if self.codes is None else len(self.codes)

    @property
    def nbytes(self) -> int:
        return int(self.texts.nbytes) + (0 if self.codes is None else self.codes.nbytes)

    @property
    def known(self) -> Mask:
        return self.spread(pc.is_valid(self.texts))

    def compared(self, test: Test, key: Key) -> Mask:
        return self.spread(_KERNELS[test](self.texts, typed_scalar(key, pa.string())))

    def starts_with(self, prefix: str) -> Mask:
        return self.spread(pc.starts_with(self.texts, prefix))

    def matches(self, regex: str, rows: Mask) -> Mask:
        """Which of these rows match; others are not tested, since a regular expression costs more than a comparison."""
        if self.codes is not None:
            return self.spread(pc.match_substring_regex(self.texts, regex)) & rows
        found = np.zeros(len(self.texts), bool)
        found[rows] = mask_of(pc.match_substring_regex(self.texts.filter(pa.array(rows)), regex))
        return found

    def rows(self) -> pa.Array:
        """One string per row."""
        return self.texts if self.codes is None else self.texts.take(pa.array(self.codes))

    def take(self, rows: Integers) -> TextKeys:
        return TextKeys(self.texts.take(pa.array(rows))) if self.codes is None else TextKeys(self.texts, self.codes.take(rows))

    def only(self, rows: Mask) -> TextKeys:
        """The same keys, unknown outside these rows."""
        return self if rows.all() else TextKeys(pc.if_else(pa.array(rows), self.rows(), pa.nulls(1, pa.string())[0]))

    def spread(self, answers: pa.Array) -> Mask:
        """Expands answers for `texts` to one per row."""
        found = mask_of(answers)
        return found if self.codes is None else found.take(self.codes)


Keys = IntegerKeys | TextKeys


def mask_of(answers: pa.Array) -> Mask:
    """A NumPy mask of a boolean array; null counts as false."""
    filled = pc.fill_null(answers, typed_scalar(False, pa.bool_())) if answers.null_count else answers
    found: Mask = filled.to_numpy(zero_copy_only=False)
    return found


def key_of(value: Any) -> Key:
    """The key of a literal or a decoded value; OverflowError if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return int(float_keys(np.array([value]))[0])
    if isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.toordinal() - _EPOCH_DAY
    number = index(value)  # not int(), which would truncate a decimal
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{value!r} is out of range")
    return number


def typed_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of literals of a bound expression, without nulls; `kind` is canonical, for numbers int64 or float64.

    Built from bytes: pa.array and pa.scalar import pandas if it is installed (pyarrow 26, even with a type given), which costs a command
    1.5 s.
    """
    if pa.types.is_date(kind):
        return _from_buffers(kind, len(values), array("i", map(key_of, values)))
    if pa.types.is_timestamp(kind):
        return _from_buffers(kind, len(values), array("q", map(key_of, values)))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _from_buffers(kind, len(values), array("d" if pa.types.is_floating(kind) else "q", values))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        offsets = array("i", accumulate(map(len, encoded), initial=0))
        return _from_buffers(kind, len(values), offsets, b"".join(encoded))
    return typed_array([encode_value(value, kind) for value in values], pa.string()).cast(kind)


@lru_cache(maxsize=128)  # a scan compares every batch with the same literals
def typed_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    return pa.nulls(1, kind)[0] if value is None else typed_array([value], kind)[0]


def _from_buffers(kind: pa.DataType, length: int, *buffers: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, length, [None, *(pa.py_buffer(buffer) for buffer in buffers)])


def float_keys(values: npt.NDArray[np.float64]) -> Integers:
    bits = (values + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    ranks = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    ranks[np.isnan(values)] = NAN
    return ranks


def lifted(keys: Keys, kind: pa.DataType, common: pa.DataType) -> Keys:
    """Converts keys of type `kind` to keys of a wider type."""
    if not isinstance(keys, IntegerKeys) or kind == common:
        return keys
    if pa.types.is_floating(common) and pa.types.is_integer(kind):
        return IntegerKeys(float_keys(keys.values.astype(np.float64)), keys.known)
    if pa.types.is_timestamp(common) and pa.types.is_date(kind):
        return IntegerKeys(keys.values * _DAY_MICROSECONDS, keys.known)
    return keys


def compared(test: Test, left: Keys, right: Keys) -> Mask:
    """Compares the keys row by row; false where either is unknown."""
    if test is eq and left is right:
        return left.known
    if isinstance(left, IntegerKeys) and isinstance(right, IntegerKeys):
        found: Mask = test(left.values, right.values)
        return found & left.known & right.known
    assert isinstance(left, TextKeys), "keys of one type"
    assert isinstance(right, TextKeys), "keys of one type"
    return mask_of(_KERNELS[test](left.rows(), right.rows()))


def between(values: list[Key], low: Keys | None, high: Keys | None) -> Mask:
    """Whether one of the ascending values may be within the bounds, row by row. At least one is given; an unknown one excludes none."""
    if not values:
        return np.array(False)
    if isinstance(high if low is None else low, IntegerKeys):
        return _numbers_between(np.array(values, np.int64), low, high)
    return _texts_between(typed_array(values, pa.string()), low, high)


def _numbers_between(values: Integers, low: Any, high: Any) -> Mask:
    at = np.where(low.known, np.searchsorted(values, low.values), 0) if low is not None else np.zeros(len(high), np.int64)
    found: Mask = at < len(values)
    if high is None:
        return found
    too_high: Mask = (values[np.minimum(at, len(values) - 1)] > high.values) & high.known
    return found & ~too_high


def _texts_between(values: pa.Array, low: Any, high: Any) -> Mask:
    if low is high and low.codes is not None:
        within: Mask = low.spread(pc.or_(pc.is_in(low.texts, values), pc.is_null(low.texts)))
        return within
    if low is None:
        at = np.zeros(len(high), np.int64)
    else:
        places = pc.fill_null(pc.search_sorted(values, low.texts).cast(pa.int64()), typed_scalar(0, pa.int64())).to_numpy()
        at = places if low.codes is None else places[low.codes]
    found: Mask = at < len(values)
    if high is None:
        return found
    next_one = values.take(pa.array(np.minimum(at, len(values) - 1)))
    return found & ~mask_of(pc.greater(next_one, high.rows()))
