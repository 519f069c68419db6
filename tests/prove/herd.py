"""T30: fifty thousand jobs due at one second, and two thousand workers that come back at once.

The workers wait in FETCH when the server is killed and started again, a moment before the jobs are due; all of
them reconnect as soon as somebody listens. None of the jobs may come early or get lost, and the server's
event loop must keep turning: its own gauge says how late it was.
"""

from __future__ import annotations

import asyncio
import datetime
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

import uvloop

from tests.prove.looking import ask
from tests.prove.options import Options
from tests.support.faktory import Faktory, job
from tests.support.server import HOST, Server

NAME = "herd"
MUTANTS: tuple[str, ...] = ("no-slicing",)

_LAG_MAX_MS = 100.0
_EARLY_S = 0.001
_BATCH = 1_000
_KILLED_BEFORE_S = 1.5  # how long before the jobs are due the server is killed
_DRAIN_S = 60.0
_KNOCK_S = 0.05


class Worker(asyncio.Protocol):
    """One worker: HELLO, then FETCH and ACK for ever; it comes back whenever it is hung up on."""

    def __init__(self, herd: Herd, number: int) -> None:
        self.herd = herd
        self.wid = f"herd-{number:05}"
        self._unread = b""
        self._transport: asyncio.Transport | None = None
        self._greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._unread = b""
        self._greeted = False

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (reply := self._take()) is not None:
            self._hear(reply)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self.herd.stopping:
            self.herd.reconnects += 1
            asyncio.get_running_loop().call_soon(self.knock)

    def knock(self) -> None:
        """Connect, and again a moment later if nobody listens."""
        self.herd.tasks.add(task := asyncio.ensure_future(self._connect()))
        task.add_done_callback(self.herd.tasks.discard)

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.herd.stopping:
            try:
                await loop.create_connection(lambda: self, HOST, self.herd.port)
            except OSError:
                await asyncio.sleep(_KNOCK_S)
            else:
                return

    def _take(self) -> bytes | None:
        """The next reply: a whole line, or the body of a bulk."""
        line, found, rest = self._unread.partition(b"\r\n")
        if not found:
            return None
        if line.startswith(b"$") and line != b"$-1":
            size = int(line[1:])
            if len(rest) < size + 2:
                return None
            line, rest = rest[:size], rest[size + 2 :]
        self._unread = rest
        return line

    def _hear(self, reply: bytes) -> None:
        if reply.startswith(b"+HI"):
            self._say(
                b'HELLO {"v":2,"wid":"%b","pid":1,"hostname":"h","labels":[]}' % self.wid.encode()
            )
        elif reply.startswith(b"{"):
            jid = reply.split(b'"jid":"')[1].split(b'"')[0]
            self.herd.delivered(jid)
            self._say(b'ACK {"jid":"%b"}\r\nFETCH herd' % jid)
        elif reply == b"$-1" or not self._greeted:
            self._greeted = True
            self._say(b"FETCH herd")
        elif reply.startswith(b"-"):
            self.herd.errors[reply] += 1

    def _say(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(line + b"\r\n")


class Herd:
    """All workers, in one event loop."""

    def __init__(self, port: int, size: int) -> None:
        self.port = port
        self.due_at = 0.0
        self.stopping = False
        self.reconnects = 0
        self.early = 0
        self.first_at = 0.0
        self.errors: Counter[bytes] = Counter()
        self.jids: Counter[bytes] = Counter()
        self.tasks: set[asyncio.Future[None]] = set()
        self.workers = [Worker(self, number) for number in range(size)]

    def delivered(self, jid: bytes) -> None:
        now = time.time()
        self.first_at = self.first_at or now
        self.early += now < self.due_at - _EARLY_S
        self.jids[jid] += 1

    async def until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Wait for something to be so; False if it never was."""
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    def leave(self) -> None:
        self.stopping = True
        for worker in self.workers:
            worker.leave()


def _connected(server: Server) -> int:
    count: int = ask(server, "server.status")["connections"]
    return count


async def _stampede(server: Server, herd: Herd, due: int) -> float:
    """Push, kill, come back, drain; how long the drain took."""
    loop = asyncio.get_running_loop()
    for worker in herd.workers:
        worker.knock()
    size = len(herd.workers)
    herd.due_at = await loop.run_in_executor(None, _push_ahead, server, due)
    assert await herd.until(lambda: _connected(server) >= size, 30.0), "the herd did not come"
    await asyncio.sleep(max(0.0, herd.due_at - time.time() - _KILLED_BEFORE_S))
    await loop.run_in_executor(None, server.restart)
    done = await herd.until(lambda: len(herd.jids) >= due, _DRAIN_S)
    drained = time.time() - herd.due_at
    if done:
        # The last words are on their way: whoever is hung up on in ACK has not finished.
        await herd.until(lambda: _left(server) == 0, 10.0)
    return drained


def _push_ahead(server: Server, due: int) -> float:
    """Push all jobs for one second, some seconds ahead; when that is."""
    ahead_s = 4.0 + due / 5_000
    due_at = float(int(time.time() + ahead_s) + 1)
    at = datetime.datetime.fromtimestamp(due_at, datetime.UTC).isoformat()
    with Faktory(server.port, timeout=30.0) as client:
        client.hello()
        for start in range(0, due, _BATCH):
            refused = client.push_many(
                job(f"herd-{number:07}", number, queue="herd", at=at)
                for number in range(start, min(start + _BATCH, due))
            )
            assert not refused, refused
    assert time.time() < due_at - _KILLED_BEFORE_S, "this machine cannot push that fast"
    return due_at


def _left(server: Server) -> int:
    queues = ask(server, "queues.list")["queues"]
    return sum(
        queue[where] for queue in queues for where in ("ready", "leased", "scheduled", "retrying")
    )


def run(options: Options) -> bool:
    due = options.number("due", 50_000, short=12_000)
    size = options.number("reconnect", 2_000, short=800)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="franca-herd-") as scratch:
        server = Server(Path(scratch) / "data", argv_prefix=options.argv_prefix)
        with server:
            herd = Herd(server.port, size)

            async def go() -> tuple[float, int, float]:
                drain_s = await _stampede(server, herd, due)
                lag_ms: float = ask(server, "server.status")["loop_lag_p99_ms"]
                left = _left(server)
                herd.leave()
                return drain_s, left, lag_ms

            # The faster the herd runs, the less of this machine it takes from the server.
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                drain_s, left, lag_ms = runner.run(go())
    lost = due - len(herd.jids) + left
    twice = sum(herd.jids.values()) - len(herd.jids)
    print(
        f"T30 {NAME}: loop_lag_p99_ms={lag_ms:.1f} early={herd.early} lost={lost} twice={twice}"
        f" due={due} reconnects={herd.reconnects} first_after_s={herd.first_at - herd.due_at:.2f}"
        f" drain_s={drain_s:.1f} errors={sum(herd.errors.values())} seconds={time.monotonic() - began:.0f}"
    )
    came_back = herd.reconnects >= size
    return lag_ms <= _LAG_MAX_MS and not (herd.early or lost or twice or herd.errors) and came_back
