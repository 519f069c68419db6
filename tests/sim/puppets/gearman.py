"""Gearman producers, waiting clients and workers, speaking with a codec of their own.

A waiting client must hear one end for each submit that was accepted, never before its JOB_CREATED and
never twice. A worker sleeps and is woken, keeps what it holds whatever it says it can do, and asks for an echo
behind each report, because nothing else tells it that the report was heard.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, deque
from random import Random

import msgspec

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.protocols.conversation import Service
from franca.protocols.gearman.service import GearmanService, GearmanSettings
from tests.prove.events import Event, digest
from tests.sim.puppets import QUEUES, SOMEDAY
from tests.sim.puppets.client import NEVER, Client
from tests.sim.world import World
from tests.support.gearman import ENDS, Packet, Type, Work, request, take_packet, work_in

TIMEOUT_S = 5
SHARED = 6
"""Jobs that several clients submit under one unique id, at different times and in different ways."""

_PRIORITIES = {Type.SUBMIT_JOB_BG: 0, Type.SUBMIT_JOB_HIGH_BG: 1, Type.SUBMIT_JOB_LOW_BG: -1}
_GRABS = (Type.GRAB_JOB, Type.GRAB_JOB_UNIQ, Type.GRAB_JOB_ALL)


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of it."""
    service = GearmanService(broker, GearmanSettings(), rng, lambda: None)
    return {service.name: service}


class Speaker(Client):
    """Packets in any order; which belong to what, those who are built on it know."""

    protocol = "gearman"

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._unread = bytearray()

    def connected(self) -> None:
        """There is no greeting."""
        self._unread.clear()
        self.ready = True
        self.begun()
        self.after(1, 200)

    def begun(self) -> None:
        """A new connection, and nothing said on it."""

    def heard(self, data: bytes, now: Millis) -> None:
        """Read packets."""
        self._unread += data
        while (packet := take_packet(self._unread)) is not None:
            self.on_packet(packet)

    def send(self, kind: Type, *arguments: bytes) -> None:
        """Say one packet."""
        assert self.wire is not None
        self.wire.say(request(kind, *arguments))

    @abstractmethod
    def on_packet(self, packet: Packet) -> None:
        """Something was said to us."""


class _Offer(msgspec.Struct):
    """A job as it was submitted, so that it can be submitted again."""

    kind: Type
    jid: str
    queue: str
    unique: str
    body: bytes
    epoch: int = 0


class Submitter(Speaker):
    """What producers and waiting clients have in common: JOB_CREATED in the order of the submits."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._count = 0
        self._asked: deque[tuple[Event, _Offer]] = deque()

    def begun(self) -> None:
        """Nothing is asked yet."""
        self._asked.clear()

    def new(self, kind: Type) -> _Offer:
        """A job of one's own, or one of those that many submit."""
        rng = self.rng
        if rng.random() < 0.2:
            number = rng.randrange(SHARED)
            jid = f"shared-{number}"
            queue = QUEUES[number % len(QUEUES)]
            return _Offer(kind, jid, queue, jid, msgspec.json.encode([jid, "x" * number]))
        self._count += 1
        jid = f"{self.name}-{self._count:06}"
        unique = jid if rng.random() < 0.3 else ""
        body = msgspec.json.encode([jid, "x" * rng.randrange(40), rng.random()])
        return _Offer(kind, jid, rng.choice(QUEUES), unique, body)

    def submit(self, offer: _Offer, event: Event) -> None:
        """Say it, and expect its JOB_CREATED."""
        event.jid, event.queue, event.unique = offer.jid, offer.queue, offer.unique
        event.body = digest(offer.body)
        self._asked.append((self.begin(event), offer))
        arguments = [offer.queue.encode(), offer.unique.encode(), offer.body]
        if offer.kind is Type.SUBMIT_JOB_EPOCH:
            arguments.insert(2, b"%d" % offer.epoch)
        self.send(offer.kind, *arguments)

    def on_packet(self, packet: Packet) -> None:
        """The oldest submit is answered first."""
        assert packet.type is Type.JOB_CREATED, packet
        event, _ = self._asked.popleft()
        self.end(event)
        self.accepted(event, packet.body)

    @abstractmethod
    def accepted(self, event: Event, handle: bytes) -> None:
        """The job is taken."""


class Producer(Submitter):
    """Submits jobs that nobody waits for; some again, because nobody said they had come."""

    def __init__(self, world: World, name: str, *, exact_times: bool) -> None:
        super().__init__(world, name)
        self._exact_times = exact_times
        self._doubtful: list[_Offer] = []
        self._offers: dict[str, _Offer] = {}

    def work(self, now: Millis) -> None:
        """One or a few more, unless it is time to go home."""
        if self.retiring:
            self.next_at = NEVER
            return
        self.offer_some(self._doubtful, self._next, self._submit)

    def _next(self) -> _Offer:
        offer = self.new(self.rng.choices(list(_PRIORITIES), (6, 2, 2))[0])
        if self.rng.random() < 0.15 and not offer.jid.startswith("shared"):
            offer.kind = Type.SUBMIT_JOB_EPOCH
            offer.epoch = (self.world.wall() + self.rng.randrange(-5_000, 900_000)) // 1000
            offer.queue = offer.queue if self._exact_times else SOMEDAY
        return offer

    def _submit(self, offer: _Offer) -> None:
        event = Event("push", prio=_PRIORITIES.get(offer.kind, 0))
        if offer.epoch and self._exact_times:
            event.at = float(offer.epoch)
        self._offers[offer.jid] = offer
        self.submit(offer, event)

    def accepted(self, event: Event, handle: bytes) -> None:
        """It must be on the disk from now on."""
        self.world.tally.accept(handle.decode(), event.queue)
        self.world.names[handle.decode()] = event.jid

    def unanswered(self, event: Event) -> None:
        """Say it again some time, or do not."""
        if self.rng.random() < 0.5:
            self._doubtful.append(self._offers[event.jid])


class Waiter(Submitter):
    """Waits for a few jobs at once; now and then it goes away, or others wait for the same."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._waits: Counter[bytes] = Counter()
        self._jids: dict[bytes, str] = {}

    def begun(self) -> None:
        """Whatever was waited for is not any more."""
        super().begun()
        self._waits.clear()

    def work(self, now: Millis) -> None:
        """One more, or a sudden end."""
        if self.waits_no_more():
            return
        if self._waits.total() + len(self._asked) < 4:
            kinds = (Type.SUBMIT_JOB, Type.SUBMIT_JOB_HIGH, Type.SUBMIT_JOB_LOW)
            kind = self.rng.choice(kinds)
            event = Event("push", waits=True, volatile=True, prio=(0, 1, -1)[kinds.index(kind)])
            self.submit(self.new(kind), event)
        self.after(1, 8_000)

    def accepted(self, event: Event, handle: bytes) -> None:
        """From now on its end must come."""
        self._waits[handle] += 1
        self._jids[handle] = event.jid
        self.world.names[handle.decode()] = event.jid

    def on_packet(self, packet: Packet) -> None:
        """JOB_CREATED, a part, or an end."""
        if packet.type is Type.JOB_CREATED:
            super().on_packet(packet)
            return
        assert self._waits[packet.handle] > 0, f"{self.name} did not wait for {packet}"
        if packet.type in ENDS:
            self._waits[packet.handle] -= 1
            self.end(self.begin(Event("result", jid=self._jids[packet.handle])))
        else:
            assert packet.type in (Type.WORK_DATA, Type.WORK_STATUS), packet

    def is_content(self) -> bool:
        """Nothing is waited for."""
        return not self._waits.total()


class Worker(Speaker):
    """Sleeps, grabs, runs, and reports; or fails, oversleeps, vanishes."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._timed = self.rng.random() < 0.3
        self._is_sleepy = self.rng.random() < 0.25
        self._asking: Event | None = None
        self._asleep = False
        self._held: tuple[Work, Event] | None = None
        self._word_at: Millis = NEVER
        self._reporting: Event | None = None

    def begun(self) -> None:
        """Say what one can do; some libraries sleep before they ever ask."""
        self._asking = self._held = self._reporting = None
        self._asleep = False
        for queue in (*QUEUES, SOMEDAY):
            if self._timed:
                self.send(Type.CAN_DO_TIMEOUT, queue.encode(), b"%d" % (TIMEOUT_S * 1000))
            else:
                self.send(Type.CAN_DO, queue.encode())
        if self.rng.random() < 0.5:
            self._sleep()

    def claim(self, now: Millis) -> tuple[str, str] | None:
        """What it was given it has, unless it gave itself a time, or the job has one."""
        if self._held is None or self._held[1].reserve is not None or self.wire is None:
            return None
        name = self._held[0].handle.decode()
        if name not in self.world.names:
            return None  # of another protocol, or its producer was never told
        return name, self.wire.link.id

    def work(self, now: Millis) -> None:
        """Report if the job is done; ask for one if there is none and one is awake."""
        if self._held is not None:
            self._finish(now)
        elif self._asking is None and self._reporting is None and not self._asleep:
            self._asking = self.begin(Event("fetch"))
            self.send(self.rng.choice(_GRABS))
        self.next_at = self._word_at if self._held is not None else NEVER

    def on_packet(self, packet: Packet) -> None:
        """A job, none, a NOOP, an echo, or an error."""
        if packet.type is Type.NOOP:
            assert self._asleep, f"{self.name} was woken and is not asleep"
            self._asleep = False
            self.after(1, 50)
        elif packet.type is Type.ECHO_RES:
            self._reported()
        elif packet.type is Type.ERROR:
            assert packet.handle == b"JOB_NOT_FOUND", packet
            if self._reporting is not None:
                self._reporting.out = "no"
            else:  # a part of the result that came when the job's time was over
                assert self._held is not None, packet
                assert self._held[1].reserve is not None, packet
        else:
            self._answered(packet)

    def _answered(self, packet: Packet) -> None:
        event, self._asking = self._asking, None
        assert event is not None, packet
        work = work_in(packet)
        if work is None:
            # That the server had none is no news: whoever sleeps then must be woken.
            self.forget(event)
            self._sleep()
            return
        jid: str = msgspec.json.decode(work.body)[0]
        event.jid, event.queue, event.body = jid, work.function.decode(), digest(work.body)
        event.reserve = float(TIMEOUT_S) if self._timed else None
        self.end(event)
        self._held = (work, event)
        self._word_at = self.next_at = self.world.now + self._plan()
        if self.rng.random() < 0.3:
            self.send(Type.WORK_STATUS, work.handle, b"1", b"2")
            self.send(Type.WORK_DATA, work.handle, b"part")
        if self.rng.random() < 0.1 and not self.retiring:
            self.send(Type.RESET_ABILITIES)  # it leaves soon, and keeps what it has
            for queue in QUEUES:
                self.send(Type.CAN_DO, queue.encode())
            self.send(Type.CAN_DO, SOMEDAY.encode())
            self._timed = False

    def _sleep(self) -> None:
        self._asleep = True
        self.send(Type.PRE_SLEEP)

    def _plan(self) -> int:
        spans = ((1, 4_000), (10_000, 50_000), (60_000, 150_000))
        weights = (30, 30, 40) if self._is_sleepy else (85, 9, 6)
        return self.run_time(spans, weights)

    def _finish(self, now: Millis) -> None:
        assert self._held is not None
        if now < self._word_at:
            return
        work, fetched = self._held
        self._held = None
        word = self.last_word(("ack", "fail", "exception", "vanish"), (76, 8, 8, 8))
        if word == "vanish" and self.wire is not None:
            self.world.hang_up(self.wire)
            return
        self._reporting = self.begin(Event("ack" if word == "ack" else "fail", jid=fetched.jid))
        if word == "ack":
            self.send(Type.WORK_COMPLETE, work.handle, b"done")
        else:
            if word == "exception":
                self.send(Type.WORK_EXCEPTION, work.handle, b"it broke")
            self.send(Type.WORK_FAIL, work.handle)
        self.send(Type.ECHO_REQ, b"heard?")

    def _reported(self) -> None:
        assert self._reporting is not None
        self.end(self._reporting, self._reporting.out)
        self._reporting = None
        self.after(1, 300)


def populate(world: World, *, exact_times: bool) -> None:
    """Some of each."""
    rng = world.rng
    world.puppets += [
        *(
            Producer(world, f"g-prod{n}", exact_times=exact_times)
            for n in range(rng.randrange(1, 3))
        ),
        *(Waiter(world, f"g-wait{n}") for n in range(rng.randrange(1, 4))),
        *(Worker(world, f"g-work{n}") for n in range(rng.randrange(1, 5))),
    ]
