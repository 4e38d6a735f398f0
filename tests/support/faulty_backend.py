"""An object store in memory of which any request can fail, with the errors that the client libraries raise. `RemoteStore` must cope."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
from botocore.exceptions import ClientError

from indextables.operations import deletion
from indextables.storage import Entry, faults
from indextables.storage.memory import MemoryStore
from indextables.storage.remote import Page
from tests.support.intercepted_store import Call

Result = TypeVar("Result")
SLOW_SECONDS = 5.0


def answer(status: int, code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "injected"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Request")


@dataclass(frozen=True)
class Fault:
    name: str
    error: Callable[[], Exception] | None  # None: the request is slow, or the listing is stale
    applied: bool = False  # the request was carried out and the answer was lost

    def __str__(self) -> str:
        return f"{self.name} once applied" if self.applied else self.name


_ERRORS: dict[str, Callable[[], Exception]] = {
    "timeout": TimeoutError,
    "500": lambda: answer(500, "InternalError"),
    "503": lambda: answer(503, "SlowDown"),
    "reset": ConnectionResetError,
}
REFUSED = Fault("403", lambda: answer(403, "AccessDenied"))
MISSING = Fault("404", lambda: answer(404, "NoSuchKey"))
SLOW = Fault("slow", None)
STALE = Fault("stale list", None)
SHORT = Fault("short read", lambda: aiohttp.ClientPayloadError("Response payload is not completed"))
BEFORE = [Fault(name, error) for name, error in _ERRORS.items()]
AFTER = [Fault(name, error, applied=True) for name, error in _ERRORS.items()]


def faults_of(call: Call) -> list[Fault]:
    """The faults that can strike a request of this kind."""
    if call.verb in ("put", "delete"):
        gone = [replace(MISSING, applied=True)] if call.verb == "delete" else []  # 404 for a delete means that the file is gone
        return [*BEFORE, *AFTER, SLOW, REFUSED, *gone]
    return [*BEFORE, SLOW, REFUSED, SHORT, *([STALE] if call.verb == "page" else [MISSING])]


@dataclass
class FaultPlan:
    """The faults of one machine: `fault` strikes request number `at` and, if it is `permanent`, every later equal request.

    `then` is the number of another request and the fault that strikes it.
    """

    fault: Fault | None = None
    at: int = -1
    permanent: bool = False
    then: tuple[int, Callable[[Call], Fault]] | None = None
    now: float = 1000.0  # seconds on the clock of the machine
    requests: list[Call] = field(default_factory=list)
    struck: int = 0

    def next_fault(self, call: Call) -> Fault | None:
        self.requests.append(call)
        number = len(self.requests) - 1
        again = self.permanent and 0 <= self.at < number and self.requests[self.at] == call
        if number != self.at and not again:
            return self.then[1](call) if self.then is not None and self.then[0] == number else None
        self.struck += 1
        return self.fault


class FaultyBackend:
    creates_atomically = True
    needs_probe = False

    def __init__(self, memory: MemoryStore, plan: FaultPlan) -> None:
        self.memory = memory
        self.plan = plan

    def _request(self, verb: str, path: str, perform: Callable[[], Result]) -> Result:
        fault = self.plan.next_fault(Call(verb, path))
        self.plan.now += 0.01
        if fault is None or fault is STALE:
            return perform()
        if fault is SLOW:
            self.plan.now += SLOW_SECONDS
            return perform()
        assert fault.error is not None
        if fault.applied:
            perform()
        raise fault.error()

    def put(self, path: str, data: bytes, seconds: float, *, if_absent: bool) -> int:
        return self._request("put", path, lambda: self._put(path, data, if_absent))

    def _put(self, path: str, data: bytes, if_absent: bool) -> int:
        if not if_absent:
            self.memory.replace(path, data)
        elif not self.memory.create(path, data):
            raise answer(412, "PreconditionFailed")
        return next(entry.modified_ms for entry in self.memory.list("") if entry.path == path)

    def get(self, path: str, seconds: float, start: int | None = None, end: int | None = None) -> bytes:
        return self._request("get", path, lambda: self.memory.read(path)[start:end])

    def size(self, path: str, seconds: float) -> int:
        return self._request("size", path, lambda: len(self.memory.read(path)))

    def page(self, folder: str, after: str | None, token: str | None, seconds: float) -> Page:
        stale = self.plan.fault is STALE and self.plan.at == len(self.plan.requests)
        entries = self._request("page", folder, lambda: list(self.memory.list(folder, after)))
        return Page(_without_the_last_commit(entries) if stale else entries, None)

    def delete(self, path: str, seconds: float) -> None:
        self._request("delete", path, lambda: self.memory.delete(path))

    def upload_parts(self, source: Path, path: str, timeout: float) -> int:
        raise AssertionError("splits in these tests are too small for a multipart upload")


def _without_the_last_commit(entries: list[Entry]) -> list[Entry]:
    versions = [entry for entry in entries if entry.path.startswith("_transaction_log/0") and entry.path.count(".") == 1]
    return [entry for entry in entries if entry not in versions[-1:]]


def use_simulated_time(current_plan: Callable[[], FaultPlan], patch: pytest.MonkeyPatch) -> None:
    """Makes pauses and deadlines use the clock of the machine, so that waiting takes no real time."""

    def sleep(seconds: float) -> None:
        current_plan().now += seconds

    clock: Any = types.SimpleNamespace(monotonic=lambda: current_plan().now, sleep=sleep)
    patch.setattr(faults, "time", clock)
    patch.setattr(deletion, "time", clock)
