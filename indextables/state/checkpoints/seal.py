"""Sealed JSON: an object whose last key is the SHA-256 of the rest, so that truncated, edited or exchanged files are detected."""

from __future__ import annotations

import hashlib
import re

_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}$')
SEAL_BYTES = len(b',"digest":""}') + 64


def sealed(text: bytes) -> bytes:
    """The object with a digest of itself as its last key."""
    return text[:-1] + seal_of(hashlib.sha256(text).hexdigest())


def seal_of(digest: str) -> bytes:
    """The bytes after the object's last value; `digest` is that of the object with `}` in their place."""
    return b',"digest":"' + digest.encode() + b'"}'


def has_seal(text: bytes) -> bool:
    """Whether the text ends with a seal, valid or not."""
    return _SEAL.search(text, max(0, len(text) - SEAL_BYTES)) is not None


def is_sealed(text: bytes) -> bool:
    """Whether the text ends with a valid seal."""
    seal = _SEAL.search(text, max(0, len(text) - SEAL_BYTES))
    if seal is None:
        return False
    digest = hashlib.sha256(memoryview(text)[: seal.start()])
    digest.update(b"}")
    return digest.hexdigest().encode() == seal[1]
