"""MemoDB's producers and consumers: clients that wait for results and ask again as NNG does, workers that die.

A job is kept only as long as somebody waits for it: its answer is its result, and until then nothing is promised. A worker asks
for its next job with the result of the last, so that the answer to the one is the end of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import monotonic, sleep

from tests.prove import bodies
from tests.prove.events import Event
from tests.prove.load import KNOCK_S, Actor, Load
from tests.prove.peers.habits import NAP_S, PATIENCE_S
from tests.support.memodb import (
    DISCONNECT,
    HEARTBEAT,
    JOB,
    RESULT,
    MemoDB,
    Message,
    heartbeat,
    job,
    ready,
    result,
)

_TIMEOUT_MS = 20_000


def producers(load: Load, count: int, rng: Random) -> Iterator[Producer]:
    for number in range(count):
        yield Producer(load, f"p{number}", Random(rng.random()))


def consumers(load: Load, count: int, rng: Random, first: int = 0) -> Iterator[Consumer]:
    for number in range(first, first + count):
        yield Consumer(load, f"c{number}", Random(rng.random()))


class Speaker(Actor[MemoDB]):
    """One connection."""

    protocol = "memodb"

    def connect(self) -> MemoDB:
        return MemoDB(self.port, timeout=self.load.plan.timeout_s)


class Producer(Speaker):
    """Submits a few jobs at once and waits for all of them; asks again what was not answered."""

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self._made = 0
        self._ids = rng.getrandbits(30)
        self._requests: dict[str, tuple[int, bytes]] = {}
        self._again: list[str] = []

    def step(self, client: MemoDB) -> bool:
        if self.load.draining.is_set():
            return False
        if self.load.has_enough(self.done):
            sleep(KNOCK_S)
            return True
        asked: dict[int, Event] = {}
        for _ in range(self.rng.choice((1, 1, 4))):
            jid = self._again.pop() if self._again else self._new()
            request_id, body = self._requests[jid]
            digest = bodies.told(body)[1]
            fields = {"queue": self.load.plan.queue, "body": digest, "unique": jid}
            event = self.begin("push", jid, waits=True, volatile=True, **fields)
            client.ask(job(self.load.plan.queue, body, _TIMEOUT_MS), request_id)
            asked[request_id] = event
        self._hear_all(client, asked)
        return True

    def _new(self) -> str:
        self._made += 1
        self._ids += 1
        jid = bodies.name_of(self.name, self._made)
        body = bodies.bytes_for(jid, self.rng)
        self._requests[jid] = (self._ids % (1 << 31) | 1 << 31, body)
        return jid

    def _hear_all(self, client: MemoDB, asked: dict[int, Event]) -> None:
        deadline = monotonic() + PATIENCE_S
        client.set_timeout(PATIENCE_S)
        while asked:
            try:
                request_id, reply = client.hear()
            except TimeoutError:
                if monotonic() > deadline:
                    waits = [event.jid for event in asked.values()]
                    self.load.complain(f"{self.conn} waits for {waits[:3]} for ever")
                raise
            if request_id not in asked:
                self.load.complain(f"{self.conn} heard {reply} of {request_id:x}")
                continue
            event = asked.pop(request_id)
            self.done += 1
            self.end(event)
            self.end(self.begin("result", event.jid))
            del self._requests[event.jid]
            if reply.op != RESULT or reply.payload not in (event.body.encode(), b""):
                self.load.complain(f"{self.conn}: {event.jid} ended with {reply}")
        client.set_timeout(self.load.plan.timeout_s)

    def lost(self, event: Event) -> None:
        # NNG asks again by itself, with the same id; whoever closes its socket does not.
        if event.op == "push" and self.rng.random() < 0.7:
            self._again.append(event.jid)


class Consumer(Speaker):
    """Offers itself, and finishes one job after the other; sometimes it dies with one."""

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self._asking: Event | None = None
        self._reporting: Event | None = None

    def greet(self, client: MemoDB) -> None:
        self._reporting = None
        self._ask(client, ready(self.load.plan.queue))

    def _ask(self, client: MemoDB, message: bytes) -> None:
        if self._asking is None or id(self._asking) not in self._under_way:
            self._asking = self.begin("fetch", queue=self.load.plan.queue)
        client.ask(message)

    def step(self, client: MemoDB) -> bool:
        if self.load.stopping.is_set():
            return False
        client.set_timeout(NAP_S)
        try:
            _, reply = client.hear()
        except TimeoutError:
            return True
        finally:
            client.set_timeout(self.load.plan.timeout_s)
        if self._reporting is not None:
            self.end(self._reporting, "maybe" if reply.op == DISCONNECT else "ok")
            self.done += reply.op != DISCONNECT
            self._reporting = None
        if reply.op == HEARTBEAT:
            self._ask(client, heartbeat(reply.worker))
            return True
        return reply.op == JOB and self._run(client, reply)

    def _run(self, client: MemoDB, task: Message) -> bool:
        event, self._asking = self._asking, None
        assert event is not None
        event.jid, event.body = bodies.told(task.payload)
        reserve_ms = task.fields[1]
        event.reserve = reserve_ms / 1000 if isinstance(reserve_ms, int) and reserve_ms else None
        self.end(event)
        if self.load.is_rough and self.rng.random() < 0.01:
            return False  # dies with it
        self.toil()
        self._reporting = self.begin("ack", event.jid)
        self._ask(client, result(task.worker, event.body.encode()))
        return True
