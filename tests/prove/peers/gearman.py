"""Gearman's producers and consumers: background jobs, clients that wait for a result, workers that sleep and die.

A worker hears nothing of a completion but an error, so it asks for an echo behind it. A client that waits
must hear one end of its job, or that the connection broke.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.prove import bodies
from tests.prove.events import Event
from tests.prove.load import Actor, Load
from tests.prove.peers.habits import NAP_S, PATIENCE_S, Offering
from tests.support.gearman import Gearman, Packet, Type, Work, request, work_in

_GRABS = (Type.GRAB_JOB, Type.GRAB_JOB_UNIQ, Type.GRAB_JOB_ALL)
_PRIORITIES = {Type.SUBMIT_JOB_BG: 0, Type.SUBMIT_JOB_HIGH_BG: 1, Type.SUBMIT_JOB_LOW_BG: -1}


def producers(load: Load, count: int, rng: Random) -> Iterator[Producer]:
    styles = [_submit_many, _submit_and_wait, _submit_one]
    for number in range(count):
        yield Producer(load, f"p{number}", Random(rng.random()), styles[number % len(styles)])


def consumers(load: Load, count: int, rng: Random, first: int = 0) -> Iterator[Consumer]:
    for number in range(first, first + count):
        yield Consumer(load, f"c{number}", Random(rng.random()))


class Speaker(Actor[Gearman]):
    """One connection."""

    protocol = "gearman"

    def connect(self) -> Gearman:
        return Gearman(self.port, timeout=self.load.plan.timeout_s)


class Producer(Offering[Gearman, bytes], Speaker):
    """Submits jobs in its own style as long as the backlog is small."""

    def job_of(self, jid: str) -> bytes:
        return bodies.bytes_for(jid, self.rng)

    def offer(self, kind: Type, unique: bytes = b"") -> tuple[bytes, Event]:
        """The packet of a background job, and what is to be written down about it."""
        jid, body = self.next_job()
        self.offered[jid] = body
        queue = self.load.plan.queue
        event = self.begin(
            "push", jid, queue=queue, body=bodies.told(body)[1], prio=_PRIORITIES[kind]
        )
        return request(kind, queue.encode(), unique, body), event

    def created(self, client: Gearman, event: Event) -> bytes:
        """Read the answer to a submit; the handle."""
        answer = client.wait_for(Type.JOB_CREATED)
        self.offered.pop(event.jid, None)
        refused = answer.type is Type.ERROR
        self.done += not refused
        self.end(event, "no" if refused else "ok")
        return answer.body


def _submit_one(actor: Producer, client: Gearman) -> None:
    packet, event = actor.offer(actor.rng.choices(list(_PRIORITIES), (8, 1, 1))[0])
    client.send_bytes(packet)
    actor.created(client, event)


def _submit_many(actor: Producer, client: Gearman) -> None:
    offers = [actor.offer(Type.SUBMIT_JOB_BG) for _ in range(actor.rng.randint(2, 30))]
    client.send_bytes(b"".join(packet for packet, _ in offers))
    for _, event in offers:
        actor.created(client, event)


def _submit_and_wait(actor: Producer, client: Gearman) -> None:
    """Wait for a job of one's own, or join one that was submitted in the background."""
    queue, rng = actor.load.plan.queue, actor.rng
    jid, body = actor.next_job()
    digest = bodies.told(body)[1]
    joins = rng.random() < 0.3
    unique = jid.encode() if joins or rng.random() < 0.5 else b""
    fields = {"queue": queue, "body": digest, "unique": unique.decode(), "prio": 1}
    if joins:
        event = actor.begin("push", jid, **fields)
        client.send(Type.SUBMIT_JOB_HIGH_BG, queue.encode(), unique, body)
        actor.created(client, event)
    event = actor.begin("push", jid, waits=True, volatile=True, **fields)
    client.send(Type.SUBMIT_JOB_HIGH, queue.encode(), unique, body)
    handle = actor.created(client, event)
    _hear_the_end(actor, client, jid, handle, digest)


def _hear_the_end(actor: Producer, client: Gearman, jid: str, handle: bytes, digest: str) -> None:
    heard = actor.begin("result", jid)
    client.set_timeout(PATIENCE_S)
    try:
        end = client.result(handle)
    except TimeoutError:
        actor.load.complain(f"{actor.conn} waits for {jid} for ever")
        raise
    for packet in client.aside:
        _hear_a_part(actor, jid, handle, packet)
    client.aside.clear()
    actor.end(heard)
    client.set_timeout(actor.load.plan.timeout_s)
    right = {Type.WORK_COMPLETE: (digest.encode(), b""), Type.WORK_FAIL: (b"",)}
    if end.data not in right.get(end.type, ()):
        actor.load.complain(f"{actor.conn}: {jid} ended with {end}")


def _hear_a_part(actor: Producer, jid: str, handle: bytes, packet: Packet) -> None:
    if packet.type is not Type.WORK_DATA or packet.handle != handle:
        actor.load.complain(f"{actor.conn} waits for {jid} and hears {packet}")
        return
    actor.end(actor.begin("data", jid, seq=int(packet.data)))


class Consumer(Speaker):
    """Grabs a few and finishes them; sometimes it fails one, or dies with all it holds."""

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self._asleep = False

    def greet(self, client: Gearman) -> None:
        self._asleep = False
        client.can_do(self.load.plan.queue)
        if self.rng.random() < 0.5:
            self._asleep = True  # many libraries sleep first and wait to be woken
            client.send(Type.PRE_SLEEP)

    def step(self, client: Gearman) -> bool:
        if self.load.stopping.is_set():
            return False
        if self._asleep and not self._woken(client):
            return True
        held = self._grab(client)
        if held and self.load.is_rough and self.rng.random() < 0.01:
            return False  # dies with all it holds
        if held:
            self.toil()
            self._report(client, held)
        else:
            self._asleep = True
            client.send(Type.PRE_SLEEP)
        return True

    def _woken(self, client: Gearman) -> bool:
        client.set_timeout(NAP_S)
        try:
            client.wait_for(Type.NOOP)
        except TimeoutError:
            return False
        finally:
            client.set_timeout(self.load.plan.timeout_s)
        self._asleep = False
        return True

    def _grab(self, client: Gearman) -> list[tuple[Work, str]]:
        """Ask for a few at once; the jobs, and what the history calls them."""
        plenty = self.load.backlog > 200 and not self.load.draining.is_set()
        eager = self.rng.choice((1, 4, 16)) if plenty else 1
        queue = self.load.plan.queue
        events = [self.begin("fetch", queue=queue) for _ in range(eager)]
        kind = self.rng.choice(_GRABS)
        client.send_bytes(request(kind) * eager)
        held: list[tuple[Work, str]] = []
        for event in events:
            answer = client.wait_for(
                Type.NO_JOB, Type.JOB_ASSIGN, Type.JOB_ASSIGN_UNIQ, Type.JOB_ASSIGN_ALL
            )
            work = work_in(answer)
            if work is None:
                self.end(event, "no")
                continue
            event.jid, event.body = bodies.told(work.body)
            self.end(event)
            held.append((work, event.jid))
        client.aside.clear()
        return held

    def _report(self, client: Gearman, held: list[tuple[Work, str]]) -> None:
        for work, jid in held:
            fails = self.load.is_rough and self.rng.random() < 0.01
            event = self.begin("fail" if fails else "ack", jid)
            if fails:
                words = request(Type.WORK_FAIL, work.handle)
            else:
                parts = range(3 if self.rng.random() < 0.05 else 0)
                words = b"".join(request(Type.WORK_DATA, work.handle, b"%d" % n) for n in parts)
                result = bodies.told(work.body)[1].encode()
                words += request(Type.WORK_COMPLETE, work.handle, result)
            client.send_bytes(words)
            refused = client.echo()
            self.end(event, "no" if refused else "ok")
            self.done += not refused
