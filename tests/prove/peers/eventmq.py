"""EventMQ's producers and consumers: requests, clients that ask for the result, workers with heartbeats that die.

A request is answered when somebody is given it, which may be never; the answer to STATUS behind it says that it is kept. So
does the one behind a worker's REPLY. A queue is known once a worker has named it; until then requests go to `default`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from time import monotonic, sleep

from tests.prove import bodies
from tests.prove.events import Event
from tests.prove.load import KNOCK_S, TIMEOUT_S, Actor, Load
from tests.support.eventmq import HANDED_OVER, RESULT, EventMQ, Given

RETRIES = 25
_NAP_S = 1.0
_PATIENCE_S = 30.0
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
        return EventMQ(self.port, timeout=TIMEOUT_S)

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


class Producer(Speaker):
    """Requests jobs in its own style as long as the backlog is small."""

    def __init__(self, load: Load, name: str, rng: Random, style: Style) -> None:
        super().__init__(load, name, rng)
        self.style = style
        self.results: dict[str, bytes] = {}
        self._made = 0
        self._unknown: list[tuple[str, bytes]] = []
        self._offered: dict[str, bytes] = {}

    def greet(self, client: EventMQ) -> None:
        self.results.clear()

    def step(self, client: EventMQ) -> bool:
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

    def offer(self, client: EventMQ, headers: str = "", **fields: object) -> Event:
        """Send a request; what is to be written down about it."""
        if self._unknown:
            jid, body = self._unknown.pop()
        else:
            self._made += 1
            jid = bodies.name_of(self.name, self._made)
            body = _call(bodies.args_for(jid, self.rng))
        self._offered[jid] = body
        queue = self.load.plan.queue
        event = self.begin("push", jid, queue=queue, body=_told(body)[1], retry=RETRIES, **fields)
        said = f"retry-count:{RETRIES}" + (f",{headers}" if headers else "")
        client.request(body, queue, said, msgid=jid)
        return event

    def kept(self, event: Event) -> None:
        """It is on the disk."""
        self._offered.pop(event.jid, None)
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
    deadline = monotonic() + _PATIENCE_S
    while jid not in actor.results:
        if monotonic() > deadline:
            actor.load.complain(f"{actor.conn} waits for {jid} for ever")
            raise TimeoutError
        client.set_timeout(_NAP_S)
        try:
            actor.replied(client.hear("REPLY"))
        except TimeoutError:
            continue
        finally:
            client.set_timeout(TIMEOUT_S)
    actor.end(heard)
    result = actor.results[jid]
    value = json.loads(result)
    right = value is True or value.get("value") in (event.body, "") or "error" in value
    if not right:
        actor.load.complain(f"{actor.conn}: {jid} ended with {result!r}")


class Consumer(Speaker):
    """Says READY, waits for a job, and finishes it; sometimes it fails it, or dies with it."""

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self._asking: Event | None = None

    def greet(self, client: EventMQ) -> None:
        self._asking = None
        client.inform((_WEIGHT, self.load.plan.queue), (_WEIGHT, "default"))

    def step(self, client: EventMQ) -> bool:
        if self.load.stopping.is_set():
            return False
        client.beat_if_due()
        if self._asking is None:
            self._asking = self.begin("fetch", queue=self.load.plan.queue)
            client.ready()
        client.set_timeout(_NAP_S)
        try:
            job = client.next_job()
        except TimeoutError:
            return True
        finally:
            client.set_timeout(TIMEOUT_S)
        event, self._asking = self._asking, None
        event.jid, event.body = _told(job.body)
        self.end(event)
        if not self.load.draining.is_set() and self.rng.random() < 0.01:
            return False  # dies with it
        self.toil()
        self._report(client, job, event)
        return True

    def _report(self, client: EventMQ, job: Given, fetched: Event) -> None:
        fails = not self.load.draining.is_set() and self.rng.random() < 0.01
        event = self.begin("fail" if fails else "ack", fetched.jid)
        result = {"error": "planned"} if fails else {"value": fetched.body}
        client.reply(job.msgid, json.dumps(result).encode())
        self.settle(client)
        self.end(event)
        self.done += not fails
