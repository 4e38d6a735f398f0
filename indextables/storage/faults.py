"""Classifies failed requests (whether to retry, and whether the request may have been carried out), and retries them until a deadline.

Messages of client libraries contain addresses, headers and signatures. Ours contain at most a status and an error code.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from indextables import limits
from indextables.errors import IndexTablesError, StorageError, StorageRefused
from indextables.paths import TableRoot

Result = TypeVar("Result")
# Never retried: our own errors, and programming mistakes.
OURS = (IndexTablesError, TypeError, AttributeError, NameError, AssertionError)
ATTEMPT_SHARE = 3  # a request gets at most a third of the time, so that another can follow one that hangs


class FaultKind(Enum):
    MISSING = auto()  # the object does not exist
    EXISTS = auto()  # the object already exists
    UNSENT = auto()  # the request did not reach the store
    LOST = auto()  # the request may have been carried out, or may still be
    REFUSED = auto()  # it was not carried out, and a retry will not help


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    sentence: str

    @property
    def is_retryable(self) -> bool:
        return self.kind in (FaultKind.UNSENT, FaultKind.LOST)

    def error(self, root: TableRoot, path: str, after: float | None = None) -> StorageError:
        """The error to raise. It names the table and the object, never the endpoint."""
        message = f"{path!r} of {root}: {self.sentence}"
        if not self.is_retryable:
            return StorageRefused(message)
        return StorageError(message + ("" if after is None else f"; gave up after {after:g} s"))


# Exceptions of botocore and aiohttp, by name so that neither has to be imported.
# EndpointConnectionError is missing on purpose: the connection may have broken after the request was sent.
_UNSENT = {"ConnectTimeoutError", "ClientConnectorError", "ConnectionRefusedError"}
_NO_CREDENTIALS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound", "TokenRetrievalError",
    "DefaultCredentialsError", "CredentialUnavailableError", "ClientAuthenticationError",
}  # fmt: skip
_MISCONFIGURED = {"InvalidRegionError", "NoRegionError", "ParamValidationError", "InvalidEndpointConfigurationError", "SSLError"}


def fault_of(error: BaseException) -> Fault:
    """Classifies the exception of a request by the store's answer, if there is one in its chain of causes, else by its type."""
    if isinstance(error, FileExistsError):  # Azure: a 409, which from other stores means that the outcome is open
        return Fault(FaultKind.EXISTS, "the object already exists")
    chain = list(_chain(error))
    for link in chain:
        answer = _answer(link)
        if answer is not None:
            return _fault_of_answer(*answer)
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    if names & _NO_CREDENTIALS:
        return Fault(FaultKind.REFUSED, "no credentials were found in the environment, a profile or the instance")
    if names & _MISCONFIGURED:
        return Fault(FaultKind.REFUSED, "the address or region of the store is not usable, or its certificate is not trusted")
    if isinstance(error, FileNotFoundError):
        return Fault(FaultKind.MISSING, "the object does not exist")
    if isinstance(error, PermissionError) or (type(error) is OSError and str(error).startswith("Forbidden: ")):  # the second is gcsfs
        return Fault(FaultKind.REFUSED, "the store denies access")
    if names & _UNSENT:
        return Fault(FaultKind.UNSENT, "the store could not be reached")
    if isinstance(error, TimeoutError | asyncio.TimeoutError) or any("Timeout" in name for name in names):
        return Fault(FaultKind.LOST, "the store did not answer in time")
    return Fault(FaultKind.LOST, "the connection to the store was lost")


def _answer(error: BaseException) -> tuple[int, str] | None:
    """Status and error code of the store's answer, as botocore, gcsfs or Azure's library keep it; None: there was no answer."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0), str(response.get("Error", {}).get("Code", ""))
    # By name: aiohttp's exception for a truncated answer also has a `code`, which did not come from the store.
    status = getattr(error, "code" if type(error).__name__ == "HttpError" else "status_code", None)
    if isinstance(status, int) and 400 <= status < 600:
        return status, str(getattr(error, "error_code", None) or "")
    return None


def _fault_of_answer(status: int, error_code: str) -> Fault:
    code = re.sub(r"[^A-Za-z0-9]", "", error_code)[:64]
    shown = " ".join(part for part in (str(status or ""), code if code != str(status) else "") if part)
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return Fault(FaultKind.REFUSED, "there is no such bucket")
    if code == "PreconditionFailed":
        return Fault(FaultKind.EXISTS, "the object already exists")
    # After a conflict (409) of conditional writes the outcome is open; 408, 429 and 5xx are temporary.
    if status in (0, 408, 409, 429) or status >= 500:
        return Fault(FaultKind.LOST, f"the store answered {shown}")
    kind = {404: FaultKind.MISSING, 412: FaultKind.EXISTS}.get(status, FaultKind.REFUSED)
    return Fault(kind, f"the store refused with {shown}" if kind is FaultKind.REFUSED else f"the store answered {shown}")


def silence_loggers(libraries: Sequence[str]) -> None:
    """Silences client libraries, which log addresses and headers even in warnings; our errors report their failures.

    A program can still turn them on by setting a level for one of these loggers; setting the root logger's level does not.
    """
    for name in libraries:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._pauses = 0

    def attempt_seconds(self) -> float:
        """Seconds that the next request may take."""
        return max(0.01, min(self.seconds / ATTEMPT_SHARE, self._end - time.monotonic()))

    def pause(self) -> bool:
        """Waits before the next attempt (exponential, capped, full jitter); returns False without waiting if no time is left for one."""
        ceiling = min(limits.RETRY_MOST_SECONDS, limits.RETRY_FIRST_SECONDS * 2**self._pauses)
        wait = random.uniform(0, ceiling)
        self._pauses += 1
        if time.monotonic() + wait >= self._end:
            return False
        time.sleep(wait)
        return True


def attempt(deadline: Deadline, request: Callable[[float], Result]) -> Result | Fault:
    """The result of one request, or its fault: without the library's error, which contains addresses."""
    try:
        return request(deadline.attempt_seconds())
    except OURS:
        raise
    except Exception as error:
        return fault_of(error)


def retrying(root: TableRoot, path: str, seconds: float, request: Callable[[float], Result]) -> Result:
    """Calls `request(seconds)` until it succeeds. FileNotFoundError and StorageRefused at once, StorageError at the deadline."""
    deadline = Deadline(seconds)
    while True:
        found = attempt(deadline, request)
        if not isinstance(found, Fault):
            return found
        if found.kind is FaultKind.MISSING:
            raise FileNotFoundError(path)
        if not found.is_retryable:
            raise found.error(root, path)
        if not deadline.pause():
            raise found.error(root, path, seconds)
