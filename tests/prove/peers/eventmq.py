"""EventMQ's producers and consumers: requests, clients that ask for the result, workers with heartbeats that die.

A request is answered when somebody is given it, which may be never; the answer to STATUS behind it says that it is kept. So
does the one behind a worker's REPLY. A queue is known once a worker has named it; until then requests go to `default`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from time import monotonic

from tests.prove import bodies
from tests.prove.events import Event
from tests.prove.load import Actor, Load
from tests.prove.peers.habits import NAP_S, PATIENCE_S, Offering, OneByOne
from tests.support.eventmq import HANDED_OVER, RESULT, EventMQ, Given

RETRIES = 25
_WEIGHT = 10


def producers(load: Load, count: int, rng: Random) -> Iterator[Producer]:
    styles = [_request_many, _request_and_wait]
    for number in range(count):
        yield Producer(load, f"p{number}", Random(rng.random()), styles[number % len(styles)])


def consumers(load: Load, count: int, rng: Random, first: int = 0) -> Iterator[Consumer]:
    for number in range(first, first + count):
        yield Consumer(load, f"c{number}", Random(rng.random()))


class Speaker(Actor[EventMQ]):
    """One connection."""

    protocol = "eventmq"

    def connect(self) -> EventMQ:
        return EventMQ(self.port, timeout=self.load.plan.timeout_s)

    def settle(self, client: EventMQ) -> None:
        """Until everything said before is on the disk. Other replies are heard meanwhile."""
        client.say("STATUS", msgid="admin:status")
        while True:
            frames = client.hear("REPLY")
            if frames[4].startswith(b'{"inflight'):
                return
            self.replied(frames)

    def replied(self, frames: list[bytes]) -> None:
        """A REPLY that is no answer to STATUS."""


Style = Callable[["Producer", EventMQ], None]


class Producer(Offering[EventMQ, bytes], Speaker):
    """Requests jobs in its own style as long as the backlog is small."""

    def __init__(self, load: Load, name: str, rng: Random, style: Style) -> None:
        super().__init__(load, name, rng, style)
        self.results: dict[str, bytes] = {}

    def greet(self, client: EventMQ) -> None:
        self.results.clear()

    def job_of(self, jid: str) -> bytes:
        return _call(bodies.args_for(jid, self.rng))

    def offer(self, client: EventMQ, headers: str = "", **fields: object) -> Event:
        """Send a request; what is to be written down about it."""
        jid, body = self.next_job()
        self.offered[jid] = body
        queue = self.load.plan.queue
        event = self.begin("push", jid, queue=queue, body=_told(body)[1], retry=RETRIES, **fields)
        said = f"retry-count:{RETRIES}" + (f",{headers}" if headers else "")
        client.request(body, queue, said, msgid=jid)
        return event

    def kept(self, event: Event) -> None:
        """It is on the disk."""
        self.offered.pop(event.jid, None)
        self.done += 1
        self.end(event)

    def replied(self, frames: list[bytes]) -> None:
        if len(frames) == RESULT:
            jid = frames[5].decode()
            if jid in self.results:
                self.load.complain(f"{self.conn} heard the end of {jid} twice")
            self.results[jid] = frames[4]
        elif len(frames) != HANDED_OVER:
            self.load.complain(f"{self.conn} heard {frames}")


def _call(args: list[object]) -> bytes:
    """The message that asks for a call; others are shown its arguments to the byte."""
    what = {"callable": "run", "path": "prove", "args": args, "kwargs": {}}
    return bodies.as_json(["run", what | {"class_args": [], "class_kwargs": {}}])


def _told(body: bytes) -> tuple[str, str]:
    """The name and the fingerprint of what is called; others are shown only the arguments."""
    return bodies.told(bodies.undone(json.loads(body)[1]["args"]))


def _request_many(actor: Producer, client: EventMQ) -> None:
    events = [actor.offer(client) for _ in range(actor.rng.choice((1, 3, 20)))]
    actor.settle(client)
    for event in events:
        actor.kept(event)


def _request_and_wait(actor: Producer, client: EventMQ) -> None:
    event = actor.offer(client, "reply-requested", waits=True)
    actor.settle(client)
    actor.kept(event)
    jid = event.jid
    heard = actor.begin("result", jid)
    deadline = monotonic() + PATIENCE_S
    while jid not in actor.results:
        if monotonic() > deadline:
            actor.load.complain(f"{actor.conn} waits for {jid} for ever")
            raise TimeoutError
        client.set_timeout(NAP_S)
        try:
            actor.replied(client.hear("REPLY"))
        except TimeoutError:
            continue
        finally:
            client.set_timeout(actor.load.plan.timeout_s)
    actor.end(heard)
    result = actor.results[jid]
    value = json.loads(result)
    right = value is True or value.get("value") in (event.body, "") or "error" in value
    if not right:
        actor.load.complain(f"{actor.conn}: {jid} ended with {result!r}")


class Consumer(OneByOne[EventMQ, Given], Speaker):
    """Says READY, waits for a job, and finishes it; sometimes it fails it, or dies with it."""

    def greet(self, client: EventMQ) -> None:
        super().greet(client)
        plan = self.load.plan
        client.inform(*((_WEIGHT, name) for name in (plan.queue, plan.spare_queue) if name))

    def step(self, client: EventMQ) -> bool:
        client.beat_if_due()
        return super().step(client)

    def ask(self, client: EventMQ) -> None:
        client.ready()

    def hear(self, client: EventMQ) -> Given:
        return client.next_job()

    def note(self, event: Event, job: Given) -> None:
        event.jid, event.body = _told(job.body)

    def report(self, client: EventMQ, job: Given, fetched: Event, *, fails: bool) -> None:
        result = {"error": "planned"} if fails else {"value": fetched.body}
        client.reply(job.msgid, json.dumps(result).encode())
        self.settle(client)
