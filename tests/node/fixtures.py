"""A node without sockets or disks: peers whose words a test says, a store that waits to be told.

The protocol has one word per line: `push X` and `take` need the disk, `same` says that it does
though nothing changed, `ping` needs nothing, `brief X` is a job that needs no disk, `bulk X` is
answered in several pieces, `end` hangs up.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from franca.core.broker import Broker
from franca.core.events import Event, Granted
from franca.core.limits import Limits
from franca.core.model import Demand, Millis, NewJob, Policy, Session
from franca.engine.engine import Engine
from franca.node.clock import SystemClock
from franca.node.connection import Connection
from franca.node.node import Node
from franca.node.operators import Operators
from franca.node.writer import Disk
from franca.protocols.conversation import Link
from franca.store.memory import MemoryStore
from franca.store.port import StoreError
from tests.engine.fixtures import Echo, EchoService
from tests.support.scoped import Scoped

PATIENCE_S = 5.0
BROKEN = StoreError("SQLITE_IOERR_FSYNC")


class SlowStore(MemoryStore):
    """Each commit and each tidying ends when a test says so, well or with an error."""

    instant = False

    def __init__(self) -> None:
        super().__init__()
        self.entered: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.verdicts: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self.write_error: Exception | None = None
        self.untidy = False

    def write(self, changes: Any, wants: Any) -> Any:
        if self.write_error is not None:
            raise self.write_error
        return super().write(changes, wants)

    def commit(self) -> None:
        self._wait("commit")

    def wants_tidying(self) -> bool:
        return self.untidy

    def tidy(self) -> None:
        self._wait("tidy")

    def _wait(self, what: str) -> None:
        self.entered.put(what)
        verdict = self.verdicts.get()
        if verdict is not None:
            raise verdict


class NodeConversation(Echo):
    """One line, one word."""

    def on_message(self, message: tuple[bytes, ...], now: Millis) -> None:
        word, _, rest = (part.decode() for part in message)
        getattr(self, f"_{word}")(rest, now)

    def _push(self, body: str, now: Millis) -> None:
        self.broker.submit(NewJob("q", "k", body.encode(), Policy()), now)
        self.link.write_after_commit(f"pushed {body};".encode())

    def _take(self, _: str, now: Millis) -> None:
        answer = self.broker.demand(Demand(self.session, ("q",)), now)
        if isinstance(answer, Granted):
            self.link.write_after_commit(b"job " + answer.job.body + b";")

    def _same(self, _: str, now: Millis) -> None:
        self.link.write_after_commit(b"same;")

    def _ping(self, _: str, now: Millis) -> None:
        self.link.write(b"pong;")

    def _brief(self, body: str, now: Millis) -> None:
        self.broker.submit(NewJob("brief", "k", body.encode(), Policy(durable=False)), now)
        self.link.write(f"took {body};".encode())

    def _bulk(self, body: str, now: Millis) -> None:
        self.link.write_pieces((b"bulk ", body.encode(), b";"))

    def _end(self, _: str, now: Millis) -> None:
        self.link.close()

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        if isinstance(event, Granted):
            self.link.write_after_commit(b"job " + event.job.body + b";")


class NodeService(EchoService):
    name = "talk"
    refusal = b"too many;"
    knows_everybody = True

    def open(self, link: Link, now: Millis) -> NodeConversation:
        link.known = self.knows_everybody
        return NodeConversation(self, link)


class Wire(asyncio.Transport):
    """What a peer hears; it may be dead without anybody having noticed. It takes `room` bytes."""

    connection: Connection

    def __init__(self) -> None:
        super().__init__()
        self.heard = b""
        self.writes: list[bytes] = []
        self.closed = ""
        self.dead = False
        self.reading = True
        self.room = 1 << 60
        self.unsent = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self.dead:
            raise RuntimeError("unable to perform operation; the handler is closed")
        if not self.closed:
            was_stuffed = bool(self.unsent)
            for data in list_of_data:
                self.writes.append(bytes(data))
                self.unsent += self.writes[-1]
            self._move()
            if self.unsent and not was_stuffed:
                self.connection.pause_writing()

    def take(self, count: int = 1 << 60) -> None:
        """The peer reads so many bytes more."""
        self.room += count
        was_stuffed = bool(self.unsent)
        self._move()
        if was_stuffed and not self.unsent:
            self.connection.resume_writing()

    def _move(self) -> None:
        sent, self.unsent = self.unsent[: self.room], self.unsent[self.room :]
        self.room -= len(sent)
        self.heard += sent

    def close(self) -> None:
        self.closed = self.closed or "closed"

    def abort(self) -> None:
        self.closed = "aborted"

    def is_closing(self) -> bool:
        return bool(self.closed)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)


class Guest:
    """A peer: says words, hears answers, goes away."""

    def __init__(self, fixture: NodeFixture) -> None:
        self._fixture = fixture
        self.wire = Wire()
        self.connection = self.wire.connection = Connection(fixture.node, "talk")
        self.connection.connection_made(self.wire)

    @property
    def conversation(self) -> NodeConversation:
        conversation = self.connection.link.conversation
        assert isinstance(conversation, NodeConversation)
        return conversation

    @property
    def heard(self) -> str:
        return self.wire.heard.decode()

    def says(self, *words: str) -> None:
        self.connection.data_received("".join(f"{word}\n" for word in words).encode())

    def vanishes(self) -> None:
        self.wire.dead = True
        self.connection.connection_lost(None)

    async def hears(self, words: str) -> None:
        """Wait until exactly this has been heard, all in all."""
        await self._fixture.until(lambda: len(self.heard) >= len(words))
        assert self.heard == words

    async def asks(self, *words: str, hears: str) -> None:
        """Say words, and wait until exactly this has been heard, all in all."""
        self.says(*words)
        await self.hears(hears)


class NodeFixture(Scoped):
    """One node with its store, which a test may leave in the middle. A `quick` disk needs no thread."""

    def __init__(
        self, store: MemoryStore | None = None, *, quick: bool = False, **limits: int
    ) -> None:
        self.store = store = store or SlowStore()
        bounds = Limits(**limits)
        self.broker = Broker(bounds, Random(1))
        self.broker.restore_at(store.open(), 1)
        self.service = NodeService(self.broker, bounds)
        self.engine = Engine(self.broker, {"talk": self.service}, bounds)
        self.failures: list[BaseException] = []
        self.node = Node(
            self.engine, store, SystemClock(), boot="boot", on_failure=self.failures.append
        )
        self.operators = Operators()
        self.operators.node = self.node
        if not quick:
            # As if the disk had been slow before: the writer thread does the waiting.
            self.node.disk = Disk(slow_until=1 << 60)

    def close(self) -> None:
        if isinstance(self.store, SlowStore):
            self.store.untidy = False
            for _ in range(10):
                self.store.verdicts.put(None)
        self.node.close()

    def guest(self) -> Guest:
        return Guest(self)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop go on until something is so."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while not condition():
            assert loop.time() < deadline, "it never happened"
            await asyncio.sleep(0)

    async def turns(self, count: int = 3) -> None:
        """Let so many turns of the node pass: enough for everything that can be said at once."""
        for _ in range(count):
            self.node.soon()
            await asyncio.sleep(0)

    async def reaches(self, what: str) -> None:
        """Wait until the store is in the middle of a commit, or of tidying up."""
        assert isinstance(self.store, SlowStore)
        assert await asyncio.to_thread(self.store.entered.get, timeout=PATIENCE_S) == what

    async def writer(self, *words: str) -> Guest:
        """A guest that said this; the store is in the middle of the commit that it needs."""
        guest = self.guest()
        guest.says(*words)
        await self.reaches("commit")
        return guest

    async def commits(self) -> None:
        """Let the store begin a commit, and end it well."""
        await self.reaches("commit")
        await self.ends()

    async def ends(self, error: Exception | None = None) -> None:
        """Let what the store is in the middle of end, and the node hear of it."""
        assert isinstance(self.store, SlowStore)
        self.store.verdicts.put(error)
        if error is not None:
            await self.until(lambda: bool(self.failures))
