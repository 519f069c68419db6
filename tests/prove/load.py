"""A load of producers and consumers that outlives the server, and writes down all it sees.

Each actor is a thread with one connection at a time. When the connection breaks, what was under way
becomes `maybe`, and the actor comes back as soon as somebody listens again. Nothing here knows when or how the
server will fail, nor how any protocol is spoken: that is in `peers/`. All actors share one queue, so that a
job may be run by a worker of any protocol.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from tests.prove import peers
from tests.prove.events import Event, Out
from tests.support.faktory import Faktory

BROKEN = (OSError, ValueError)  # a connection that ended, or that ended in the middle of a reply
KNOCK_S = 0.01
TIMEOUT_S = 15.0


@dataclass(slots=True)
class Plan:
    """What the load should be like: how many of each kind in each protocol that has a port."""

    ports: Mapping[str, int]
    seed: int
    queue: str = "prove"
    reserve: int = 60
    producers: int = 3
    consumers: int = 3
    backlog_max: int = 3_000
    work_s: float = 0.0  # how long a job takes at most
    calm: bool = False  # no worker fails a job, dies with it or forgets it
    pace: float = 0.0  # jobs that a producer offers in a second at most; 0: as many as it can
    timeout_s: float = TIMEOUT_S  # how long an answer may take that should come at once
    spare_queue: str = "default"  # where EventMQ's requests go as long as nobody serves the queue


@dataclass
class Load:
    """All actors together: start, let the server suffer, drain, stop, read `events`."""

    plan: Plan
    draining: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    noted: list[Event] = field(default_factory=list)  # by the harness: restarts
    measured: int | None = None  # the backlog, where others than our own consumers work on it
    complaints: list[str] = field(default_factory=list)  # what no history can tell
    producers: list[Actor[Any]] = field(default_factory=list)
    consumers: list[Actor[Any]] = field(default_factory=list)
    began: float = 0.0

    def start(self) -> None:
        """All at once."""
        self.hire()
        for actor in self.actors:
            actor.thread.start()

    def hire(self) -> None:
        """Have the actors, and start none."""
        plan = self.plan
        rng = Random(plan.seed)
        self.began = time.monotonic()
        for protocol in plan.ports:
            module = peers.of(protocol)
            self.producers += module.producers(self, plan.producers, rng)
            self.consumers += module.consumers(self, plan.consumers, rng)

    def stop(self) -> None:
        """Let every actor finish its sentence; `RuntimeError` if one died of anything but the server."""
        self.draining.set()
        self.stopping.set()
        for actor in self.actors:
            actor.thread.join()
        for actor in self.actors:
            if actor.error is not None:
                raise RuntimeError(f"{actor.name} failed") from actor.error

    def complain(self, what: str) -> None:
        """An actor saw something that it should not have seen."""
        self.complaints.append(what)

    def drain(self, timeout: float) -> bool:
        """Push no more, and consume until the server says that it has nothing left."""
        self.draining.set()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with suppress(*BROKEN), Faktory(self.plan.ports["faktory"]).hello() as client:
                while time.monotonic() < deadline:
                    if left_in(client.info()) == 0:
                        return True
                    time.sleep(0.2)
            time.sleep(KNOCK_S)
        return False

    @property
    def actors(self) -> list[Actor[Any]]:
        return [*self.producers, *self.consumers]

    @property
    def backlog(self) -> int:
        if self.measured is not None:
            return self.measured
        pushed = sum(actor.done for actor in self.producers)
        return pushed - sum(actor.done for actor in self.consumers)

    @property
    def is_rough(self) -> bool:
        """Whether workers may fail a job, die with it or forget it now."""
        return not (self.plan.calm or self.draining.is_set())

    def has_enough(self, done: int) -> bool:
        """Whether a producer that has offered so many should wait: the backlog is long, or it is early."""
        plan = self.plan
        early = plan.pace > 0 and done > plan.pace * (time.monotonic() - self.began)
        return early or self.backlog > plan.backlog_max

    @property
    def events(self) -> list[Event]:
        return [event for actor in self.actors for event in actor.events] + self.noted


def left_in(info: dict[str, Any]) -> int:
    """How many jobs a server's INFO says are waiting, scheduled, to be retried or running."""
    facts = info["faktory"]
    tasks = facts["tasks"]
    sizes: list[int] = [tasks[name]["size"] for name in ("Scheduled", "Retries", "Busy")]
    return sum(sizes, sum(facts["queues"].values(), 0))


class Closable(Protocol):
    """A connection, as far as an actor must know it."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Actor(ABC, Generic[C]):
    """A thread with a name, one connection at a time, and a diary."""

    protocol: str
    habits = ""  # those that a history must know, where they are not its protocol's
    worker = ""  # the name under which it holds jobs, where they outlive the connection

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        self.load = load
        self.name = f"{self.protocol}-{name}"
        self.rng = rng
        self.events: list[Event] = []
        self.done = 0  # jobs accepted, or jobs finished
        self.error: BaseException | None = None
        self.broken: list[Exception] = []  # why each connection ended that did not end by itself
        self.begun: Callable[[Event], None] | None = None  # hears of each event before it is over
        self.thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        self._lives = 0
        self._under_way: dict[int, Event] = {}

    @property
    def conn(self) -> str:
        return f"{self.name}.{self._lives}"

    @property
    def port(self) -> int:
        return self.load.plan.ports[self.protocol]

    # -- the diary -------------------------------------------------------------------------

    def begin(self, op: Any, jid: str = "", **fields: Any) -> Event:
        """Something is about to be said; it is written down when `end` is told what came of it."""
        now = time.monotonic()
        known_as = self.habits or self.protocol
        event = Event(op, known_as, self.conn, jid, now, now, worker=self.worker, **fields)
        self._under_way[id(event)] = event
        if self.begun is not None:
            self.begun(event)
        return event

    def end(self, event: Event, out: Out = "ok") -> None:
        """Its answer is here."""
        del self._under_way[id(event)]
        event.t1, event.out = time.monotonic(), out
        self.events.append(event)

    def _broken(self) -> None:
        """What is still under way will never be answered."""
        now = time.monotonic()
        under_way, self._under_way = self._under_way, {}
        for event in under_way.values():
            event.t1, event.out = now, "maybe"
            self.events.append(event)
            self.lost(event)

    def toil(self) -> None:
        """Do what a job asks for."""
        if self.load.plan.work_s:
            time.sleep(self.rng.uniform(0, self.load.plan.work_s))

    # -- one life after the other ----------------------------------------------------------

    def run(self) -> None:
        try:
            while not self.load.stopping.is_set():
                try:
                    self._live()
                except BROKEN as error:
                    self.broken.append(error)
                time.sleep(KNOCK_S)
        except BaseException as error:
            self.error = error

    def _live(self) -> None:
        with closing(self.connect()) as client:
            self.greet(client)
            last_open = time.monotonic()
            try:
                while self.step(client):
                    last_open = time.monotonic()
            finally:
                self._broken()
                now = time.monotonic()
                self.events.append(Event("close", self.protocol, self.conn, t0=last_open, t1=now))
                self._lives += 1

    # -- what a protocol says --------------------------------------------------------------

    @abstractmethod
    def connect(self) -> C:
        """A new connection."""

    def greet(self, client: C) -> None:
        """Say who one is."""

    @abstractmethod
    def step(self, client: C) -> bool:
        """Do the next thing; False when there is nothing more to do on this connection."""

    def lost(self, event: Event) -> None:
        """An answer will never come."""
