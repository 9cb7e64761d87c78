"""A proxy that loses, delays and invents answers, between a client and a server that both speak HTTP/1.1.

Every request takes the same steps, of which a `Fault` changes some: the client is cut off (`abandon`), time passes
(`delay`), the request is forwarded (unless `forward` is off), and then the client gets the server's answer, another
`status`, or a reset connection. Once a request is read, nothing the client does stops its effect: that is how an effect
arrives after the client gave up.

A connection carries one request. The path and all headers but `Connection` are forwarded as they are, `Host` included,
so signatures stay valid. Rules come first, in the order they were made; then chance, by seed; then the request passes.
"""

import asyncio
import contextlib
import random
import re
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

from tests.servers.server import Server


@dataclass(frozen=True)
class Fault:
    """What is done to one request."""

    name: str
    abandon: bool = False
    delay: float = 0.0
    forward: bool = True
    status: int | None = None
    reset: bool = False

    def after(self, seconds: float) -> "Fault":
        """The same fault, with the effect that much later."""
        return replace(self, delay=seconds)

    def answering(self, status: int) -> "Fault":
        """The same fault, with another status."""
        return replace(self, status=status)


PASS = Fault("pass")
REFUSE = Fault("refuse", forward=False, status=503)
"""An error is answered; nothing happened."""
LOSE_ANSWER = Fault("lose-answer", status=503)
"""It happened, but an error is answered."""
RESET_BEFORE = Fault("reset-before", forward=False, reset=True)
RESET_AFTER = Fault("reset-after", reset=True)
"""It happened, but the connection breaks before the answer."""
ABANDON = Fault("abandon", abandon=True)
"""The connection breaks at once; it happens nevertheless, later."""


@dataclass
class _Rule:
    fault: Fault
    method: str
    path: re.Pattern[str]
    left: int

    def matches(self, method: str, path: str) -> bool:
        return self.left > 0 and self.method in {"", method} and self.path.search(path) is not None


class FaultProxy:
    """A proxy in a thread of this process, controlled by its methods; any process may be its client."""

    def __init__(self, server: Server) -> None:
        self._upstream = server.port
        self._rules: list[_Rule] = []
        self._chance: tuple[random.Random, float, Sequence[Fault], str] | None = None
        self._seen: list[tuple[str, str, str]] = []
        self._at_work = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self.latency = 0.0
        """Seconds that every request takes longer."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self._listener = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.server = server.at(self._listener.sockets[0].getsockname()[1])

    def fail(self, fault: Fault, *, method: str = "", path: str = "", times: int = 1) -> None:
        """Do `fault` to the next `times` requests with this method whose path matches the pattern `path`."""
        with self._lock:
            self._rules.append(_Rule(fault, method, re.compile(path), times))

    def fail_by_chance(self, seed: int, probability: float, faults: Sequence[Fault], *, method: str = "") -> None:
        """Do one of `faults` to each request with this probability."""
        with self._lock:
            self._chance = (random.Random(seed), probability, faults, method)

    def heal(self) -> None:
        """From now on, let everything pass."""
        with self._lock:
            self._rules.clear()
            self._chance = None

    def seen(self, method: str = "", path: str = "") -> list[str]:
        """The names of what was done to each request with this method and a path that matches, in order."""
        with self._lock:
            return [fault for how, what, fault in self._seen if method in {"", how} and re.search(path, what)]

    def settle(self, timeout: float = 30.0) -> None:
        """Wait until every request that was read has had its effect."""
        until = time.monotonic() + timeout
        while self._at_work:
            if time.monotonic() > until:
                msg = f"{self._at_work} requests are still under way after {timeout} s"
                raise TimeoutError(msg)
            time.sleep(0.005)

    def close(self) -> None:
        """Stop at once; what is under way is cut off."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        for listening in self._listener.sockets:
            self._loop.remove_reader(listening.fileno())
        await asyncio.sleep(0.02)  # one that is being accepted when its server is closed, or cancelled, stays open
        self._listener.close()
        while others := set(self._tasks):
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=5)
        await asyncio.sleep(0.01)  # sockets are closed a turn of the loop after their connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)  # the loop itself would let go of it once the connection is reset
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            async with _closing(writer):
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head) or 0)
                self._at_work += 1
                try:
                    await self._serve(head, body, writer)
                finally:
                    self._at_work -= 1

    async def _serve(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        fault = self._choose(method, unquote(path))
        if fault.abandon:
            _reset(writer)
        await asyncio.sleep(self.latency + fault.delay)
        answer = await self._forward(head, body) if fault.forward else b""
        if fault.status is not None:
            answer = f"HTTP/1.1 {fault.status} Injected\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
        if fault.reset or not answer:
            _reset(writer)
        elif not fault.abandon:
            writer.write(answer)
            await writer.drain()

    def _choose(self, method: str, path: str) -> Fault:
        with self._lock:
            fault = PASS
            rule = next((rule for rule in self._rules if rule.matches(method, path)), None)
            if rule is not None:
                rule.left -= 1
                fault = rule.fault
            elif self._chance is not None:
                chance, probability, faults, only = self._chance
                if only in {"", method} and chance.random() < probability:
                    fault = chance.choice(faults)
            self._seen.append((method, path, fault.name))
            return fault

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        """The server's whole answer; nothing if it broke the connection."""
        head = re.sub(rb"(?im)^connection:.*\r\n", b"", head)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            async with _closing(writer):
                writer.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
                return await _read_answer(reader, bodiless=head.startswith(b"HEAD "))
        return b""


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):  # after a reset, some closings are never reported
                await writer.wait_closed()


def _length(head: bytes) -> int | None:
    found = re.search(rb"(?im)^content-length:\s*(\d+)", head)
    return int(found[1]) if found else None


async def _read_answer(reader: asyncio.StreamReader, *, bodiless: bool) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _length(head)
    if bodiless:
        return head
    return head + (await reader.read() if length is None else await reader.readexactly(length))


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection so that the client's system reports a reset, not an orderly end."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
