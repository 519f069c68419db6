"""A queue that is right by construction, in virtual time: a source of long legal histories.

Each command takes effect at one instant between its `t0` and `t1`; connections break, the server
restarts, workers fall silent. Only the checker's tests use it: what it produces must never be flagged,
unless one of its `faults` is switched on.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.prove.events import Event

RESERVE = 60.0
RETRIES = 5
_DELAY_MAX = 0.05


@dataclass(slots=True)
class _Held:
    jid: str
    holder: str
    until: float


@dataclass
class ModelServer:
    """One queue `q` with Faktory's leases. `faults` may hold lose, duplicate, no_fence, lifo, forget_ack."""

    rng: Random
    faults: frozenset[str] = frozenset()
    now: float = 0.0
    events: list[Event] = field(default_factory=list)
    ready: deque[str] = field(default_factory=deque)
    leases: dict[str, _Held] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    _agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _steps: int = 0
    _down_until: float = -1.0
    _epoch: int = 0

    # -- virtual time ----------------------------------------------------------------------

    def later(self, delay: float, action: Callable[[], None]) -> None:
        self._steps += 1
        heapq.heappush(self._agenda, (self.now + delay, self._steps, action))

    def run(self) -> list[Event]:
        while self._agenda:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        return self.events

    def say(self, event: Event, effect: Callable[[Event], None], then: Callable[[], None]) -> None:
        """Carry a command to the server and its answer back, or lose either on the way."""
        event.t0, sent_in = self.now, self._epoch
        event.proto = "faktory"

        def arrive() -> None:
            if self._epoch == sent_in and self.now > self._down_until:
                effect(event)
            else:
                event.out = "maybe"
            self.later(self.rng.uniform(0, _DELAY_MAX), answer)

        def answer() -> None:
            if self._epoch != sent_in:
                event.out = "maybe"
                event.jid = "" if event.op == "fetch" else event.jid
            event.t1 = self.now
            self.events.append(event)
            then()

        self.later(self.rng.uniform(0, _DELAY_MAX), arrive)

    def restart(self) -> None:
        down = self.rng.uniform(0.1, 0.5)
        self._epoch += 1
        self._down_until = self.now + down
        self.events.append(Event("restart", t0=self.now, t1=self.now + down))

    # -- the queue -------------------------------------------------------------------------

    def on_push(self, event: Event) -> None:
        if "lose" in self.faults and self.rng.random() < 0.05:
            return
        self.failures[event.jid] = 0
        self.ready.append(event.jid)

    def on_fetch(self, event: Event) -> None:
        event.out = "ok" if self.ready else "no"
        if not self.ready:
            return
        jid = self.ready.pop() if "lifo" in self.faults else self.ready.popleft()
        event.jid, event.body, event.attempt = jid, f"body-{jid}", self.failures[jid]
        held = _Held(jid, event.holder, self.now + RESERVE)
        self.leases[jid] = held
        if "duplicate" in self.faults and self.rng.random() < 0.05:
            self.later(0.3, lambda: self.ready.append(jid))
        self.later(RESERVE, lambda: self._expire(held))

    def on_ack(self, event: Event) -> None:
        if self._mine(event) and not ("forget_ack" in self.faults and self.rng.random() < 0.1):
            self.leases.pop(event.jid, None)

    def on_fail(self, event: Event) -> None:
        if self._mine(event):
            self._fail(event.jid)
        else:
            event.out = "no"

    def _mine(self, event: Event) -> bool:
        held = self.leases.get(event.jid)
        return held is not None and ("no_fence" in self.faults or held.holder == event.holder)

    def _expire(self, held: _Held) -> None:
        if self.leases.get(held.jid) is held:
            self._fail(held.jid)

    def _fail(self, jid: str) -> None:
        del self.leases[jid]
        self.failures[jid] += 1
        if self.failures[jid] <= RETRIES:
            self.later(self.rng.uniform(1, 5), lambda: self.ready.append(jid))


@dataclass
class _Producer:
    server: ModelServer
    name: str
    left: int
    made: int = 0

    def step(self) -> None:
        if not self.left:
            return
        self.left -= 1
        self.made += 1
        jid = f"{self.name}-{self.made}"
        event = Event(
            "push", conn=self.name, jid=jid, queue="q", body=f"body-{jid}",
            reserve=RESERVE, retry=RETRIES,
        )  # fmt: skip
        server = self.server
        server.say(event, server.on_push, lambda: server.later(server.rng.uniform(0, 2), self.step))


@dataclass
class _Consumer:
    server: ModelServer
    name: str
    until: float
    lives: int = 0

    @property
    def conn(self) -> str:
        return f"{self.name}.{self.lives}"

    def step(self) -> None:
        server = self.server
        if server.now > self.until:
            return
        event = Event("fetch", conn=self.conn, queue="q")
        server.say(event, server.on_fetch, lambda: self._work(event))

    def _work(self, fetched: Event) -> None:
        server = self.server
        choice = server.rng.random()
        if fetched.out == "maybe" or choice < 0.01:
            server.events.append(Event("close", "faktory", self.conn, t0=server.now, t1=server.now))
            self.lives += 1
            server.later(0.5, self.step)
        elif fetched.out == "no":
            server.later(2.0, self.step)
        else:
            failing = choice < 0.2
            event = Event("fail" if failing else "ack", conn=self.conn, jid=fetched.jid)
            effect = server.on_fail if failing else server.on_ack
            pause = server.rng.choices((0.5, 30.0, 90.0), (60, 20, 20))[0] * server.rng.random()
            server.later(pause, lambda: server.say(event, effect, self.step))


def legal_history(seed: int, faults: frozenset[str] = frozenset(), jobs: int = 60) -> list[Event]:
    """A drained history of three producers, four consumers and a few restarts."""
    server = ModelServer(Random(seed), faults)
    for number in range(3):
        server.later(0, _Producer(server, f"p{number}", jobs).step)
    for number in range(4):
        server.later(0, _Consumer(server, f"c{number}", until=2_000).step)
    for _ in range(server.rng.randrange(4)):
        server.later(server.rng.uniform(1, 100), server.restart)
    return server.run()
