"""A load of producers and consumers that outlives the server, and writes down all it sees.

Each actor is a thread with one connection at a time. When the connection breaks, what was under way
becomes `maybe`, and the actor comes back as soon as somebody listens again. Nothing here knows when or how the
server will fail, nor how any protocol is spoken: that is in the clients of `tests/support`. All actors share one
queue, so that a job may be run by a worker of any protocol.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from tests.prove import bodies
from tests.prove.events import Event, Notes
from tests.support import peer as said
from tests.support.faktory import Faktory
from tests.support.peer import Answer, Grant, Offer, Peer, Wired
from tests.support.protocols import PEERS

BROKEN = (OSError, ValueError)  # a connection that ended, or that ended in the middle of a reply
KNOCK_S = 0.01
TIMEOUT_S = 15.0
NAP_S = 1.0
"""How long a worker waits for a job before it looks up."""
PATIENCE_S = 30.0
"""How long a client waits for a result before it complains."""
BEAT_S = 2.0
PLENTY = 200
CHANCE_OF_TROUBLE = 0.01


class Plan(msgspec.Struct):
    """What the load should be like: how many of each kind in each protocol that has a port."""

    ports: dict[str, int]
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
    """All actors together: start, disturb the server, drain, stop, read `events`."""

    plan: Plan
    draining: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    noted: list[Event] = field(default_factory=list)  # by the harness: restarts
    measured: int | None = None  # the backlog, where others than our own consumers work on it
    complaints: list[str] = field(default_factory=list)  # what no history can tell
    producers: list[Actor] = field(default_factory=list)
    consumers: list[Actor] = field(default_factory=list)
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
            self.producers += [Producer(self, protocol, n, rng) for n in range(plan.producers)]
            self.consumers += [Consumer(self, protocol, n, rng) for n in range(plan.consumers)]

    def stop(self) -> None:
        """Let every actor finish its sentence; `RuntimeError` if one died of anything but the server."""
        self.draining.set()
        self.stopping.set()
        for actor in self.actors:
            actor.thread.join()
        for actor in self.actors:
            if actor.error is not None:
                raise RuntimeError(f"{actor.name} failed") from actor.error

    @contextmanager
    def restarting(self) -> Iterator[None]:
        """Note that the server was restarted meanwhile."""
        before = time.monotonic()
        yield
        self.noted.append(Event("restart", t0=before, t1=time.monotonic()))

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
    def actors(self) -> list[Actor]:
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


class Actor(Notes, ABC):
    """A thread with a name, one connection at a time, and a diary."""

    def __init__(self, load: Load, protocol: str, name: str, rng: Random) -> None:
        super().__init__(time.monotonic, [])
        self.load = load
        self.protocol = protocol
        self.name = f"{protocol}-{name}"
        self.rng = Random(rng.random())
        self.kind = PEERS[protocol]
        self.behaviour = self.kind.behaviour
        self.habits = protocol
        self.done = 0  # jobs accepted, or jobs finished
        self.error: BaseException | None = None
        self.broken: list[Exception] = []  # why each connection ended that did not end by itself
        self.thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        self._lives = 0
        self.conn = f"{self.name}.0"

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
                self.break_off()
                self.gone()
                now = time.monotonic()
                self.events.append(Event("close", self.protocol, self.conn, t0=last_open, t1=now))
                self._lives += 1
                self.conn = f"{self.name}.{self._lives}"

    def connect(self) -> Wired:
        """A new connection."""
        port, timeout = self.load.plan.ports[self.protocol], self.load.plan.timeout_s
        return Wired(self.kind, port, self.rng, timeout=timeout, **self.who())

    def who(self) -> dict[str, Any]:
        """What the peer is told of itself."""
        return {}

    def greet(self, client: Wired) -> None:
        """There is a new connection."""

    @abstractmethod
    def step(self, client: Wired) -> bool:
        """Do the next thing; False when there is nothing more to do on this connection."""

    @abstractmethod
    def on(self, answer: Answer) -> None:
        """The server said something."""

    def gone(self) -> None:
        """The connection was lost."""

    def hear(self, client: Wired, seconds: float | None = None) -> None:
        for answer in client.hear(seconds):
            self.on(answer)

    def has_trouble(self) -> bool:
        return self.load.is_rough and self.rng.random() < CHANCE_OF_TROUBLE


class Producer(Actor):
    """Submits jobs as long as the backlog is small: one by one, many at once, in a batch, or to wait for the end.

    Each keeps to its own way. Some of what was not answered is said again; of those who waited, nothing.
    """

    def __init__(self, load: Load, protocol: str, number: int, rng: Random) -> None:
        super().__init__(load, protocol, f"p{number}", rng)
        ways = self.behaviour.ways
        self._way, self._variant = ways[number % len(ways)]
        self._peer: Peer | None = None
        self._made = 0
        self._unknown: list[Offer] = []
        self._pushes: dict[Offer, Event] = {}
        self._waiting: dict[Offer, Event] = {}

    def who(self) -> dict[str, Any]:
        return {"variant": self._variant, "peer": self._peer}

    def greet(self, client: Wired) -> None:
        if client.peer.lasts:
            self._peer = client.peer
            for offer in client.peer.unanswered():
                self._begin_push(offer)  # it was said again

    def step(self, client: Wired) -> bool:
        if self.load.draining.is_set():
            return False
        if self.load.has_enough(self.done):
            time.sleep(KNOCK_S)
            return True
        if self._way == "wait":
            self._submit_and_wait(client)
        else:
            self._submit(client)
        return True

    def _submit(self, client: Wired) -> None:
        counts = {"one": (1,), "many": (1, 2, 5, 15, 30), "batch": range(2, 100)}
        offers = [self._next() for _ in range(self.rng.choice(counts[self._way]))]
        for offer in offers:
            self._begin_push(offer)
        if self._way == "batch":
            client.peer.submit_batch(*offers)
        else:
            client.peer.submit(*offers)
        while self._pushes:
            self.hear(client)

    def _submit_and_wait(self, client: Wired) -> None:
        """Wait for jobs of one's own, or join one that was submitted without waiting for it."""
        for _ in range(self.rng.choice(self.behaviour.waits_at_once)):
            offer = self._next()
            if self.behaviour.joins and self.rng.random() < 0.3:
                offer.unique, offer.prio = offer.jid, 1
                self._begin_push(offer)
                client.peer.submit(offer)
                offer = replace(offer)
            offer.waits, offer.volatile = True, self.behaviour.volatile_waits
            offer.retry = None if offer.volatile else offer.retry
            self._begin_push(offer)
            client.peer.submit(offer)
        deadline = time.monotonic() + PATIENCE_S
        while self._pushes or self._waiting:
            try:
                self.hear(client, PATIENCE_S)
            except TimeoutError:
                if time.monotonic() > deadline:
                    waits = [offer.jid for offer in (*self._pushes, *self._waiting)]
                    self.load.complaints.append(f"{self.conn} waits for {waits[:3]} for ever")
                raise

    def _next(self) -> Offer:
        """One that may not have come before, or a new one."""
        if self._unknown:
            return self._unknown.pop()
        self._made += 1
        jid = bodies.name_of(self.name, self._made)
        body = bodies.as_json(bodies.args_for(jid, self.rng))
        if self.behaviour.takes_bytes and not self._variant:
            body = bodies.bytes_for(jid, self.rng)
        offer = Offer(jid, self.load.plan.queue, body, retry=self.behaviour.retry)
        if self.behaviour.has_reserve:
            offer.reserve = self.load.plan.reserve
        if self.behaviour.has_custom:
            offer.custom = custom_of(jid)
        if self.kind.lasts:
            offer.unique = jid
        if self._way == "one" and self.behaviour.joins:
            offer.prio = self.rng.choices((0, 1, -1), (8, 1, 1))[0]
        return offer

    def _begin_push(self, offer: Offer) -> None:
        digest = bodies.told(offer.body)[1]
        self._pushes[offer] = self.begin("push", offer.jid, body=digest, **offer.fields())

    def on(self, answer: Answer) -> None:
        match answer:
            case said.Accepted(offer, _):
                self._accepted(offer)
                if offer.waits:
                    self._waiting[offer] = self.begin("result", offer.jid)
            case said.Refused(offer, _) if offer is not None:
                self.end(self._pushes.pop(offer), "no")
            case said.Part(offer, data):
                self.end(self.begin("data", offer.jid, seq=int(data)))
            case said.Result(offer, data, failed):
                if offer in self._pushes:
                    self._accepted(offer)
                    self._waiting[offer] = self.begin("result", offer.jid)
                self.end(self._waiting.pop(offer))
                right = (bodies.told(offer.body)[1].encode(), b"true")
                if data and not failed and not any(word in data for word in right):
                    self.load.complaints.append(f"{self.conn}: {offer.jid} ended with {answer}")
            case _:
                self.load.complaints.append(f"{self.conn} heard {answer}")

    def _accepted(self, offer: Offer) -> None:
        self.done += 1
        self.end(self._pushes.pop(offer))

    def gone(self) -> None:
        if self._peer is not None:
            # NNG asks again by itself; whoever closes its socket does not.
            self._peer.give_up(offer for offer in self._pushes if self.rng.random() < 0.3)
        again = [offer for offer in self._pushes if not offer.waits]
        self._unknown += [offer for offer in again if self.rng.random() < 0.3]
        self._pushes.clear()
        self._waiting.clear()


def custom_of(jid: str) -> object:
    """What else an odd job carries, for workers of its own protocol."""
    return {"of": jid} if bodies.is_odd(jid) else None


class Consumer(Actor):
    """Takes a job, or a few at once, and finishes them; sometimes it fails one, forgets it, or dies with all."""

    def __init__(self, load: Load, protocol: str, number: int, rng: Random) -> None:
        super().__init__(load, protocol, f"c{number}", rng)
        self.worker = f"worker-c{number}" if self.behaviour.named else ""
        consumers = self.behaviour.consumers
        self._variant = consumers[number % len(consumers)]
        self._held: list[tuple[Grant, Event]] = []
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._asking: deque[Event] = deque()
        self._reporting: dict[Grant, Event] = {}
        self._is_idle = self._is_resting = False
        self._beat_at = time.monotonic() + BEAT_S

    def who(self) -> dict[str, Any]:
        plan = self.load.plan
        queues = [plan.queue, *([plan.spare_queue] if self.behaviour.needs_spare else [])]
        return {"worker": self.worker, "variant": self._variant, "queues": [q for q in queues if q]}

    def greet(self, client: Wired) -> None:
        self.habits = client.peer.habits
        if client.peer.rests and self.rng.random() < 0.5:
            self._rest(client)  # many libraries rest first and wait to be woken

    def _rest(self, client: Wired) -> None:
        self._is_idle = False
        self._is_resting = client.peer.rests
        client.peer.rest()

    def step(self, client: Wired) -> bool:
        if self.behaviour.beat_ms and time.monotonic() > self._beat_at:
            self._beat_at = time.monotonic() + BEAT_S
            client.peer.beat()
        if self._held and not self._report(client):
            return False  # dies with all it holds
        if self.load.stopping.is_set():
            return False
        if not (self._asking or self._is_resting):
            self._ask(client)
        try:
            self.hear(client, NAP_S)
            while self._asking and self.behaviour.eager:
                self.hear(client)
        except TimeoutError:
            return True
        if self._is_idle and not (self._held or self._asking):
            self._rest(client)
        return True

    def _ask(self, client: Wired) -> None:
        # A request for work may block, and those behind it wait: many at once only where there is plenty.
        plenty = self.load.backlog > PLENTY and not self.load.draining.is_set()
        for _ in range(self.rng.choice((1, 4, 16)) if plenty and self.behaviour.eager else 1):
            self._asking.append(self.begin("fetch", queue=self.load.plan.queue))
            client.peer.take()

    def _report(self, client: Wired) -> bool:
        """Say what came of all that was taken, and wait until that was heard."""
        if not self.worker and self.has_trouble():
            return False
        if self.load.plan.work_s:
            time.sleep(self.rng.uniform(0, self.load.plan.work_s))
        held, self._held = self._held, []
        for grant, fetched in held:
            fails = "fail" in self.behaviour.words and self.has_trouble()
            event = self.begin("fail" if fails else "ack", fetched.jid)
            event.worker = grant.holder or self.worker
            self._reporting[grant] = event
            if not fails and self.rng.random() < 0.05:
                for number in range(3):
                    client.peer.part(grant, b"%d" % number)
            if client.peer.report_asks:
                self._asking.append(self.begin("fetch", queue=self.load.plan.queue))
            client.peer.report(grant, event.op, fetched.body.encode())
        while self._reporting and not client.peer.report_asks:
            self.hear(client)
        return True

    def on(self, answer: Answer) -> None:
        match answer:
            case said.Granted(grant):
                self._given(grant, self._asking.popleft())
            case said.Nothing(out):
                self._is_idle = True
                self.end(self._asking.popleft(), out)
            case said.Woken():
                self._is_resting = False
            case said.Done(Grant() as grant, out):
                self.done += out == "ok"
                self.end(self._reporting.pop(grant), out)
            case _:
                self.load.complaints.append(f"{self.conn} heard {answer}")

    def _given(self, grant: Grant, event: Event) -> None:
        event.jid, event.body = bodies.told(grant.body)
        event.reserve = grant.reserve
        event.worker = grant.holder or self.worker
        if event.jid.startswith(f"{self.protocol}-") and grant.attempt is not None:
            event.attempt = grant.attempt
            if grant.custom != custom_of(event.jid):
                event.body = f"custom {grant.custom}"
        self.end(event)
        is_forgotten = bool(self.worker) and self.load.is_rough and self.rng.random() < 0.002
        if not is_forgotten:
            self._held.append((grant, event))

    def gone(self) -> None:
        """Those who have a name may report again what may not have been heard."""
        self._held += [item for item in self._reporting.items() if self.rng.random() < 0.5]
        if not self.worker:
            self._held.clear()
        self._begin_anew()
