"""A proxy on localhost between a client and an S3-like server that drops, delays, truncates or replaces answers.

It reads whole requests, so a fault can strike before the server sees the request, after the server has carried it out, or in the middle of
the answer. It runs in its own thread with its own event loop; `log` lists the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ERRORS = {
    "503": "SlowDown", "500": "InternalError", "429": "TooManyRequests", "409": "ConditionalRequestConflict", "403": "AccessDenied",
    "412": "PreconditionFailed",
}  # fmt: skip
# Faults of a put: LOST where the server has carried it out, NOT_APPLIED where it has not.
LOST = ("apply_reset", "apply_close", "apply_503", "apply_500")
NOT_APPLIED = ("reset", "503", "500", "429", "409")


@dataclass
class Rule:
    action: str
    method: str | None = None
    path: str = ""
    times: int = 1
    skip: int = 0

    def takes(self, method: str, path: str) -> bool:
        if self.times <= 0 or (self.method is not None and self.method != method) or not re.search(self.path, path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass
class Chain(Rule):
    """The first fault strikes the request that the rule describes; each further fault strikes the next request for the same object."""

    actions: list[str] = field(default_factory=list)

    def takes(self, method: str, path: str) -> bool:
        if not self.actions or not super().takes(method, path):
            return False
        self.action = self.actions.pop(0)
        self.method, self.path, self.times = None, re.escape(path.partition("?")[0]), 1
        return True


@dataclass
class Request:
    method: str
    path: str
    action: str
    status: int | None = None
    answered: int = 0  # bytes of the body

    @property
    def verb(self) -> str:
        return "LIST" if self.method == "GET" and "list-type=2" in self.path else self.method


@dataclass
class FaultProxy:
    upstream: tuple[str, int]
    rules: list[Rule] = field(default_factory=list)
    log: list[Request] = field(default_factory=list)
    strip_condition: bool = False  # imitates a server that ignores If-None-Match

    def rule(self, action: str, method: str | None = None, path: str = "", times: int = 1, skip: int = 0) -> None:
        self.rules.append(Rule(action, method, path, times, skip))

    def chain(self, actions: Sequence[str], method: str, skip: int = 0) -> None:
        self.rules.append(Chain("", method, skip=skip, actions=list(actions)))

    def clear(self) -> None:
        self.rules.clear()
        self.log.clear()

    def verbs(self) -> dict[str, int]:
        return {verb: sum(r.verb == verb for r in self.log) for verb in ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE")}

    @contextlib.contextmanager
    def running(self) -> Iterator[FaultProxy]:
        loop = asyncio.new_event_loop()
        ready = threading.Event()

        async def serve() -> None:
            self._stop = asyncio.Event()
            self._writers: set[asyncio.StreamWriter] = set()
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 22)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await self._stop.wait()
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

        def run() -> None:
            loop.run_until_complete(serve())
            loop.close()

        thread = threading.Thread(target=run)
        thread.start()
        ready.wait()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(self._stop.set)
            thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._writers.add(writer)
        try:
            while True:
                head, body = await _message(reader, client=writer)
                method, path = head.decode("latin1").split(" ", 2)[:2]
                rule = next((r for r in self.rules if r.takes(method, path)), None)
                action = rule.action if rule else "pass"
                entry = Request(method, path, action)
                self.log.append(entry)
                if action == "reset":
                    return _reset(writer)
                if action == "hang":
                    await self._stop.wait()
                    return None
                if action in ERRORS:
                    writer.write(_error(action))
                    await writer.drain()
                    continue
                if up is None:
                    up = await asyncio.open_connection(*self.upstream, limit=1 << 22)
                if self.strip_condition:
                    head = re.sub(rb"(?i)\r\nif-none-match:[^\r]*", b"", head)
                up[1].write(head + body)
                await up[1].drain()
                answer_head, answer = await _message(up[0], method)
                entry.status = int(answer_head.split(None, 2)[1])
                entry.answered = len(answer)
                if not await self._answer(action, answer_head, answer, writer):
                    return None
        except (ConnectionError, asyncio.IncompleteReadError):
            return None
        finally:
            self._writers.discard(writer)
            for stream in (writer, *([up[1]] if up else [])):
                stream.close()

    async def _answer(self, action: str, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Sends the answer with this fault. Returns whether the connection stays open."""
        if action == "apply_reset":
            _reset(writer)
            return False
        if action == "apply_close":
            return False
        if action == "apply_hang":
            await self._stop.wait()
            return False
        if action == "truncate":
            writer.write(head + body[: len(body) // 2])
            await writer.drain()
            _reset(writer)
            return False
        if action == "slow":
            writer.write(head)
            for at in range(0, len(body), 64):
                writer.write(body[at : at + 64])
                await writer.drain()
                await asyncio.sleep(0.2)
            return True
        writer.write(_error(action.removeprefix("apply_")) if action.startswith("apply_") else head + body)
        await writer.drain()
        return True


def _error(status: str) -> bytes:
    body = f"<Error><Code>{ERRORS[status]}</Code><Message>injected</Message></Error>".encode()
    return f"HTTP/1.1 {status} X\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _message(
    reader: asyncio.StreamReader, answers: str | None = None, client: asyncio.StreamWriter | None = None
) -> tuple[bytes, bytes]:
    """Head and body of a request, or of the answer to a request with the method `answers`."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(None, 2)[1]) if answers else 0
        if status != 100:
            break
    text = head.decode("latin1").lower()
    if client is not None and "expect: 100-continue" in text:
        client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        head = re.sub(rb"(?i)\r\nexpect:[^\r]*", b"", head)
    if answers == "HEAD" or status in (204, 304):
        return head, b""
    body = b""
    if "transfer-encoding: chunked" in text:
        while True:
            line = await reader.readline()
            size = int(line.split(b";")[0], 16)
            body += line + await reader.readexactly(size + 2)
            if size == 0:
                return head, body
    length = re.search(r"\r\ncontent-length:\s*(\d+)", text)
    return head, await reader.readexactly(int(length[1])) if length else b""
