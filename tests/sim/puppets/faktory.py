"""Faktory producers, workers and an operator: the client's side of `protocols/faktory/wire.py`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import msgspec

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.protocols.conversation import Service
from franca.protocols.faktory import wire as words
from franca.protocols.faktory.info import ServerFacts
from franca.protocols.faktory.service import FaktoryService, FaktorySettings
from franca.protocols.faktory.wire import Reply
from tests.prove.events import Event, digest
from tests.sim.puppets import QUEUES, SOMEDAY
from tests.sim.puppets.client import NEVER, Client
from tests.sim.world import World

BEAT_MS = 15_000
OK = Reply("+", b"OK")

Hear = Callable[[Reply], None]


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of it."""
    service = FaktoryService(broker, FaktorySettings(), rng, lambda now: ServerFacts())
    return {service.name: service}


class Speaker(Client):
    """Requests in order and their replies in order."""

    protocol = "faktory"

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._unread = bytearray()
        self._asked: deque[tuple[Event | None, Hear]] = deque()

    def connected(self) -> None:
        """The server speaks first."""
        self._unread.clear()
        self._asked.clear()
        self._asked.append((None, self._on_greeting))

    def heard(self, data: bytes, now: Millis) -> None:
        """Read replies, each for the oldest request that has none."""
        self._unread += data
        while (reply := words.parse_reply(self._unread)) is not None:
            event, hear = self._asked.popleft()
            if event is not None:
                self.end(event, event.out)
            hear(reply)

    def say(self, data: bytes, event: Event | None, hear: Hear) -> None:
        """Ask something; `event` is written down with its answer."""
        assert self.wire is not None
        if event is not None:
            self.begin(event)
        self._asked.append((event, hear))
        self.wire.say(data)

    def _on_greeting(self, reply: Reply) -> None:
        assert reply == Reply("+", b'HI {"v":2}'), reply
        self.say(words.encode_hello(self.worker), None, self._on_hello)

    def _on_hello(self, reply: Reply) -> None:
        assert reply == OK, reply
        self.ready = True
        self.after(1, 200)


class Producer(Speaker):
    """Pushes jobs, several on their way at once; some again, because nobody said they had come."""

    def __init__(self, world: World, name: str, *, exact_times: bool) -> None:
        super().__init__(world, name)
        self._count = 0
        self._exact_times = exact_times
        self._doubtful: list[tuple[dict[str, object], Event]] = []
        self._jobs: dict[str, dict[str, object]] = {}

    def work(self, now: Millis) -> None:
        """One more, unless it is time to go home."""
        if self.retiring and not self._doubtful:
            self.next_at = NEVER
            return
        if self._doubtful and (self.retiring or self.rng.random() < 0.5):
            job, before = self._doubtful.pop()
            self._push(job, msgspec.structs.replace(before, out="ok"))
        elif not self.retiring:
            self._push(*self._new(now))
        self.after(1, 20_000 if self.rng.random() < 0.2 else 1_500)

    def _new(self, now: Millis) -> tuple[dict[str, object], Event]:
        rng = self.rng
        self._count += 1
        jid = f"{self.name}-{self._count:06}"
        queue, retry = rng.choice(QUEUES), rng.choice((-1, 0, 1, 2, 3, 25))
        reserve = rng.choice((60, 60, 90, 600))
        args = [jid, "x" * rng.randrange(40), rng.random()]
        job: dict[str, object] = {
            "jid": jid, "jobtype": "work", "queue": queue, "args": args,
            "retry": retry, "reserve_for": reserve,
        }  # fmt: skip
        event = Event("push", jid=jid, queue=queue, retry=retry, reserve=float(reserve))
        event.body = digest(msgspec.json.encode(args))
        if rng.random() < 0.2:
            at = self.world.wall() + rng.randrange(-5_000, 900_000)
            job["at"] = _stamp(at)
            # Where the wall clock jumps, its moments cannot be compared with true ones.
            event.at = at / 1000 if self._exact_times else None
            if not self._exact_times:
                event.queue = job["queue"] = SOMEDAY
        return job, event

    def _push(self, job: dict[str, object], event: Event) -> None:
        def hear(reply: Reply) -> None:
            assert reply == OK, reply
            self.world.tally.accept(event.jid, event.queue)

        self._jobs[event.jid] = job
        self.say(words.encode_push(job), event, hear)

    def unanswered(self, event: Event) -> None:
        """Say it again some time, word by word."""
        self._doubtful.append((self._jobs[event.jid], event))


class Worker(Speaker):
    """Fetches, runs, and reports; or fails, oversleeps, vanishes."""

    def __init__(self, world: World, name: str, wid: str) -> None:
        super().__init__(world, name)
        self.worker = wid
        self._beat_at: Millis = 0
        self._fetching = False
        self._report: tuple[Millis, str, str] | None = None
        self._jid = ""
        self._lasts = True
        self._claim = ("", 0)
        self._is_sleepy = self.rng.random() < 0.25

    def claim(self, now: Millis) -> tuple[str, str] | None:
        """The jid that this worker surely holds, and as whom; None if it may hold none."""
        jid, until = self._claim
        if not self._lasts and jid not in self.world.tally.accepted:
            return None  # of another protocol, and perhaps not meant to outlive a crash
        if self._report is None or not self.worker or self._jid != jid or now >= until:
            return None
        return jid, self.worker

    def work(self, now: Millis) -> None:
        """Beat if it is time; report if the job is done; ask for one if there is none."""
        if self.worker and now >= self._beat_at:
            self._beat_at = now + BEAT_MS
            self.say(words.encode_beat(self.worker), None, self._on_beat)
        if self._report is not None:
            self._finish(now)
        elif not self._fetching:
            self._fetching = True
            queues = [*QUEUES, SOMEDAY]
            self.rng.shuffle(queues)
            event = Event("fetch", queue=",".join(queues))
            self.say(words.encode_fetch(*queues), event, lambda reply: self._on_fetch(event, reply))
        self._set_alarm()

    def _set_alarm(self) -> None:
        moments = [self._report[0]] if self._report is not None else []
        if self.worker:
            moments.append(max(self._beat_at, self.world.now + 1))
        self.next_at = min(moments, default=NEVER)

    def _on_beat(self, reply: Reply) -> None:
        assert reply == OK, reply

    def _on_fetch(self, event: Event, reply: Reply) -> None:
        self._fetching = False
        assert reply.kind == "$", reply
        if reply.body is None:
            event.out = "no"
            self.after(1, 10_000)
            return
        job = msgspec.json.decode(reply.body)
        self._jid = job["jid"]
        # One of another protocol bears a name that the server made; its own is in its arguments.
        event.jid, event.queue = job["args"][0], job["queue"]
        event.reserve = float(job["reserve_for"])
        event.body = digest(msgspec.json.encode(job["args"]))
        self._lasts = event.jid.startswith("f-")
        if self._lasts:
            event.attempt = job["failure"]["retry_count"] + 1 if "failure" in job else 0
        ends_at = self.world.now + self._plan()
        word = self.last_word(("ack", "fail", "vanish"), (75, 20, 5))
        self._report = (ends_at, word, event.jid)
        # Counted from before it was asked for, and not beyond: whoever asks twice holds it twice.
        self._claim = (self._jid, int(event.t0 * 1000) + job["reserve_for"] * 1000)
        self._set_alarm()

    def _plan(self) -> int:
        spans = ((1, 4_000), (10_000, 50_000), (60_000, 150_000))
        weights = (30, 30, 40) if self._is_sleepy else (85, 9, 6)
        return self.run_time(spans, weights)

    def _finish(self, now: Millis) -> None:
        assert self._report is not None
        at, word, jid = self._report
        if now < at:
            return
        self._report = None
        if word == "vanish" and self.wire is not None:
            self.world.hang_up(self.wire)
        elif word == "fail":
            event = Event("fail", jid=jid)
            self.say(
                words.encode_fail(self._jid, "it broke", "Oops"),
                event,
                lambda r: self._on_report(event, r),
            )
        else:
            event = Event("ack", jid=jid)
            self.say(words.encode_ack(self._jid), event, lambda r: self._on_report(event, r))

    def _on_report(self, event: Event, reply: Reply) -> None:
        if reply != OK:
            assert reply.kind == "-", reply
            event.out = "no"
        self.after(1, 300)

    def gone(self, now: Millis) -> None:
        """What it ran is forgotten, or reported over the next connection if it has a name."""
        self._fetching = False
        self._beat_at = 0
        if not self.worker or self.rng.random() < 0.5:
            self._report = None


class Operator(Speaker):
    """Pauses, resumes, and changes single jobs."""

    def __init__(self, world: World, name: str, producers: list[Producer]) -> None:
        super().__init__(world, name)
        self._producers = producers
        self._resume: list[str] = []

    def work(self, now: Millis) -> None:
        """One order."""
        if self.retiring:
            if not self._resume:
                self._resume = ["done"]
                for queue in (*QUEUES, SOMEDAY):
                    self._steer("resume", queue)
            self.next_at = NEVER
            return
        what = self.rng.choices(("pause", "resume", "mutate", "remove"), (25, 50, 22, 3))[0]
        if what == "mutate":
            self._mutate()
        else:
            self._steer(what, self.rng.choice(QUEUES))
        self.after(1_000, 60_000)

    def _steer(self, what: str, queue: str) -> None:
        assert what in ("pause", "resume", "remove")
        event = Event(what, queue=queue)  # type: ignore[arg-type]
        if what == "remove":
            self.world.tally.remove(queue)
        self.say(words.encode_line("QUEUE", what.upper(), queue), event, self._on_done)

    def _mutate(self) -> None:
        """Discard or kill one job, or queue it again, if it is where the order looks for it."""
        producer = self.rng.choice(self._producers)
        if not producer._jobs:
            return
        jid = self.rng.choice(list(producer._jobs))
        target = self.rng.choice(("retries", "scheduled", "dead"))
        cmd = self.rng.choice(("discard", "kill", "requeue"))
        if target == "scheduled" and cmd == "requeue":
            return  # it would run before its time, and rightly so
        event = Event("release" if cmd == "requeue" else "remove", jid=jid)
        self.say(
            words.encode_mutate(cmd, target, jids=[jid]),
            event,
            lambda r: self._on_mutated(event, r),
        )

    def _on_mutated(self, event: Event, reply: Reply) -> None:
        """OK is said too where there was no such job in that set."""
        self._on_done(reply)
        event.out = "maybe"

    def _on_done(self, reply: Reply) -> None:
        assert reply == OK, reply

    def unanswered(self, event: Event) -> None:
        """A queue that may not have been resumed may still be paused."""
        if event.op == "resume":
            self.world.history.append(msgspec.structs.replace(event, op="pause", t0=event.t1))

    def gone(self, now: Millis) -> None:
        """Say again at the end what may not have been heard."""
        self._resume = []


def _stamp(at: Millis) -> str:
    text = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def populate(world: World, *, exact_times: bool) -> None:
    """Some of each."""
    rng = world.rng
    producers = [
        Producer(world, f"f-prod{n}", exact_times=exact_times) for n in range(rng.randrange(1, 4))
    ]
    workers = [
        Worker(world, f"f-work{n}", f"wid-{n}" if rng.random() < 0.85 else "")
        for n in range(rng.randrange(2, 6))
    ]
    world.puppets += [*producers, *workers, Operator(world, "operator", producers)]
