"""EventMQ clients and workers, speaking with a codec of their own.

A request is accepted when it is handed to somebody; until then its client knows nothing. A client that
asked for a result must hear it exactly once. A worker asks for the server's STATUS behind each report,
because that answer waits for the disk and nothing else tells that the report was heard.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from random import Random

import msgspec

from franca.core.broker import Broker
from franca.core.model import Millis, OnHangUp
from franca.protocols.conversation import Service
from franca.protocols.eventmq.service import EventmqService, EventmqSettings
from tests.prove.events import Event, digest
from tests.sim.puppets import QUEUES, SOMEDAY
from tests.sim.puppets.client import NEVER, Client
from tests.sim.world import World
from tests.support.eventmq import GREETING_SIZE, HANDED_OVER, encoded, handshake, take_frames

BEAT_MS = 7_000
SILENCE_MS = 10_000
TIMEOUT_S = 60
LAST_WORD_MS = 150_000
"""Longer than any run, and shorter than the world is left alone in the end."""
ERROR = b'{"error": "it broke"}'


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of it.

    Somebody serves its queues all the time: a request for one that nobody has spoken of, or that
    was removed, goes to `default`, and no client can tell whether that has happened.
    """
    service = EventmqService(broker, EventmqSettings(), rng, lambda: None)
    keeper = broker.open_session("keeper", OnHangUp.KEEP, None)
    for queue in (*QUEUES, SOMEDAY):
        broker.serve(keeper, queue)
    return {service.name: service}


class Speaker(Client):
    """Messages in any order; which belong to what, those who are built on it know."""

    protocol = "eventmq"

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._unread = bytearray()
        self._greeted = False
        self._said = 0

    def connected(self) -> None:
        """Greet; the server's answer may come whenever it likes."""
        assert self.wire is not None
        self._unread.clear()
        self._greeted = False
        self.wire.say(handshake())
        self.ready = True
        self.begun()
        self.after(1, 200)

    def begun(self) -> None:
        """A new connection, and nothing said on it."""

    def heard(self, data: bytes, now: Millis) -> None:
        """Read messages; commands of the transport are of no interest."""
        self._unread += data
        if not self._greeted:
            if len(self._unread) < GREETING_SIZE:
                return
            del self._unread[:GREETING_SIZE]
            self._greeted = True
        while (frames := take_frames(self._unread)) is not None:
            if len(frames) > 1 and frames[2] != b"HEARTBEAT":
                self.on_message(frames)

    def send(self, command: str, *parts: bytes, msgid: str = "") -> str:
        """Say one message; returns its id."""
        assert self.wire is not None
        self._said += 1
        msgid = msgid or f"{self.name}/{self._said}"
        self.wire.say(encoded([b"", b"eMQP/1.0", command.encode(), msgid.encode(), *parts]))
        return msgid

    @abstractmethod
    def on_message(self, frames: list[bytes]) -> None:
        """Something was said to us."""


class _Offer(msgspec.Struct):
    """A request, so that it can be sent again."""

    jid: str
    queue: str
    headers: str
    body: bytes
    digest: str
    retry: int | None
    reserve: float | None


class Requester(Speaker):
    """Requests jobs, some again, because nobody said that somebody has them."""

    def __init__(self, world: World, name: str, *, waits: bool) -> None:
        super().__init__(world, name)
        self._waits = waits
        self._count = 0
        self._asked: dict[str, list[Event]] = {}
        self._results: dict[str, int] = {}
        self._offers: dict[str, _Offer] = {}
        self._doubtful: list[_Offer] = []
        self._heard_at = world.now

    def begun(self) -> None:
        """Nothing is asked yet."""
        self._asked.clear()
        self._results.clear()

    def work(self, now: Millis) -> None:
        """One or a few more, unless it is time to go home."""
        if self.retiring:
            self._wait_no_longer_than_needed(now)
            return
        self.offer_some(self._doubtful, self._new, self._request, most_ms=2_000)

    def _wait_no_longer_than_needed(self, now: Millis) -> None:
        """Of requests in a queue that was removed nothing is ever heard."""
        if not self._asked:
            self.next_at = NEVER
        elif now - self._heard_at < LAST_WORD_MS:
            self.next_at = self._heard_at + LAST_WORD_MS
        elif self.wire is not None:
            self.world.hang_up(self.wire)

    def _new(self) -> _Offer:
        rng = self.rng
        self._count += 1
        jid = f"{self.name}-{self._count:06}"
        args = [jid, "x" * rng.randrange(40), rng.random()]
        body = msgspec.json.encode(["run", {"path": "sim", "callable": "work", "args": args}])
        headers = ["reply-requested"] if self._waits else []
        retry: int | None = rng.choice((0, 0, 1, 3))
        reserve = None
        if rng.random() < 0.2:
            headers.append("guarantee")
            retry = None
        elif retry:
            headers.append(f"retry-count:{retry}")
        if rng.random() < 0.3:
            headers.append(f"timeout:{TIMEOUT_S}")
            reserve = float(TIMEOUT_S)
        fingerprint = digest(msgspec.json.encode(args))
        words = ",".join(headers)
        return _Offer(jid, rng.choice(QUEUES), words, body, fingerprint, retry, reserve)

    def _request(self, offer: _Offer) -> None:
        event = Event("push", jid=offer.jid, queue=offer.queue, waits=self._waits)
        event.retry, event.reserve = offer.retry, offer.reserve
        event.body = offer.digest
        self._offers[offer.jid] = offer
        self._asked.setdefault(offer.jid, []).append(self.begin(event))
        parts = (offer.queue.encode(), offer.headers.encode(), offer.body)
        self.send("REQUEST", *parts, msgid=offer.jid)

    def on_message(self, frames: list[bytes]) -> None:
        """A worker has it, or it has ended."""
        assert frames[2] == b"REPLY", frames
        self._heard_at = self.world.now
        jid = frames[-1].decode()
        if len(frames) == HANDED_OVER:
            self._accepted(jid)
            return
        assert self._waits, f"{self.name} did not ask for the result of {jid}"
        # One that ended without a run, or was lost with its worker, was never handed over before.
        if jid in self._asked:
            self._accepted(jid)
        assert self._results.get(jid, 0) > 0, f"{self.name} does not wait for {jid}"
        self._results[jid] -= 1
        self.end(self.begin(Event("result", jid=jid)))

    def _accepted(self, jid: str) -> None:
        events = self._asked[jid]
        event = events.pop(0)
        if not events:
            del self._asked[jid]
        self.end(event)
        self.world.tally.accept(jid, event.queue)
        self._results[jid] = self._results.get(jid, 0) + 1

    def unanswered(self, event: Event) -> None:
        """Send it again some time, or do not."""
        if event.op == "push" and self.rng.random() < 0.5:
            self._doubtful.append(self._offers[event.jid])


class _Run(msgspec.Struct, eq=False):
    """A job that a worker has: under which id, since which event, until when it runs."""

    msgid: bytes
    fetched: Event
    until: Millis


class Worker(Speaker):
    """Takes a few jobs at once, runs and reports them; or fails, vanishes, falls silent, says goodbye."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._slots = self.rng.choice((1, 1, 3))
        self._weight = self.rng.choice((10, 10, 10, 5, 20))
        self._beat_at: Millis = 0
        self._asking: deque[Event] = deque()
        self._held: list[_Run] = []
        self._reporting: deque[Event] = deque()
        self._left_behind: list[_Run] = []
        self._leaving = False
        self._silent_since: Millis = 0
        self._conn = ""

    def begun(self) -> None:
        """Say who one is; whatever was held is lost, but may still be reported."""
        assert self.wire is not None
        self._conn = self.wire.name
        self._asking.clear()
        self._reporting.clear()
        self._held.clear()
        self._leaving = False
        self._silent_since = 0
        self._beat_at = self.world.now + BEAT_MS
        names = [[self._weight, queue] for queue in (*QUEUES, SOMEDAY, "default")]
        self.rng.shuffle(names)
        self.send("INFORM", msgspec.json.encode(names), b"worker")
        for run in self._left_behind:
            self._report(run, b"late")
        self._left_behind.clear()
        for _ in range(self._slots):
            self._ask()

    def claim(self, now: Millis) -> tuple[str, str] | None:
        """What it was given it has, unless the job has a time, or it was not heard for long."""
        if self.wire is None or self._silent_since or not self._held:
            return None
        run = self._held[0]
        name = run.msgid.decode()
        if run.fetched.reserve is not None or name not in self.world.tally.accepted:
            return None
        return name, f"eventmq {self.wire.link.id}"

    # -- its day ------------------------------------------------------------------------------

    def work(self, now: Millis) -> None:
        """Beat if it is time; report what is done; now and then go wrong."""
        if self._silent_since:
            if now > self._silent_since + 2 * SILENCE_MS:
                self._wake_up()
            else:
                self.next_at = self._silent_since + 2 * SILENCE_MS + 1
            return
        if now >= self._beat_at and not self._leaving:
            self._beat_at = now + BEAT_MS
            self.send("HEARTBEAT", b"1.0")
        for run in self._held[:]:
            if run.until <= now and not self._done(run):
                return
        if self._leaving and not self._held and not self._reporting and self.wire is not None:
            self.world.hang_up(self.wire)
            return
        self._set_alarm()

    def _done(self, run: _Run) -> bool:
        """A run has ended, one way or another; False if the worker did."""
        words = ("ack", "fail", "vanish", "silence", "goodbye")
        word = self.last_word(words, (80, 12, 4, 2, 2))
        if word == "vanish" and self.wire is not None:
            self.world.hang_up(self.wire)
            return False
        if word == "silence":
            self._silent_since = self.world.now
            self.next_at = self.world.now + 2 * SILENCE_MS + 1
            return False
        self._held.remove(run)
        if word == "goodbye" and not self._leaving:
            self._leaving = True
            self.send("KBYE")
        self._report(run, ERROR if word == "fail" else b'{"value": 1}')
        if not self._leaving:
            self._ask()
        return True

    def _wake_up(self) -> None:
        """Nothing was heard from here for so long that the server gave it up: begin anew."""
        assert self.wire is not None
        self.world.hang_up(self.wire)

    def _ask(self) -> None:
        self._asking.append(self.begin(Event("fetch")))
        self.send("READY")

    def _report(self, run: _Run, result: bytes) -> None:
        """Say what came of it, and ask for something that is answered behind it."""
        event = self.begin(Event("fail" if result == ERROR else "ack", jid=run.fetched.jid))
        event.worker = run.fetched.conn  # it may be reported over another connection
        self._reporting.append(event)
        self.send("REPLY", result, run.msgid)
        self.send("STATUS")

    def on_message(self, frames: list[bytes]) -> None:
        """A job, the answer behind a report, or the ACK."""
        if frames[2] == b"REPLY":
            self.end(self._reporting.popleft())
            self.next_at = min(self.next_at, self.world.now + 1)
            return
        if frames[2] != b"REQUEST":
            assert frames[2] == b"ACK", frames
            return
        assert not self._leaving or self._asking, frames
        event = self._asking.popleft()
        # Whatever protocol it came in, its first argument is what its producer calls it.
        args = msgspec.json.decode(frames[6])[1]["args"]
        event.jid, event.queue = args[0], frames[4].decode()
        event.body = digest(msgspec.json.encode(args))
        if b"timeout:" in frames[5]:
            event.reserve = float(frames[5].split(b"timeout:")[1].split(b",")[0])
        self.end(event)
        spans = ((1, 4_000), (8_000, 30_000), (60_000, 120_000))
        until = self.world.now + self.run_time(spans, (80, 15, 5))
        self._held.append(_Run(frames[3], event, until))
        self._set_alarm()

    def _set_alarm(self) -> None:
        moments = [run.until for run in self._held]
        if not self._leaving:
            moments.append(self._beat_at)
        self.next_at = max(min(moments, default=NEVER), self.world.now + 1)

    def gone(self, now: Millis) -> None:
        """Some of what it ran it reports when it is back."""
        self._left_behind += [run for run in self._held if self.rng.random() < 0.5]
        if self._silent_since:
            # From then on the server might take it for gone.
            moment = self._silent_since / 1000
            event = Event("close", self.protocol, self._conn, t0=moment, t1=moment)
            self.world.history.append(event)
            self._silent_since = 0


def populate(world: World, *, exact_times: bool) -> None:
    """Some of each."""
    rng = world.rng
    world.puppets += [
        *(Requester(world, f"e-ask{n}", waits=False) for n in range(rng.randrange(1, 3))),
        *(Requester(world, f"e-wait{n}", waits=True) for n in range(rng.randrange(0, 2))),
        *(Worker(world, f"e-work{n}") for n in range(rng.randrange(1, 4))),
    ]
