"""A load of producers and consumers that outlives the server, and writes down all it sees.

Each actor is a thread with one connection at a time. When the connection breaks, what was under way
becomes `maybe`, and the actor comes back as soon as somebody listens again. Nothing here knows when or how the
server will fail, nor how any protocol is spoken: that is in the clients of `tests/support`. All actors share one
queue, so that a job may be run by a worker of any protocol.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from tests.prove import actors
from tests.prove.events import Event
from tests.prove.harness import until
from tests.support import peer as answers
from tests.support.faktory import Faktory
from tests.support.peer import Answer, Grant, Offer, Wired

BROKEN = (OSError, ValueError)  # a connection that ended, or that ended in the middle of a reply
KNOCK_S = 0.01
TIMEOUT_S = 15.0
NAP_S = 1.0
"""How long a worker waits for a job before it looks up."""
PATIENCE_S = 30.0
"""How long a client waits for a result before it complains."""
BEAT_S = 2.0
PLENTY = 200


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

    def start(self, wait: Callable[[], object] = bool) -> None:
        """Start the consumers, wait, and start the producers."""
        plan = self.plan
        rng = Random(plan.seed)
        self.began = time.monotonic()
        for protocol in plan.ports:
            self.producers += [Producer(self, protocol, n, rng) for n in range(plan.producers)]
            self.consumers += [Consumer(self, protocol, n, rng) for n in range(plan.consumers)]
        for actor in self.consumers:
            actor.thread.start()
        wait()
        for actor in self.producers:
            actor.thread.start()

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

        def is_empty() -> bool:
            with suppress(*BROKEN), Faktory(self.plan.ports["faktory"]).hello() as client:
                return left_in(client.info()) == 0
            return False

        return until(is_empty, timeout, 0.2)

    @property
    def actors(self) -> list[Actor]:
        return [*self.producers, *self.consumers]

    @property
    def backlog(self) -> int:
        if self.measured is not None:
            return self.measured
        pushed = sum(actor.done for actor in self.producers)
        return pushed - sum(actor.done for actor in self.consumers)

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
    sizes = [facts["tasks"][name]["size"] for name in ("Scheduled", "Retries", "Busy")]
    return sum([*sizes, *facts["queues"].values()])


class Actor(actors.Actor):
    """A thread with one connection at a time."""

    def __init__(self, load: Load, protocol: str, name: str, rng: Random) -> None:
        super().__init__(time.monotonic, [], protocol, f"{protocol}-{name}", rng)
        self.load = load
        self.done = 0  # jobs accepted, or jobs finished
        self.error: BaseException | None = None
        self.broken: list[Exception] = []  # why each connection ended that did not end by itself
        self.thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        self._lives = 0

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
        with closing(self.connect()) as self.client:
            self.peer = self.client.peer
            self.conn = f"{self.name}.{self._lives}"
            self._lives += 1
            self.greet()
            last_open = time.monotonic()
            try:
                while self.step():
                    last_open = time.monotonic()
            finally:
                self.note_close(last_open)
                self.gone()

    def connect(self) -> Wired:
        """A new connection, for the same peer if that is one that lasts."""
        port, timeout = self.load.plan.ports[self.protocol], self.load.plan.timeout_s
        return Wired(self.peer_type, port, self.rng, timeout=timeout, **self.who())

    def greet(self) -> None:
        """There is a new connection."""

    @abstractmethod
    def step(self) -> bool:
        """Do the next thing; False when there is nothing more to do on this connection."""

    @abstractmethod
    def gone(self) -> None:
        """The connection was lost."""

    def hear(self, seconds: float | None = None) -> None:
        for answer in self.client.hear(seconds):
            self.on(answer)

    def complain(self, text: str) -> None:
        self.load.complaints.append(f"{self.conn}: {text}")

    def has_trouble(self, chance: float = 0.01) -> bool:
        """Whether to fail a job, die with it or forget it, where workers may."""
        load = self.load
        return not (load.plan.calm or load.draining.is_set()) and self.rng.random() < chance


class Producer(Actor, actors.Submitter):
    """Submits jobs as long as the backlog is small: one by one, many at once, in a batch, or to wait for the end.

    Each keeps to its own way. Some of what was not answered is said again; of those who waited, nothing.
    """

    def __init__(self, load: Load, protocol: str, number: int, rng: Random) -> None:
        super().__init__(load, protocol, f"p{number}", rng)
        self._way, self.variant = self.behaviour.ways[number % len(self.behaviour.ways)]

    def who(self) -> dict[str, Any]:
        lasting = self.peer if self.peer_type.lasts and self._lives else None
        return {**super().who(), "peer": lasting}

    def greet(self) -> None:
        for offer in self.peer.unanswered():
            self.begin_push(offer)  # it was said again

    def step(self) -> bool:
        if self.load.draining.is_set():
            return False
        if self.load.has_enough(self.done):
            time.sleep(KNOCK_S)
            return True
        if self._way == "wait":
            self._submit_and_wait()
        else:
            self._submit()
        return True

    def _submit(self) -> None:
        counts = {"one": (1,), "many": (1, 2, 5, 15, 30), "batch": range(2, 100)}
        offers = [self._next() for _ in range(self.rng.choice(counts[self._way]))]
        for offer in offers:
            self.begin_push(offer)
        (self.peer.submit_batch if self._way == "batch" else self.peer.submit)(*offers)
        while self._pushes:
            self.hear()

    def _submit_and_wait(self) -> None:
        """Wait for jobs of one's own, or join one that was submitted without waiting for it."""
        for _ in range(self.rng.choice(self.behaviour.waits_at_once)):
            offer = self._next()
            if self.behaviour.joins and self.rng.random() < 0.3:
                offer.unique, offer.prio = offer.jid, 1
                self.begin_push(offer)
                self.peer.submit(offer)
                offer = replace(offer)
            offer.waits, offer.volatile = True, self.behaviour.volatile_waits
            offer.retry = None if offer.volatile else offer.retry
            self.begin_push(offer)
            self.peer.submit(offer)
        deadline = time.monotonic() + PATIENCE_S
        while self._pushes or self._waiting:
            try:
                self.hear(PATIENCE_S)
            except TimeoutError:
                if time.monotonic() > deadline:
                    waits = [offer.jid for offer in (*self._pushes, *self._waiting)]
                    self.complain(f"waits for {waits[:3]} for ever")
                raise

    def _next(self) -> Offer:
        """One that may not have come before, or a new one."""
        if self._doubtful:
            return self._doubtful.pop()
        offer = self.new_offer(self.load.plan.queue, retry=self.behaviour.retry)
        if self.behaviour.has_reserve:
            offer.reserve = self.load.plan.reserve
        if self.peer.lasts:
            offer.unique = offer.jid
        if self._way == "one" and self.behaviour.joins:
            offer.prio = self.rng.choices((0, 1, -1), (8, 1, 1))[0]
        return offer

    def end_push(self, offer: Offer) -> None:
        self.done += 1
        super().end_push(offer)

    def gone(self) -> None:
        # NNG asks again by itself; whoever closes its socket does not.
        self.peer.give_up(offer for offer in self._pushes if self.rng.random() < 0.3)
        self.forget_pushes(0.3)


class Consumer(Actor, actors.Runner):
    """Takes a job, or a few at once, and finishes them; sometimes it fails one, forgets it, or dies with all."""

    def __init__(self, load: Load, protocol: str, number: int, rng: Random) -> None:
        super().__init__(load, protocol, f"c{number}", rng)
        self.worker = f"worker-c{number}" if self.behaviour.named else ""
        self.variant = self.behaviour.consumers[number % len(self.behaviour.consumers)]
        self.queue = load.plan.queue
        self._held: list[tuple[Grant, Event]] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        super().begin_anew()
        self._is_idle = self._is_resting = False
        self._beat_at = time.monotonic() + BEAT_S

    def queues(self) -> tuple[str, ...]:
        spare = self.load.plan.spare_queue if self.behaviour.needs_spare else ""
        return tuple(queue for queue in (self.queue, spare) if queue)

    def greet(self) -> None:
        self.peer_rules = self.peer.peer_rules
        if self.peer.rests and self.rng.random() < 0.5:
            self._rest()  # many libraries rest first and wait to be woken

    def _rest(self) -> None:
        self._is_idle = False
        self._is_resting = self.peer.rests
        self.peer.rest()

    def step(self) -> bool:
        if self.behaviour.beat_ms and time.monotonic() > self._beat_at:
            self._beat_at = time.monotonic() + BEAT_S
            self.peer.beat()
        if self._held and not self._report():
            return False  # dies with all it holds
        if self.load.stopping.is_set():
            return False
        if not (self._asking or self._is_resting):
            self._ask()
        try:
            self.hear(NAP_S)
            while self._asking and self.behaviour.eager:
                self.hear()
        except TimeoutError:
            return True
        if self._is_idle and not (self._held or self._asking):
            self._rest()
        return True

    def _ask(self) -> None:
        # A request for work may block, and those behind it wait: many at once only where there is plenty.
        plenty = self.load.backlog > PLENTY and not self.load.draining.is_set()
        for _ in range(self.rng.choice((1, 4, 16)) if plenty and self.behaviour.eager else 1):
            self.ask()

    def _report(self) -> bool:
        """Say what came of all that was taken, and wait until that was heard."""
        if not self.worker and self.has_trouble():
            return False
        if self.load.plan.work_s:
            time.sleep(self.rng.uniform(0, self.load.plan.work_s))
        held, self._held = self._held, []
        for grant, fetched in held:
            fails = "fail" in self.behaviour.words and self.has_trouble()
            if not fails and self.rng.random() < 0.05:
                for number in range(3):
                    self.peer.part(grant, b"%d" % number)
            self.report(grant, fetched, "fail" if fails else "ack")
        while self._reporting and not self.peer.report_asks:
            self.hear()
        return True

    def on(self, answer: Answer) -> None:
        match answer:
            case answers.Granted(grant):
                self.given(grant, self._asking.popleft())
            case answers.Nothing(out):
                self._is_idle = True
                self.end(self._asking.popleft(), out)
            case answers.Woken():
                self._is_resting = False
            case answers.Done(Grant() as grant, out):
                self.done += out == "ok"
                self.end(self._reporting.pop(grant), out)
            case _:
                self.complain(f"heard {answer}")

    def given(self, grant: Grant, event: Event) -> None:
        super().given(grant, event)
        if not (self.worker and self.has_trouble(0.002)):
            self._held.append((grant, event))

    def gone(self) -> None:
        """Those who have a name may report again what may not have been heard."""
        reported = [(g, e) for g, e in self._reporting.items() if isinstance(g, Grant)]
        self._held += [item for item in reported if self.rng.random() < 0.5]
        if not self.worker:
            self._held.clear()
        self.begin_anew()
