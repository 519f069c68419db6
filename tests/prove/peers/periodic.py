"""Periodic's producers and consumers, in today's dialect and the document's: submits, clients that wait, workers that die.

In the document's dialect a worker's words have no answer, so it pings behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from time import sleep

from tests.prove import bodies
from tests.prove.events import Event
from tests.prove.load import KNOCK_S, TIMEOUT_S, Actor, Load
from tests.support.periodic import (
    CLIENT,
    CRC,
    DATA,
    DOC,
    GRAB_JOB,
    NO_WORKER,
    RUN_JOB,
    SUBMIT_JOB,
    SUCCESS,
    WORKER,
    Assigned,
    Periodic,
    packed,
)

_NAP_S = 1.0
_PATIENCE_S = 30.0
_FOR_EVER = 1_000_000


def producers(load: Load, count: int, rng: Random) -> Iterator[Producer]:
    styles = [_submit_many, _submit_and_wait, _submit_in_the_documents_words]
    for number in range(count):
        yield Producer(load, f"p{number}", Random(rng.random()), styles[number % len(styles)])


def consumers(load: Load, count: int, rng: Random, first: int = 0) -> Iterator[Consumer]:
    for number in range(first, first + count):
        dialect = DOC if number % 2 else CRC
        yield Consumer(load, f"c{number}", Random(rng.random()), dialect)


class Speaker(Actor[Periodic]):
    """One connection."""

    protocol = "periodic"
    role = CLIENT

    def __init__(self, load: Load, name: str, rng: Random, dialect: str) -> None:
        super().__init__(load, name, rng)
        self.dialect = dialect

    def connect(self) -> Periodic:
        return Periodic(self.port, role=self.role, dialect=self.dialect, timeout=TIMEOUT_S)


Style = Callable[["Producer", Periodic], None]


class Producer(Speaker):
    """Submits jobs in its own style as long as the backlog is small."""

    def __init__(self, load: Load, name: str, rng: Random, style: Style) -> None:
        super().__init__(load, name, rng, DOC if style is _submit_in_the_documents_words else CRC)
        self.style = style
        self._made = 0
        self._unknown: list[tuple[str, bytes]] = []
        self._offered: dict[str, bytes] = {}

    def step(self, client: Periodic) -> bool:
        if self.load.draining.is_set():
            return False
        if self.load.backlog > self.load.plan.backlog_max:
            sleep(KNOCK_S)
        else:
            self.style(self, client)
        return True

    def lost(self, event: Event) -> None:
        # Some clients say it again, some give up; those who waited had better not.
        body = self._offered.pop(event.jid, None)
        if body is not None and not event.waits and self.rng.random() < 0.3:
            self._unknown.append((event.jid, body))

    def offer(self, **fields: object) -> tuple[str, bytes, Event]:
        """A job, and what is to be written down about it."""
        if self._unknown:
            jid, body = self._unknown.pop()
        else:
            self._made += 1
            jid = bodies.name_of(self.name, self._made)
            body = bodies.as_json(bodies.args_for(jid, self.rng))
            if self.dialect == CRC:
                body = bodies.bytes_for(jid, self.rng)
        self._offered[jid] = body
        digest = bodies.told(body)[1]
        return jid, body, self.begin("push", jid, queue=self.load.plan.queue, body=digest, **fields)

    def taken(self, client: Periodic, msgid: bytes, event: Event) -> None:
        """Read the answer to a submit."""
        answer = client.answer(msgid)
        self._offered.pop(event.jid, None)
        self.done += answer.command == SUCCESS
        self.end(event, "ok" if answer.command == SUCCESS else "no")


def _submit_many(actor: Producer, client: Periodic) -> None:
    asked: list[tuple[bytes, Event]] = []
    for _ in range(actor.rng.choice((1, 1, 5, 30))):
        plan = actor.load.plan
        jid, body, event = actor.offer(retry=_FOR_EVER, reserve=float(plan.reserve))
        job = packed(plan.queue, jid, body, timeout=plan.reserve)
        asked.append((client.send(SUBMIT_JOB, job), event))
    for msgid, event in asked:
        actor.taken(client, msgid, event)


def _submit_in_the_documents_words(actor: Producer, client: Periodic) -> None:
    plan = actor.load.plan
    jid, body, event = actor.offer(retry=_FOR_EVER, reserve=float(plan.reserve))
    client.submit(plan.queue, jid, body, timeout=plan.reserve)
    actor._offered.pop(jid, None)
    actor.done += 1
    actor.end(event)


def _submit_and_wait(actor: Producer, client: Periodic) -> None:
    """RUN_JOB: its only answer is the result, so that until then nothing was promised."""
    plan = actor.load.plan
    jid, body, event = actor.offer(waits=True, reserve=float(plan.reserve))
    msgid = client.send(RUN_JOB, packed(plan.queue, jid, body, timeout=plan.reserve))
    client.set_timeout(_PATIENCE_S)
    try:
        answer = client.answer(msgid)
    except TimeoutError:
        actor.load.complain(f"{actor.conn} waits for {jid} for ever")
        raise
    client.set_timeout(TIMEOUT_S)
    actor._offered.pop(jid, None)
    if answer.command == NO_WORKER:
        actor.end(event, "no")
        return
    actor.done += 1
    actor.end(event)
    actor.end(actor.begin("result", jid))
    right = (bodies.told(body)[1].encode(), b"", b"failed", b"expired")
    if answer.command != DATA or answer.data not in right:
        actor.load.complain(f"{actor.conn}: {jid} ended with {answer}")


class Consumer(Speaker):
    """Asks for a job, waits for it, and finishes it; sometimes it fails it, or dies with it."""

    role = WORKER

    def __init__(self, load: Load, name: str, rng: Random, dialect: str) -> None:
        super().__init__(load, name, rng, dialect)
        if dialect == DOC:
            self.habits = "periodic-doc"
        self._asking: Event | None = None

    def greet(self, client: Periodic) -> None:
        self._asking = None
        client.can_do(self.load.plan.queue)

    def step(self, client: Periodic) -> bool:
        if self.load.stopping.is_set():
            return False
        if self._asking is None:
            self._asking = self.begin("fetch", queue=self.load.plan.queue)
            client.send(GRAB_JOB)
        client.set_timeout(_NAP_S)
        try:
            job = client.next_job()
        except TimeoutError:
            return True
        finally:
            client.set_timeout(TIMEOUT_S)
        event, self._asking = self._asking, None
        workload = bodies.plain(job.workload) if self.dialect == DOC else job.workload
        event.jid, event.body = bodies.told(workload)
        event.reserve = float(job.timeout) if job.timeout else None
        self.end(event)
        if not self.load.draining.is_set() and self.rng.random() < 0.01:
            return False  # dies with it
        self.toil()
        self._report(client, job, event)
        return True

    def _report(self, client: Periodic, job: Assigned, fetched: Event) -> None:
        fails = not self.load.draining.is_set() and self.rng.random() < 0.01
        event = self.begin("fail" if fails else "ack", fetched.jid)
        if fails:
            client.fail(job.handle)
        else:
            client.done(job.handle, fetched.body.encode())
        if self.dialect == DOC:
            client.ping()
        self.end(event)
        self.done += not fails
