"""Periodic producers, waiting clients and workers, in today's dialect and in the document's.

A name is submitted again while its job waits or runs: then the newest must run, or one that came after it.
A worker of the document's time is answered nothing: a PING behind each report says that it was heard.
"""

from __future__ import annotations

import json
import struct
from abc import abstractmethod
from random import Random

import msgspec

from franca.core.broker import Broker
from franca.core.model import Millis, State
from franca.protocols.conversation import Service
from franca.protocols.periodic.service import PeriodicService, PeriodicSettings
from tests.prove.events import Event, digest
from tests.sim.puppets import QUEUES, SOMEDAY
from tests.sim.puppets.client import NEVER, Client
from tests.sim.world import World
from tests.support import periodic as p
from tests.support.periodic import CRC, DOC, Assigned, Message

SLOTS = 3
"""Names that a producer submits again and again."""
TIMEOUTS_S = (0, 0, 12, 12, 30)


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of it."""
    service = PeriodicService(broker, PeriodicSettings(), rng, lambda: None)
    return {service.name: service}


class Speaker(Client):
    """Messages by their ids; which belong to what, those who are built on it know."""

    service = "periodic"
    role = p.CLIENT

    def __init__(self, world: World, name: str, dialect: str) -> None:
        super().__init__(world, name)
        self.dialect = dialect
        self.protocol = "periodic" if dialect == CRC else "periodic-doc"
        self._unread = bytearray()
        self._ids = 0
        self._greeted = False

    def connected(self) -> None:
        """Say what one is. The document's dialect must say more before a second is over."""
        assert self.wire is not None
        self._unread.clear()
        self._greeted = self.dialect == DOC
        registration = p.framed(self.dialect, bytes([self.role]))
        if self.dialect == CRC:
            self.wire.say(registration)
        else:
            self.wire.say(registration + p.message(DOC, p.PING, b"", b"0"))
            self._begin()

    def _begin(self) -> None:
        self._greeted = self.ready = True
        self.begun()
        self.after(1, 200)

    def begun(self) -> None:
        """A new connection, and nothing said on it."""

    def heard(self, data: bytes, now: Millis) -> None:
        """Read answers."""
        self._unread += data
        while (payload := p.take_payload(self.dialect, self._unread)) is not None:
            if not self._greeted:
                assert (len(payload), payload[0]) == (4, p.DATA), payload
                self._begin()
                continue
            message = p.parsed(self.dialect, payload)
            if message.command != p.PONG or self.dialect == CRC:
                self.on_message(message)
            else:
                self.on_pong()

    def send(self, command: int, args: bytes = b"", msgid: bytes = b"") -> bytes:
        """Say a command; returns its id."""
        assert self.wire is not None
        if not msgid:
            self._ids += 1
            msgid = struct.pack(">I", self._ids) if self.dialect == CRC else b"%d" % self._ids
        self.wire.say(p.message(self.dialect, command, args, msgid))
        return msgid

    @abstractmethod
    def on_message(self, message: Message) -> None:
        """Something was said to us."""

    def on_pong(self) -> None:
        """What was said before the last PING was heard."""


class _Offer(msgspec.Struct):
    """A job as it was submitted, so that it can be submitted again."""

    jid: str
    name: str
    queue: str
    body: bytes
    at: int = 0
    timeout: int = 0

    def args(self, dialect: str) -> bytes:
        if dialect == CRC:
            return p.packed(self.queue, self.name, self.body, at=self.at, timeout=self.timeout)
        job = {"func": self.queue, "name": self.name, "workload": self.body.decode()}
        return json.dumps(job | {"sched_at": self.at, "timeout": self.timeout}).encode()


class Producer(Speaker):
    """Submits jobs, some of them again and again under one name; some again because nobody answered."""

    def __init__(self, world: World, name: str, dialect: str, *, exact_times: bool) -> None:
        super().__init__(world, name, dialect)
        self._exact_times = exact_times
        self._count = 0
        self._asked: dict[bytes, tuple[Event, _Offer]] = {}
        self._doubtful: list[_Offer] = []
        self._offers: dict[str, _Offer] = {}
        self._versions: dict[str, list[str]] = {}
        self._kept: dict[str, int] = {}

    def gone(self, now: Millis) -> None:
        """Nothing is asked any more."""
        self._asked.clear()

    def work(self, now: Millis) -> None:
        """One or a few more, unless it is time to go home."""
        if self.retiring:
            self.next_at = NEVER
            return
        self.offer_some(self._doubtful, self._next, self._submit)

    def _next(self) -> _Offer:
        rng = self.rng
        self._count += 1
        jid = f"{self.name}-{self._count:06}"
        body = msgspec.json.encode([jid, "x" * rng.randrange(40), rng.random()])
        timeout = rng.choice(TIMEOUTS_S)
        if rng.random() < 0.3:
            number = rng.randrange(SLOTS)
            slot = f"{self.name}-slot{number}"
            self._versions.setdefault(slot, []).append(jid)
            return _Offer(jid, slot, QUEUES[number % len(QUEUES)], body, 0, timeout)
        offer = _Offer(jid, jid, rng.choice(QUEUES), body, 0, timeout)
        if rng.random() < 0.15:
            offer.at = (self.world.wall() + rng.randrange(-5_000, 900_000)) // 1000
            offer.queue = offer.queue if self._exact_times else SOMEDAY
        return offer

    def _submit(self, offer: _Offer) -> None:
        event = Event("push", jid=offer.jid, queue=offer.queue, body=digest(offer.body))
        event.reserve = float(offer.timeout or 600)
        if offer.at and self._exact_times:
            event.at = float(offer.at)
        self._offers[offer.jid] = offer
        if offer.name != offer.jid:
            # It may be replaced before it is run, and waits behind a run of its name: its own
            # producer knows what must come of it, the history does not.
            self.end(self.begin(Event("remove", jid=offer.jid)), "maybe")
        self._asked[self.send(p.SUBMIT_JOB, offer.args(self.dialect))] = (self.begin(event), offer)

    def on_message(self, message: Message) -> None:
        """A submit is answered."""
        event, offer = self._asked.pop(message.msgid)
        assert message.command == p.SUCCESS, message
        self.end(event)
        self.world.tally.accept(offer.name, offer.queue)
        if offer.name != offer.jid:
            place = self._versions[offer.name].index(offer.jid)
            self._kept[offer.name] = max(self._kept.get(offer.name, 0), place)

    def unanswered(self, event: Event) -> None:
        """Say it again some time, or do not; of names that are used again, only the newest."""
        offer = self._offers.get(event.jid)
        is_own = event.op == "push" and offer is not None and offer.name == offer.jid
        if is_own and offer is not None and self.rng.random() < 0.5:
            self._doubtful.append(offer)

    def is_content(self) -> bool:
        """Of each name the newest that was accepted has run, or one that came after it."""
        ran = {e.jid for e in self.world.history if e.op == "fetch"}
        dead = {j.name for j in self.world.disk.rows.values() if j.state is State.DEAD}
        removed = self.world.tally.removed.intersection(QUEUES)
        return bool(removed) or all(
            slot in dead or ran.intersection(self._versions[slot][place:])
            for slot, place in self._kept.items()
        )


class Waiter(Speaker):
    """Runs a few jobs at once and waits for them; now and then it goes away."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, CRC)
        self._count = 0
        self._waits: dict[bytes, Event] = {}

    def gone(self, now: Millis) -> None:
        """Whatever was waited for is not any more."""
        self._waits.clear()

    def work(self, now: Millis) -> None:
        """One more, or a sudden end."""
        if self.waits_no_more():
            return
        if len(self._waits) < 4:
            self._count += 1
            jid = f"{self.name}-{self._count:06}"
            queue = self.rng.choice(QUEUES)
            body = msgspec.json.encode([jid])
            event = Event("push", jid=jid, queue=queue, body=digest(body), waits=True)
            event.volatile, event.reserve = True, 60.0
            args = p.packed(queue, jid, body, timeout=60)
            self._waits[self.send(p.RUN_JOB, args)] = self.begin(event)
        self.after(1, 8_000)

    def on_message(self, message: Message) -> None:
        """The end of a job, or that nobody would run it."""
        event = self._waits.pop(message.msgid)
        if message.command == p.NO_WORKER:
            self.end(event, "no")
            return
        assert message.command == p.DATA, message
        self.end(event)
        if message.data in (b"failed", b"expired", b"removed"):
            self.end(self.begin(Event("remove", jid=event.jid)), "maybe")
        if message.data != b"expired":
            self.end(self.begin(Event("result", jid=event.jid)))

    def is_content(self) -> bool:
        """Nothing is waited for."""
        return not self._waits


class Worker(Speaker):
    """Grabs, runs, and reports; or fails, puts off, oversleeps, vanishes."""

    role = p.WORKER

    def __init__(self, world: World, name: str, dialect: str) -> None:
        super().__init__(world, name, dialect)
        self._is_sleepy = self.rng.random() < 0.4
        self._grab: tuple[bytes, Event] | None = None
        self._held: tuple[Assigned, Event] | None = None
        self._word_at: Millis = NEVER
        self._reporting: tuple[bytes, Event] | None = None
        self._refused: dict[bytes, Event] = {}
        self._said_again_at: Millis = NEVER

    def gone(self, now: Millis) -> None:
        """What was held is another's."""
        self._grab = self._held = self._reporting = None
        self._refused.clear()

    def begun(self) -> None:
        """Say what one can do."""
        for queue in (*QUEUES, SOMEDAY):
            self.send(p.CAN_DO, p.str8(queue) if self.dialect == CRC else queue.encode())

    def claim(self, now: Millis) -> tuple[str, str] | None:
        """What it was given it has, as long as the job's time surely lasts."""
        if self._held is None or self.wire is None or self.wire.link.closing:
            return None
        job, event = self._held
        # It was not given out before it was asked for, nor before its time by an honest clock.
        since = event.t0 if self.world.tally.jumps else max(event.t0, job.sched_at)
        if event.reserve is None or now >= 1000 * (since + event.reserve):
            return None
        if not job.name.startswith("p-prod"):
            return None  # of another protocol, under another name, or one that others may take away
        return job.name, f"periodic {self.wire.link.id}"

    def work(self, now: Millis) -> None:
        """Report if the job is done; ask for one if there is none."""
        if self._held is not None:
            self._finish(now)
        elif self._grab is None and self._reporting is None:
            event = self.begin(Event("fetch"))
            self._grab = (self.send(p.GRAB_JOB), event)
        elif self._grab is not None and self.dialect == CRC and self.rng.random() < 0.3:
            self.send(p.GRAB_JOB, msgid=self._grab[0])
            self._said_again_at = now
        self.next_at = self._word_at if self._held is not None else self.world.now + 30_000

    def on_message(self, message: Message) -> None:
        """A job, or that something was heard."""
        if message.command == p.JOB_ASSIGN:
            if self._grab is None:
                self._refuse(message)
            else:
                self._given(message)
        elif message.msgid in self._refused:
            assert message.command == p.SUCCESS, message
            self.end(self._refused.pop(message.msgid))
        elif self._reporting is not None and message.msgid == self._reporting[0]:
            assert message.command == p.SUCCESS, message
            self._reported()
        else:
            assert message.command in (p.SUCCESS, p.PONG), message

    def on_pong(self) -> None:
        """In the document's dialect only this tells that a report was heard."""
        if self._reporting is not None:
            self._reported()

    def _refuse(self, message: Message) -> None:
        """A GRAB_JOB said again crossed with the job that answered it: one too many."""
        assert self.dialect == CRC, f"{self.name} did not ask for {message}"
        job = p.assigned(self.dialect, message)
        event = self.begin(Event("fetch", jid=msgspec.json.decode(job.workload)[0], queue=job.func))
        event.body, event.reserve = digest(job.workload), float(job.timeout)
        event.t0 = self._said_again_at / 1000
        self.end(event)
        report = self.begin(Event("fail", jid=event.jid))
        self._refused[self.send(p.WORK_FAIL, job.handle)] = report

    def _given(self, message: Message) -> None:
        assert self._grab is not None, f"{self.name} did not ask for {message}"
        assert self._held is None, f"{self.name} has a job already"
        msgid, event = self._grab
        assert msgid == message.msgid, message
        self._grab = None
        job = p.assigned(self.dialect, message)
        event.jid = msgspec.json.decode(job.workload)[0]
        event.queue, event.body = job.func, digest(job.workload)
        event.reserve = float(job.timeout) if job.timeout else None
        self.end(event)
        self._held = (job, event)
        self._word_at = self.next_at = self.world.now + self._plan()

    def _plan(self) -> int:
        spans = ((1, 3_000), (11_000, 26_000), (60_000, 100_000))
        weights = (40, 55, 5) if self._is_sleepy else (88, 10, 2)
        return self.run_time(spans, weights)

    def _finish(self, now: Millis) -> None:
        assert self._held is not None
        if now < self._word_at:
            return
        job, fetched = self._held
        self._held = None
        word = self.last_word(("ack", "fail", "release", "vanish"), (70, 14, 8, 8))
        if word == "vanish" and self.wire is not None:
            self.world.hang_up(self.wire)
            return
        op = {"ack": "ack", "fail": "fail", "release": "release"}[word]
        event = self.begin(Event(op, jid=fetched.jid))  # type: ignore[arg-type]
        if word == "ack":
            msgid = self.send(p.WORK_DONE, job.handle)
        elif word == "fail":
            msgid = self.send(p.WORK_FAIL, job.handle)
        else:
            delay = self.rng.randrange(3)
            args = job.handle + struct.pack(">qh", delay, 1)
            if self.dialect == DOC:
                args = p.SEPARATOR.join((job.handle, b"%d" % delay, b"1"))
            msgid = self.send(p.SCHED_LATER, args)
        self._reporting = (msgid, event)
        if self.dialect == DOC:
            self.send(p.PING)

    def _reported(self) -> None:
        assert self._reporting is not None
        self.end(self._reporting[1])
        self._reporting = None
        self.after(1, 300)


def populate(world: World, *, exact_times: bool) -> None:
    """Some of each, in both dialects."""
    rng = world.rng

    def dialect() -> str:
        return rng.choice((CRC, CRC, DOC))

    world.puppets += [
        *(
            Producer(world, f"p-prod{n}", dialect(), exact_times=exact_times)
            for n in range(rng.randrange(1, 3))
        ),
        *(Waiter(world, f"p-wait{n}") for n in range(rng.randrange(0, 3))),
        *(Worker(world, f"p-work{n}", dialect()) for n in range(rng.randrange(1, 5))),
    ]
