"""Nulls in logs of other programs that mean the same as an absent entry or field: `"partitionValues": {"day": null}`."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from indextables import limits

T = TypeVar("T")
_BYTES_PER_OBJECT = 10  # at least; an add of another program has 30 and more
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


def decode(decoder: msgspec.json.Decoder[T], text: bytes | str | msgspec.Raw) -> T:
    """Decodes a text, ignoring nulls; raises what the decoder raises for the text without them, since nulls are not to blame.

    A text is decoded a second time only if the first attempt fails: our own writers leave nulls out.
    """
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        if not _may_have_nulls(text):
            raise
        try:
            without = msgspec.json.encode(removed(msgspec.json.decode(text)))
        except _UNDECODABLE:
            raise error from None
        return decoder.decode(without)


def _may_have_nulls(text: bytes | str | msgspec.Raw) -> bool:
    """Whether a second decoding is worth its memory: millions of tiny objects take 20 times the memory of their text as dicts."""
    data = text.encode() if isinstance(text, str) else bytes(text)
    is_dense = len(data) > limits.MIB and (data.count(b"{") + data.count(b"[")) * _BYTES_PER_OBJECT > len(data)
    return b"null" in data and not is_dense


def removed(value: Any) -> Any:
    """A decoded JSON or Avro value without null entries in its objects."""
    if isinstance(value, list):
        return [removed(item) for item in value]
    if isinstance(value, dict):
        return {name: removed(item) for name, item in value.items() if item is not None}
    return value
