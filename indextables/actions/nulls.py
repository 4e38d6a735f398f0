"""Null entries of maps in logs of other writers: `"partitionValues": {"day": null}` means the same as no entry."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_MAPS = frozenset({"partitionValues", "minValues", "maxValues", "configuration", "tags", "options"})
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


def decode(decoder: msgspec.json.Decoder[T], text: bytes | str | msgspec.Raw) -> T:
    """What the decoder makes of a text, or else of the same text without null entries; raises what the decoder raises of the former.

    A text is decoded twice only if it is wrong at first: our own writers leave out what is null.
    """
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        try:
            given = msgspec.json.decode(text)
            if not remove(given):
                raise error
            return decoder.decode(msgspec.json.encode(given))
        except _UNDECODABLE:
            raise error from None


def remove(value: Any) -> bool:
    """Removes null entries from the maps in a decoded JSON or Avro value, in place, and says whether there were any."""
    found = False
    if isinstance(value, list):
        for item in value:
            found |= remove(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in _MAPS and isinstance(item, dict):
                empty = [key for key, entry in item.items() if entry is None]
                found |= bool(empty)
                for key in empty:
                    del item[key]
            found |= remove(item)
    return found
