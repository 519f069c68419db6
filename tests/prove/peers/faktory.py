"""Faktory's producers and consumers: pushes of three kinds; workers that come back under their own name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from time import monotonic

from tests.prove import bodies
from tests.prove.events import Event, Out
from tests.prove.load import Actor, Load
from tests.prove.peers.habits import Offering
from tests.support.faktory import (
    Faktory,
    JobDict,
    Reply,
    ack_line,
    fail_line,
    job,
    job_in,
    push_line,
    push_many_line,
)

RETRIES = 25
_BEAT_S = 15.0


def producers(load: Load, count: int, rng: Random) -> Iterator[Producer]:
    styles = [_push_one, _push_pipelined, _push_batch]
    for number in range(count):
        yield Producer(load, f"p{number}", Random(rng.random()), styles[number % len(styles)])


def consumers(load: Load, count: int, rng: Random, first: int = 0) -> Iterator[Consumer]:
    for number in range(first, first + count):
        yield Consumer(load, f"c{number}", Random(rng.random()))


class Speaker(Actor[Faktory]):
    """Replies come in the order of the commands."""

    protocol = "faktory"

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self._awaited: deque[list[Event]] = deque()  # the events that each awaited reply decides

    def connect(self) -> Faktory:
        self._awaited.clear()
        return Faktory(self.port, timeout=self.load.plan.timeout_s)

    def greet(self, client: Faktory) -> None:
        client.hello(wid=self.worker or None)

    def ask(self, client: Faktory, questions: list[tuple[str, list[Event]]]) -> None:
        """Send commands in one write; each list of events awaits the reply to its command."""
        self._awaited.extend(events for _, events in questions)
        client.send(*[line for line, _ in questions])

    def hear(self, client: Faktory, out: Callable[[Reply, Event], Out] | None = None) -> Reply:
        """Read the next reply and write down what it decides."""
        reply = client.read_reply()
        for event in self._awaited.popleft():
            if out is not None:
                self.end(event, out(reply, event))
            else:
                self.end(event, "no" if reply.is_error else "ok")
        return reply


class Producer(Offering[Faktory, JobDict], Speaker):
    """Pushes jobs in its own style as long as the backlog is small."""

    def job_of(self, jid: str) -> JobDict:
        plan, args = self.load.plan, bodies.args_for(jid, self.rng)
        work = job(jid, *args, queue=plan.queue, retry=RETRIES, reserve_for=plan.reserve)
        return work | _custom(jid)

    def offer(self) -> tuple[JobDict, Event]:
        """A job, and what is to be written down about it."""
        jid, work = self.next_job()
        self.offered[jid] = work
        plan, digest = self.load.plan, bodies.told(bodies.as_json(work["args"]))[1]
        fields = {"queue": plan.queue, "reserve": float(plan.reserve), "retry": RETRIES}
        return work, self.begin("push", jid, body=digest, **fields)

    def taken(self, reply: Reply, event: Event) -> Out:
        """PUSH says OK or not; PUSHB says which were refused."""
        self.offered.pop(event.jid)
        refused = reply.is_error or (reply.kind == "$" and f'"{event.jid}"' in reply.text)
        self.done += not refused
        return "no" if refused else "ok"


def _custom(jid: str) -> JobDict:
    """What else an odd job carries, for workers of its own protocol."""
    return {"custom": {"of": jid}} if bodies.is_odd(jid) else {}


def _push_one(actor: Producer, client: Faktory) -> None:
    work, event = actor.offer()
    actor.ask(client, [(push_line(work), [event])])
    actor.hear(client, actor.taken)


def _push_pipelined(actor: Producer, client: Faktory) -> None:
    offers = [actor.offer() for _ in range(actor.rng.randint(2, 30))]
    actor.ask(client, [(push_line(work), [event]) for work, event in offers])
    for _ in offers:
        actor.hear(client, actor.taken)


def _push_batch(actor: Producer, client: Faktory) -> None:
    offers = [actor.offer() for _ in range(actor.rng.randint(2, 100))]
    line = push_many_line([work for work, _ in offers])
    actor.ask(client, [(line, [event for _, event in offers])])
    actor.hear(client, actor.taken)


class Consumer(Speaker):
    """Fetches a few at once and finishes them; sometimes it fails one, or forgets it."""

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self.worker = f"worker-{name}"
        self._held: list[tuple[str, str]] = []  # by its jid, and as the history calls it
        self._reported: dict[str, str] = {}
        self._beat_at = 0.0

    def greet(self, client: Faktory) -> None:
        super().greet(client)
        self._beat_at = monotonic() + _BEAT_S

    def step(self, client: Faktory) -> bool:
        if monotonic() > self._beat_at:
            self._beat_at = monotonic() + _BEAT_S
            client.beat(self.worker)
        if self._held:
            self.toil()
            self._report(client)
        if self.load.stopping.is_set():
            return False
        self._fetch(client)
        return True

    def lost(self, event: Event) -> None:
        if event.op != "fetch" and self.rng.random() < 0.5:
            # Some workers report again, some do not.
            self._held.append((self._reported.get(event.jid, event.jid), event.jid))

    def _fetch(self, client: Faktory) -> None:
        queue = self.load.plan.queue
        # A FETCH may block, and those behind it wait: many at once only where there is plenty.
        plenty = self.load.backlog > 200 and not self.load.draining.is_set()
        eager = self.rng.choice((1, 4, 16)) if plenty else 1
        self.ask(
            client, [(f"FETCH {queue}", [self.begin("fetch", queue=queue)]) for _ in range(eager)]
        )
        for _ in range(eager):
            self.hear(client, self._delivered)

    def _delivered(self, reply: Reply, event: Event) -> Out:
        if reply.is_error:
            return "maybe"
        work = job_in(reply)
        if work is None:
            return "no"
        event.jid, event.body = bodies.told(bodies.undone(work["args"]))
        event.reserve = float(work["reserve_for"])
        if event.jid.startswith("faktory-"):
            failure = work.get("failure")
            event.attempt = failure["retry_count"] + 1 if failure else 0
            if {"custom": work.get("custom")} != {"custom": _custom(event.jid).get("custom")}:
                event.body = f"custom {work.get('custom')}"
        forgotten = self.load.is_rough and self.rng.random() < 0.002
        if not forgotten:
            self._held.append((work["jid"], event.jid))
        return "ok"

    def _report(self, client: Faktory) -> None:
        questions: list[tuple[str, list[Event]]] = []
        held, self._held = self._held, []
        self._reported = {told: jid for jid, told in held}
        for jid, told in held:
            fails = self.load.is_rough and self.rng.random() < 0.01
            line = fail_line(jid) if fails else ack_line(jid)
            questions.append((line, [self.begin("fail" if fails else "ack", told)]))
        self.ask(client, questions)
        for _ in questions:
            self.done += not self.hear(client).is_error
