"""Sealed JSON: an object whose last key is the SHA-256 of the rest, so that a file that was cut, edited or taken for another is noticed."""

from __future__ import annotations

import hashlib
import re

_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}$')
SEAL_BYTES = len(b',"digest":""}') + 64


def sealed(text: bytes) -> bytes:
    """The object with a digest of itself as its last key."""
    return text[:-1] + seal_of(hashlib.sha256(text).hexdigest())


def seal_of(digest: str) -> bytes:
    """What follows the object's last value; the digest is that of the object with a bare `}` in this place."""
    return b',"digest":"' + digest.encode() + b'"}'


def has_seal(text: bytes) -> bool:
    """Whether there is one, right or not."""
    return _SEAL.search(text, max(0, len(text) - SEAL_BYTES)) is not None


def is_sealed(text: bytes) -> bool:
    """Whether there is one and it is right."""
    seal = _SEAL.search(text, max(0, len(text) - SEAL_BYTES))
    if seal is None:
        return False
    digest = hashlib.sha256(memoryview(text)[: seal.start()])
    digest.update(b"}")
    return digest.hexdigest().encode() == seal[1]
