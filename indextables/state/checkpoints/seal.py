"""Checks files of checkpoints. A sealed JSON object ends with the SHA-256 of the rest, so that truncated or edited files are detected."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from indextables.errors import LogCorrupted
from indextables.storage import Store

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


def check_seal(text: bytes, digests: Sequence[str] | None, source: str) -> None:
    """LogCorrupted unless a list of parts has a valid seal or, as in the files of other programs, neither a seal nor digests."""
    is_damaged = has_seal(text) if digests is None else not is_sealed(text)
    if is_damaged:
        raise LogCorrupted(f"{source} does not match its digest")


def read_part(store: Store, path: str, digest: str | None, source: str) -> bytes:
    """A part of a checkpoint; LogCorrupted if it is missing or has another SHA-256."""
    try:
        data = store.read(path)
    except FileNotFoundError:
        raise LogCorrupted(f"{source} is missing") from None
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise LogCorrupted(f"{source} does not match its digest")
    return data


@contextmanager
def decoding(problem: str) -> Iterator[None]:
    """Raises LogCorrupted with this problem and its cause if JSON cannot be decoded."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"{problem}: {error}") from error
