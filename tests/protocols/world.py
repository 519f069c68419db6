"""A world with one broker and its engine, in which time is a number: what all protocols share.

No sockets and no threads: bytes go into the engine and what links say comes out. Each protocol's
`puppet.py` adds its service and its ways to connect; what peers say and hear is the protocol's client
in `tests/support`, whose connection is a link here.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, TypeVar

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Demand, Job, Millis, NewJob, OnHangUp, Policy, Session, State
from franca.engine.engine import Engine
from franca.protocols.conversation import Link, Peer
from franca.protocols.service import Service
from franca.store.memory import MemoryStore
from tests.support.connection import taken

START: Millis = 1_790_000_000_000
"""2026-09-21T14:13:20Z, a Monday."""

P = TypeVar("P", bound="AnyPuppet")


class AnyWorld:
    """The server and everybody who speaks to it; `serve` must follow the beginning."""

    engine: Engine
    puppets: dict[Link, "AnyPuppet"]

    def __init__(
        self, limits: Limits | None = None, *, seed: int = 1, store: Any = None, now: Millis = START
    ) -> None:
        self.limits = limits or Limits()
        self.now = now
        self.store: MemoryStore = store or MemoryStore()
        self.stops = self._links = 0
        self.remember(seed)

    def remember(self, seed: int) -> None:
        """A new broker, which remembers what the store was told."""
        self.broker = Broker(self.limits, Random(seed))
        self.broker.restore_at(self.store.open(), self.now)

    def serve(self, services: Mapping[str, Service]) -> None:
        """A new engine, to which nobody is connected."""
        self.engine = Engine(self.broker, services, self.limits)
        self.puppets = {}

    def note_stop(self) -> None:
        """A peer told the server to stop."""
        self.stops += 1

    def open_link(self, protocol: str, peer: Peer, prefix: str = "l") -> Link:
        """A connection of somebody who has said nothing yet."""
        self._links += 1
        return self.engine.open_link(protocol, f"{prefix}{self._links}", peer, self.now)

    def add(self, puppet: P) -> P:
        """Let somebody take part; what the server says to a newcomer is there at once."""
        self.puppets[puppet.link] = puppet
        self.run()
        return puppet

    def run(self) -> None:
        """Turn until everything that can be said is said; commit and supply in between."""
        self.engine.deliver(self.now)
        for _ in range(100_000):
            self.engine.turn(self.now)
            self.commit()
            self.listen()
            if not (self.engine.has_input() or self.engine.with_output):
                assert not self.engine.unhandled, self.engine.notices
                return
        raise AssertionError("the server never comes to rest")

    def commit(self) -> None:
        """Write out what changed and bring what is wanted, until nothing is."""
        while self.broker.has_changes() or self.broker.wants:
            changes, wants = self.broker.drain(), self.broker.take_wants()
            for want, jobs in zip(wants, self.store.write(changes, wants), strict=True):
                self.engine.supplied(want, jobs, self.now)

    def listen(self) -> None:
        """Carry what the links said to the puppets, and hang up on those that were told to."""
        links = list(self.engine.with_output)
        self.engine.with_output.clear()
        for link in links:
            puppet = self.puppets[link]
            said = list(link.out)
            puppet.waited_for_commit |= link.after_commit
            link.forget_said()
            puppet.receive(said)
            if link.closing and not link.closed:
                self.engine.close_link(link, self.now, undelivered=False)

    def turn(self, *inputs: tuple["AnyPuppet", bytes]) -> None:
        """Let these say something, and one turn pass; what the server says stays on its links."""
        for puppet, data in inputs:
            self.engine.inputs.append((puppet.link, data))
        self.engine.turn(self.now)

    def turns(self) -> Iterator[None]:
        """One turn after the other until there is nothing to act on; between two, look at the links."""
        while self.engine.has_input():
            self.turn()
            yield
            self.listen()

    def share(self, link: Link, data: bytes = b"") -> bool:
        """Let the engine act on a turn's share of what one peer sent, even if it is held back.

        True if more is left.
        """
        engine = self.engine
        engine._unfinished.pop(link, None)
        if data:
            link.conversation.reader.feed(data)
        else:
            link.conversation.on_turn(self.now)
        engine._read_on(link, self.now)
        return link in engine._unfinished

    def pass_time(self, ms: int, *, step: int = 50) -> None:
        """Let time go by, in steps that a node would make."""
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + step, end)
            self.run()

    def stop(self) -> None:
        """The server is told to stop."""
        self.engine.stop(self.now)
        self.run()

    # -- those who speak another protocol ----------------------------------------------------------

    def foreign_job(
        self, queue: str, body: bytes = b"", media: str = "bytes", *, kind: str = "kind",
        name: str = "their-job", policy: Policy | None = None, **more: Any,
    ) -> Job:  # fmt: skip
        """A durable job of another protocol."""
        new = NewJob(queue, kind, body, policy or Policy(), name, media, **more)
        job = self.broker.submit(new, self.now)
        self.run()
        return job

    def stranger_on(self, queue: str) -> Session:
        """A worker of another protocol that has been given the next job of this queue."""
        session = self.broker.open_session("stranger", OnHangUp.RETURN, None)
        self.broker.demand(Demand(session, (queue,)), self.now)
        return session

    def cancel(self, *jobs: Job) -> None:
        """An operator ends these."""
        for job in jobs:
            self.broker.cancel(job, self.now)
        self.run()

    # -- jobs --------------------------------------------------------------------------------------

    def jobs(self, *states: State) -> list[Job]:
        """Every job that the store has in one of these states."""
        jobs = [*self.store.held.values(), *self.store.tail.values()]
        return [job for job in jobs if not states or job.state in states]

    def job(self) -> Job:
        """The only job there is."""
        (job,) = self.jobs()
        return job


class AnyPuppet:
    """A peer's connection that is a link of a world; a client of `tests/support` goes on top of it."""

    def __init__(self, world: Any, link: Link) -> None:
        self.world = world
        self.link = link
        self.unread = bytearray()
        self.aside: list[Any] = []
        self.waited_for_commit = False
        self.sent: list[int] = []

    @property
    def conversation(self) -> Any:
        """The server's side of the link; tests look into it."""
        return self.link.conversation

    @property
    def is_hung_up(self) -> bool:
        return self.link.closed

    def send(self, data: bytes) -> None:
        """Say something, and let the server act on it."""
        if not self.link.closed:
            self.world.engine.inputs.append((self.link, data))
        self.world.run()

    send_bytes = send

    def begin(self, *said: bytes, turns: int = 1) -> None:
        """Say these, and let the server act for so many turns only."""
        self.world.engine.inputs.append((self.link, b"".join(said)))
        for _ in range(turns):
            self.world.engine.turn(self.world.now)

    def fill(self) -> None:
        """What the server has not said by now it will not say before time passes."""
        raise BlockingIOError("nothing more was said")

    def receive(self, said: list[bytes]) -> None:
        """Take what the server said, in the pieces in which it did."""
        self.unread += b"".join(said)
        self.sent.append(sum(map(len, said)))

    def bytes_heard(self) -> bytes:
        """All unread bytes, as they are."""
        return taken(self.unread, len(self.unread))

    def drain(self) -> None:
        """The peer takes what was said to it, after it did not for a while."""
        self.world.engine.go_on(self.link)
        self.world.run()

    def hang_up(self, *, undelivered: bool = False) -> None:
        """The peer is gone."""
        self.world.engine.close_link(self.link, self.world.now, undelivered=undelivered)
        self.world.run()
