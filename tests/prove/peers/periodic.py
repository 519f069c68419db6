"""Periodic's producers and consumers, in today's dialect and the document's: submits, clients that wait, workers that die.

In the document's dialect a worker's words have no answer, so it pings behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from tests.prove import bodies
from tests.prove.events import Event
from tests.prove.load import Actor, Load
from tests.prove.peers.habits import PATIENCE_S, Offering, OneByOne
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
    dialect = CRC

    def connect(self) -> Periodic:
        return Periodic(
            self.port, role=self.role, dialect=self.dialect, timeout=self.load.plan.timeout_s
        )


Style = Callable[["Producer", Periodic], None]


class Producer(Offering[Periodic, bytes], Speaker):
    """Submits jobs in its own style as long as the backlog is small."""

    def __init__(self, load: Load, name: str, rng: Random, style: Style) -> None:
        super().__init__(load, name, rng, style)
        self.dialect = DOC if style is _submit_in_the_documents_words else CRC

    def job_of(self, jid: str) -> bytes:
        if self.dialect == DOC:
            return bodies.as_json(bodies.args_for(jid, self.rng))
        return bodies.bytes_for(jid, self.rng)

    def offer(self, **fields: object) -> tuple[str, bytes, Event]:
        """A job, and what is to be written down about it."""
        jid, body = self.next_job()
        self.offered[jid] = body
        digest = bodies.told(body)[1]
        return jid, body, self.begin("push", jid, queue=self.load.plan.queue, body=digest, **fields)

    def taken(self, client: Periodic, msgid: bytes, event: Event) -> None:
        """Read the answer to a submit."""
        answer = client.answer(msgid)
        self.offered.pop(event.jid, None)
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
    actor.offered.pop(jid, None)
    actor.done += 1
    actor.end(event)


def _submit_and_wait(actor: Producer, client: Periodic) -> None:
    """RUN_JOB: its only answer is the result, so that until then nothing was promised."""
    plan = actor.load.plan
    jid, body, event = actor.offer(waits=True, reserve=float(plan.reserve))
    msgid = client.send(RUN_JOB, packed(plan.queue, jid, body, timeout=plan.reserve))
    client.set_timeout(PATIENCE_S)
    try:
        answer = client.answer(msgid)
    except TimeoutError:
        actor.load.complain(f"{actor.conn} waits for {jid} for ever")
        raise
    client.set_timeout(actor.load.plan.timeout_s)
    actor.offered.pop(jid, None)
    if answer.command == NO_WORKER:
        actor.end(event, "no")
        return
    actor.done += 1
    actor.end(event)
    actor.end(actor.begin("result", jid))
    right = (bodies.told(body)[1].encode(), b"", b"failed", b"expired")
    if answer.command != DATA or answer.data not in right:
        actor.load.complain(f"{actor.conn}: {jid} ended with {answer}")


class Consumer(OneByOne[Periodic, Assigned], Speaker):
    """Asks for a job, waits for it, and finishes it; sometimes it fails it, or dies with it."""

    role = WORKER

    def __init__(self, load: Load, name: str, rng: Random, dialect: str) -> None:
        super().__init__(load, name, rng)
        self.dialect = dialect
        if dialect == DOC:
            self.habits = "periodic-doc"

    def greet(self, client: Periodic) -> None:
        super().greet(client)
        client.can_do(self.load.plan.queue)

    def ask(self, client: Periodic) -> None:
        client.send(GRAB_JOB)

    def hear(self, client: Periodic) -> Assigned:
        return client.next_job()

    def note(self, event: Event, job: Assigned) -> None:
        workload = bodies.plain(job.workload) if self.dialect == DOC else job.workload
        event.jid, event.body = bodies.told(workload)
        event.reserve = float(job.timeout) if job.timeout else None

    def report(self, client: Periodic, job: Assigned, fetched: Event, *, fails: bool) -> None:
        if fails:
            client.fail(job.handle)
        else:
            client.done(job.handle, fetched.body.encode())
        if self.dialect == DOC:
            client.ping()
