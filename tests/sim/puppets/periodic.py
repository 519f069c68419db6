"""Periodic producers, waiting clients and workers, in today's dialect.

A submit is kept before SUCCESS, replaces a pending job of its name, and is run after a run that goes on. Who waits by RUN_JOB
hears one answer. A worker's words are confirmed; a GRAB_JOB waits for its job for ever.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from random import Random
from zlib import crc32

import msgspec

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.protocols.conversation import Service
from franca.protocols.periodic.service import PeriodicService, PeriodicSettings
from tests.prove.events import Event, digest
from tests.sim.puppets import QUEUES, SOMEDAY
from tests.sim.puppets.client import NEVER, Client
from tests.sim.world import World
from tests.support import periodic as p
from tests.support.periodic import Assigned, Message, packed, str8, unpacked

PING_MS = 50_000
TIMEOUTS_S = (5, 60, 90)
ALWAYS = 1_000_000
"""A failed job is run again as often as it takes."""

Hear = Callable[[Message], None]


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of it."""
    service = PeriodicService(broker, PeriodicSettings(), rng, lambda: None)
    return {service.name: service}


class Speaker(Client):
    """Requests with ids, and their answers in any order."""

    protocol = "periodic"
    role = p.CLIENT

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._unread = bytearray()
        self._asked: dict[bytes, Hear] = {}
        self._ids = 0
        self._ping_at: Millis = 0

    def connected(self) -> None:
        """Register, and be welcomed."""
        self._unread.clear()
        self._asked.clear()
        self._send(bytes([self.role]))
        self._ping_at = self.world.now + PING_MS

    def heard(self, data: bytes, now: Millis) -> None:
        """Read frames."""
        self._unread += data
        while len(self._unread) >= 12:
            magic, size, crc = struct.unpack_from(">4sII", self._unread)
            if len(self._unread) < 12 + size:
                return
            payload = bytes(self._unread[12 : 12 + size])
            assert magic == b"\0RES"
            assert crc == crc32(payload)
            del self._unread[: 12 + size]
            if not self.ready:
                self.ready = True
                self.begun()
                self.after(1, 200)
            else:
                self.on_message(Message(payload[:4], payload[4], payload[5:]))

    def begun(self) -> None:
        """The server knows who this is."""

    def on_message(self, message: Message) -> None:
        """An answer, or something that was not asked for."""
        hear = self._asked.pop(message.msgid, None)
        assert hear is not None, f"{self.name} did not ask for {message}"
        hear(message)

    def say(self, command: int, args: bytes, hear: Hear) -> bytes:
        """Ask something."""
        self._ids += 1
        msgid = struct.pack(">I", self._ids)
        self._asked[msgid] = hear
        self._send(msgid + bytes([command]) + args)
        return msgid

    def work(self, now: Millis) -> None:
        """Say that one is alive now and then, and do what one came for."""
        if now >= self._ping_at:
            self._ping_at = now + PING_MS
            self.say(p.PING, b"", lambda answer: _expect(answer, p.PONG))
        self.toil(now)
        self.next_at = min(self.next_at, self._ping_at)

    @abstractmethod
    def toil(self, now: Millis) -> None:
        """Do one thing."""

    def _send(self, payload: bytes) -> None:
        assert self.wire is not None
        self.wire.say(b"\0REQ" + struct.pack(">II", len(payload), crc32(payload)) + payload)


def _expect(answer: Message, command: int) -> None:
    assert answer.command == command, answer


class Producer(Speaker):
    """Submits jobs; some again, because nobody said they had come."""

    def __init__(self, world: World, name: str, *, exact_times: bool) -> None:
        super().__init__(world, name)
        self._exact_times = exact_times
        self._count = 0
        self._doubtful: list[tuple[bytes, Event]] = []
        self._jobs: dict[str, tuple[bytes, Event]] = {}

    def toil(self, now: Millis) -> None:
        """One more, unless it is time to go home."""
        self.next_at = NEVER
        if self.retiring:
            return
        if self._doubtful and self.rng.random() < 0.5:
            job, before = self._doubtful.pop()
            self._submit(job, msgspec.structs.replace(before, out="ok"))
        else:
            self._submit(*self._new())
        self.after(1, 20_000 if self.rng.random() < 0.2 else 1_500)

    def _new(self) -> tuple[bytes, Event]:
        rng = self.rng
        self._count += 1
        jid = f"{self.name}-{self._count:06}"
        queue, timeout = rng.choice(QUEUES), rng.choice(TIMEOUTS_S)
        body = msgspec.json.encode([jid, "x" * rng.randrange(40)])
        event = Event("push", jid=jid, queue=queue, body=digest(body), retry=ALWAYS)
        event.reserve = float(timeout)
        at = 0
        if rng.random() < 0.15:
            at = (self.world.wall() + rng.randrange(-5_000, 900_000)) // 1000
            event.at = float(at) if self._exact_times else None
            event.queue = queue = queue if self._exact_times else SOMEDAY
        return packed(queue, jid, body, at=at, timeout=timeout), event

    def _submit(self, job: bytes, event: Event) -> None:
        def hear(answer: Message) -> None:
            _expect(answer, p.SUCCESS)
            self.end(event)
            self.world.tally.accept(event.jid, event.queue)

        self._jobs[event.jid] = (job, event)
        self.begin(event)
        self.say(p.SUBMIT_JOB, job, hear)

    def unanswered(self, event: Event) -> None:
        """Say it again some time, or do not."""
        if self.rng.random() < 0.5:
            self._doubtful.append(self._jobs[event.jid])


class Waiter(Speaker):
    """RUN_JOB: waits for results, one after the other; now and then it goes away."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._count = 0
        self._waiting = False

    def begun(self) -> None:
        """Whatever was waited for is not any more."""
        self._waiting = False

    def toil(self, now: Millis) -> None:
        """One more, or a sudden end."""
        self.next_at = NEVER
        if self.retiring:
            return
        if self.rng.random() < 0.1 and self.wire is not None:
            self.world.hang_up(self.wire)
            return
        if not self._waiting:
            self._run()
        self.after(1, 8_000)

    def _run(self) -> None:
        self._count += 1
        jid = f"{self.name}-{self._count:06}"
        queue, timeout = self.rng.choice(QUEUES), 60
        body = msgspec.json.encode([jid])
        event = Event("push", jid=jid, queue=queue, body=digest(body), waits=True)
        event.reserve = float(timeout)

        def hear(answer: Message) -> None:
            self._waiting = False
            if answer.command == p.NO_WORKER:
                self.end(event, "no")
                return
            _expect(answer, p.DATA)
            assert answer.data in (b"done", b"", b"failed", b"expired", b"removed"), answer
            self.end(event)
            self.end(self.begin(Event("result", jid=jid)))

        self._waiting = True
        self.begin(event)
        self.say(p.RUN_JOB, packed(queue, jid, body, timeout=timeout), hear)

    def is_content(self) -> bool:
        """The answer has come; a wait has an end of its own."""
        return not self._waiting


class Worker(Speaker):
    """Asks for a job, runs it, and reports; or fails, puts off, oversleeps, vanishes."""

    role = p.WORKER

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._is_sleepy = self.rng.random() < 0.25
        self._asking: Event | None = None
        self._grab = b""
        self._held: tuple[Assigned, Event] | None = None
        self._word_at: Millis = NEVER
        self._reporting = False

    def begun(self) -> None:
        """Say what one can do."""
        self._asking = self._held = None
        self._reporting = False
        for queue in (*QUEUES, SOMEDAY):
            self.say(p.CAN_DO, str8(queue), lambda answer: _expect(answer, p.SUCCESS))

    def toil(self, now: Millis) -> None:
        """Report if the job is done; ask for one if there is none."""
        self.next_at = NEVER
        if self._held is not None and now >= self._word_at:
            self._finish()
        elif self._held is None and self._asking is None and not self._reporting:
            self._asking = self.begin(Event("fetch"))
            self._grab = self.say(p.GRAB_JOB, b"", lambda answer: _expect(answer, p.SUCCESS))
        if self._held is not None:
            self.next_at = self._word_at

    def on_message(self, message: Message) -> None:
        """A job comes with the id of the GRAB_JOB, which was answered before."""
        if message.command != p.JOB_ASSIGN:
            super().on_message(message)
            return
        event, self._asking = self._asking, None
        assert event is not None, message
        assert message.msgid == self._grab, message
        job, _ = unpacked(message.data)
        jid: str = msgspec.json.decode(job.workload)[0]
        event.jid, event.queue, event.body = jid, job.func, digest(job.workload)
        event.reserve = float(job.timeout) if job.timeout else None
        self.end(event)
        self._held = (job, event)
        self._word_at = self.next_at = self.world.now + self._plan()

    def _plan(self) -> int:
        if self.retiring:
            return 1
        spans = ((1, 4_000), (10_000, 50_000), (60_000, 150_000))
        weights = (30, 30, 40) if self._is_sleepy else (85, 9, 6)
        least, most = self.rng.choices(spans, weights)[0]
        return self.rng.randrange(least, most)

    def _finish(self) -> None:
        assert self._held is not None
        (job, fetched), self._held = self._held, None
        words = ("ack", "fail", "later", "vanish")
        word = "ack" if self.retiring else self.rng.choices(words, (72, 12, 8, 8))[0]
        if word == "vanish" and self.wire is not None:
            self.world.hang_up(self.wire)
            return
        ops = {"ack": "ack", "fail": "fail", "later": "release"}
        event = self.begin(Event(ops[word], jid=fetched.jid))  # type: ignore[arg-type]

        def hear(answer: Message) -> None:
            _expect(answer, p.SUCCESS)
            self._reporting = False
            self.end(event)
            self.after(1, 300)

        self._reporting = True
        if word == "ack":
            self.say(p.WORK_DONE, job.handle + b"done", hear)
        elif word == "fail":
            self.say(p.WORK_FAIL, job.handle, hear)
        else:
            self.say(p.SCHED_LATER, job.handle + struct.pack(">qh", self.rng.randrange(3), 1), hear)


def populate(world: World, *, exact_times: bool) -> None:
    """Some of each."""
    rng = world.rng
    world.puppets += [
        *(
            Producer(world, f"p-prod{n}", exact_times=exact_times)
            for n in range(rng.randrange(1, 3))
        ),
        *(Waiter(world, f"p-wait{n}") for n in range(rng.randrange(0, 3))),
        *(Worker(world, f"p-work{n}") for n in range(rng.randrange(1, 5))),
    ]
