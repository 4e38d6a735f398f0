"""Nulls in logs of other programs that mean the same as an absent entry or field: `"partitionValues": {"day": null}`."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from indextables import limits

T = TypeVar("T")
_MAPS = frozenset({"partitionValues", "minValues", "maxValues", "configuration", "tags", "options"})
_WITH_DEFAULTS = frozenset({"format", "remove", "commitInfo"})  # each has an optional field whose default is not null
_WITHOUT_NULLS = _MAPS | _WITH_DEFAULTS
_BYTES_PER_OBJECT = 10  # at least; an add of another program has 30 and more
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


def decode(decoder: msgspec.json.Decoder[T], text: bytes | str | msgspec.Raw) -> T:
    """Decodes a text, ignoring null entries of maps and null fields with a default; raises what the decoder raises for the text as it is.

    A text is decoded a second time only if the first attempt fails: our own writers leave nulls out.
    """
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        if not _may_have_nulls(text):
            raise
        try:
            given = msgspec.json.decode(text)
            if not remove(given):
                raise error
            return decoder.decode(msgspec.json.encode(given))
        except _UNDECODABLE:
            raise error from None


def _may_have_nulls(text: bytes | str | msgspec.Raw) -> bool:
    """Whether a second decoding is worth its memory: millions of tiny objects take 20 times the memory of their text as dicts."""
    data = text.encode() if isinstance(text, str) else bytes(text)
    is_dense = len(data) > limits.MIB and (data.count(b"{") + data.count(b"[")) * _BYTES_PER_OBJECT > len(data)
    return b"null" in data and not is_dense


def remove(value: Any) -> bool:
    """Removes such nulls from a decoded JSON or Avro value, in place; returns whether there were any."""
    found = False
    if isinstance(value, list):
        for item in value:
            found |= remove(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in _WITHOUT_NULLS and isinstance(item, dict):
                empty = [key for key, entry in item.items() if entry is None]
                found |= bool(empty)
                for key in empty:
                    del item[key]
            found |= remove(item)
    return found
