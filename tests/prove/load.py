"""A load of Faktory producers and consumers that outlives the server, and writes down all it sees.

Each actor is a thread with one connection at a time. When the connection breaks, what was under way
becomes `maybe`, and the actor comes back as soon as somebody listens again: consumers under the same
`wid`, still holding what they were given. Nothing here knows when or how the server will fail.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.prove.events import Event, Out, digest
from tests.support.faktory import (
    Faktory,
    JobDict,
    Reply,
    ack_line,
    compact,
    fail_line,
    job,
    job_in,
    push_line,
    push_many_line,
)

RETRIES = 25
BROKEN = (OSError, ValueError)  # a connection that ended, or that ended in the middle of a reply
_KNOCK_S = 0.01
_TIMEOUT_S = 15.0

# Bodies that a careless server would change: digits, keys, escapes, emptiness.
_ODD_ARGS: tuple[tuple[object, ...], ...] = (
    (),
    (2**64 + 1, -(2**53) - 1, 0.1, 1.0, 1e-9),
    ("ü€😀\u2028</script>&", "\u0000\t\r\n"),
    ({"b": 1, "a": {"z": None, "y": [True, False]}}, [[[]]]),
    ("x" * 2_000,),
)


def body_of(work: JobDict) -> str:
    """The fingerprint of what the producer gave and the worker must get."""
    return digest(compact([work["jobtype"], work["args"], work.get("custom")]))


@dataclass(slots=True)
class Plan:
    """What the load should be like."""

    port: int
    seed: int
    queue: str = "prove"
    reserve: int = 60
    producers: int = 3
    consumers: int = 3
    backlog_max: int = 3_000


@dataclass
class Load:
    """All actors together: start, let the server suffer, drain, stop, read `events`."""

    plan: Plan
    draining: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    noted: list[Event] = field(default_factory=list)  # by the harness: restarts
    actors: list[Actor] = field(default_factory=list)

    def start(self) -> None:
        rng = Random(self.plan.seed)
        styles = [_push_one, _push_pipelined, _push_batch]
        for number in range(self.plan.producers):
            self.actors.append(
                Producer(self, f"p{number}", Random(rng.random()), styles[number % len(styles)])
            )
        for number in range(self.plan.consumers):
            self.actors.append(Consumer(self, f"c{number}", Random(rng.random())))
        for actor in self.actors:
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

    def drain(self, timeout: float) -> bool:
        """Push no more, and consume until the server says that it has nothing left."""
        self.draining.set()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with suppress(*BROKEN), Faktory(self.plan.port).hello() as client:
                while time.monotonic() < deadline:
                    if left_in(client.info()) == 0:
                        return True
                    time.sleep(0.2)
            time.sleep(_KNOCK_S)
        return False

    @property
    def backlog(self) -> int:
        pushed = sum(actor.done for actor in self.actors if isinstance(actor, Producer))
        return pushed - sum(actor.done for actor in self.actors if isinstance(actor, Consumer))

    @property
    def events(self) -> list[Event]:
        return [event for actor in self.actors for event in actor.events] + self.noted


def left_in(info: dict[str, Any]) -> int:
    """How many jobs a server's INFO says are waiting, scheduled, to be retried or running."""
    facts = info["faktory"]
    tasks = facts["tasks"]
    sizes: list[int] = [tasks[name]["size"] for name in ("Scheduled", "Retries", "Busy")]
    return sum(sizes, sum(facts["queues"].values(), 0))


class Actor:
    """A thread with a name, one connection at a time, and a diary."""

    wid: str | None = None

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        self.load = load
        self.name = name
        self.rng = rng
        self.events: list[Event] = []
        self.done = 0  # jobs accepted, or jobs finished
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._lives = 0
        self._under_way: deque[list[Event]] = deque()  # the events that each awaited reply decides

    @property
    def conn(self) -> str:
        return f"{self.name}.{self._lives}"

    def event(self, op: Any, jid: str = "", **fields: Any) -> Event:
        """A new entry; it is written when its reply comes, or when it never will."""
        now = time.monotonic()
        return Event(op, "faktory", self.conn, jid, now, now, worker=self.wid or "", **fields)

    def ask(self, client: Faktory, questions: list[tuple[str, list[Event]]]) -> None:
        """Send commands in one write; each list of events awaits the reply to its command."""
        self._under_way.extend(events for _, events in questions)
        client.send(*[line for line, _ in questions])

    def hear(self, client: Faktory, out: Callable[[Reply, Event], Out] | None = None) -> Reply:
        """Read the next reply and write down what it decides."""
        reply = client.read_reply()
        now = time.monotonic()
        for event in self._under_way.popleft():
            event.t1 = now
            event.out = "no" if reply.is_error else "ok"
            if out is not None:
                event.out = out(reply, event)
            self.events.append(event)
        return reply

    def _run(self) -> None:
        try:
            while not self.load.stopping.is_set():
                with suppress(*BROKEN):
                    self._live()
                time.sleep(_KNOCK_S)
        except BaseException as error:
            self.error = error

    def _live(self) -> None:
        with Faktory(self.load.plan.port, timeout=_TIMEOUT_S) as client:
            client.hello(wid=self.wid)
            last_open = time.monotonic()
            try:
                while self.step(client):
                    last_open = time.monotonic()
            except BROKEN:
                self._broken()
                raise
            finally:
                now = time.monotonic()
                self.events.append(Event("close", "faktory", self.conn, t0=last_open, t1=now))
                self._lives += 1

    def _broken(self) -> None:
        now = time.monotonic()
        for events in self._under_way:
            for event in events:
                event.t1, event.out = now, "maybe"
                self.events.append(event)
                self.lost(event)
        self._under_way.clear()

    def step(self, client: Faktory) -> bool:
        """Do the next thing; False when there is nothing more to do on this connection."""
        raise NotImplementedError

    def lost(self, event: Event) -> None:
        """An answer will never come."""


Style = Callable[["Producer", Faktory], None]


class Producer(Actor):
    """Pushes jobs in its own style as long as the backlog is small."""

    def __init__(self, load: Load, name: str, rng: Random, style: Style) -> None:
        super().__init__(load, name, rng)
        self.style = style
        self._made = 0
        self._unknown: list[JobDict] = []
        self._offered: dict[str, JobDict] = {}

    def step(self, client: Faktory) -> bool:
        if self.load.draining.is_set():
            return False
        if self.load.backlog > self.load.plan.backlog_max:
            time.sleep(_KNOCK_S)
        else:
            self.style(self, client)
        return True

    def lost(self, event: Event) -> None:
        work = self._offered.pop(event.jid)
        if self.rng.random() < 0.3:  # some clients say it again, some give up
            self._unknown.append(work)

    def next_job(self) -> tuple[JobDict, Event]:
        plan = self.load.plan
        if self._unknown:
            work = self._unknown.pop()
        else:
            self._made += 1
            odd = self._made % 50 == 0
            args = self.rng.choice(_ODD_ARGS) if odd else (self._made, self.name)
            fields: JobDict = {"custom": {"made": self._made, "by": self.name}} if odd else {}
            work = job(f"{self.name}-{self._made:07}", *args, queue=plan.queue, retry=RETRIES,
                       reserve_for=plan.reserve, **fields)  # fmt: skip
        self._offered[work["jid"]] = work
        return work, self.event(
            "push", work["jid"], queue=plan.queue, body=body_of(work),
            reserve=float(plan.reserve), retry=RETRIES,
        )  # fmt: skip

    def taken(self, reply: Reply, event: Event) -> Out:
        """PUSH says OK or not; PUSHB says which were refused."""
        self._offered.pop(event.jid)
        refused = reply.is_error or (reply.kind == "$" and f'"{event.jid}"' in reply.text)
        self.done += not refused
        return "no" if refused else "ok"


def _push_one(actor: Producer, client: Faktory) -> None:
    work, event = actor.next_job()
    actor.ask(client, [(push_line(work), [event])])
    actor.hear(client, actor.taken)


def _push_pipelined(actor: Producer, client: Faktory) -> None:
    offers = [actor.next_job() for _ in range(actor.rng.randint(2, 30))]
    actor.ask(client, [(push_line(work), [event]) for work, event in offers])
    for _ in offers:
        actor.hear(client, actor.taken)


def _push_batch(actor: Producer, client: Faktory) -> None:
    offers = [actor.next_job() for _ in range(actor.rng.randint(2, 100))]
    line = push_many_line([work for work, _ in offers])
    actor.ask(client, [(line, [event for _, event in offers])])
    actor.hear(client, actor.taken)


class Consumer(Actor):
    """Fetches a few at once and finishes them; sometimes it fails one, or forgets it."""

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self.wid = f"worker-{name}"
        self._held: list[str] = []

    def step(self, client: Faktory) -> bool:
        if self._held:
            self._report(client)
        if self.load.stopping.is_set():
            return False
        self._fetch(client)
        return True

    def lost(self, event: Event) -> None:
        if event.op != "fetch" and self.rng.random() < 0.5:
            self._held.append(event.jid)  # some workers report again, some do not

    def _fetch(self, client: Faktory) -> None:
        queue = self.load.plan.queue
        # A FETCH may block, and those behind it wait: many at once only where there is plenty.
        plenty = self.load.backlog > 200 and not self.load.draining.is_set()
        eager = self.rng.choice((1, 4, 16)) if plenty else 1
        self.ask(
            client, [(f"FETCH {queue}", [self.event("fetch", queue=queue)]) for _ in range(eager)]
        )
        for _ in range(eager):
            self.hear(client, self._delivered)

    def _delivered(self, reply: Reply, event: Event) -> Out:
        if reply.is_error:
            return "maybe"
        work = job_in(reply)
        if work is None:
            return "no"
        event.jid, event.body = work["jid"], body_of(work)
        failure = work.get("failure")
        event.attempt = failure["retry_count"] + 1 if failure else 0
        forgotten = not self.load.draining.is_set() and self.rng.random() < 0.002
        if not forgotten:
            self._held.append(event.jid)
        return "ok"

    def _report(self, client: Faktory) -> None:
        questions: list[tuple[str, list[Event]]] = []
        held, self._held = self._held, []
        for jid in held:
            fails = not self.load.draining.is_set() and self.rng.random() < 0.01
            line = fail_line(jid) if fails else ack_line(jid)
            questions.append((line, [self.event("fail" if fails else "ack", jid)]))
        self.ask(client, questions)
        for _ in questions:
            self.done += not self.hear(client).is_error
