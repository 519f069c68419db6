"""MemoDB clients and workers on the sockets of `nng.py`, which say a request again until it is answered.

So each of them must be answered some day, with its own result, and its job must not run again without
a cause. The codec is that of `tests/support/memodb.py`.
"""

from __future__ import annotations

from random import Random

import msgspec

from franca.core.broker import Broker
from franca.core.model import Millis
from franca.protocols.conversation import Service
from franca.protocols.memodb.service import MemoDBService
from franca.protocols.memodb.settings import MemoDBSettings
from tests.prove.events import Event, Op, digest
from tests.sim.puppets import QUEUES, SOMEDAY
from tests.sim.puppets.nng import Context, Socket
from tests.sim.world import World
from tests.support.memodb import (
    DISCONNECT,
    HEARTBEAT,
    JOB,
    RESULT,
    Message,
    heartbeat,
    job,
    leaving,
    ready,
    result,
)

OF_MEMODB = b"of memodb: "
FOREVER_MS = 2**32 - 1
HOPE_MS = 20_000
"""By then a client that waits alone for what nobody offers was hung up on."""


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of it."""
    service = MemoDBService(broker, MemoDBSettings(), rng)
    return {service.name: service}


class _Question(Context):
    """A client, and the job that it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.push = Event("push")
        self.payload = b""


class Asker(Socket):
    """Has jobs done, several at once; now and then it goes away or gives one up."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._count = 0
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            question = _Question()
            question.wake_at = world.now + self.rng.randrange(5_000)
            self.contexts.append(question)

    def is_content(self) -> bool:
        """Everything that was asked has been answered."""
        return not any(context.waits for context in self.contexts)

    def on_wake(self, context: Context, now: Millis) -> None:
        """One more; or a sudden end, after which NNG asks again for what was under way."""
        assert isinstance(context, _Question)
        if context.waits and self.retiring:
            return
        if context.waits:
            self._note(context, "maybe")  # given up: it may run, and nobody hears of it
        if self.retiring:
            return
        if self.rng.random() < 0.05 and self.wire is not None:
            context.wake_at = now + 1_000
            self.world.hang_up(self.wire)
            return
        rng = self.rng
        self._count += 1
        jid, queue = f"{self.name}-{self._count:06}", rng.choice(QUEUES)
        timeout_ms = rng.choice((1_000, 5_000, 30_000, 150_000))
        context.payload = msgspec.json.encode([jid, "x" * rng.randrange(40), rng.random()])
        context.push = Event(
            "push",
            self.protocol,
            jid=jid,
            queue=queue,
            t0=now / 1000,
            body=digest(context.payload),
            reserve=timeout_ms / 1000,
            waits=True,
            volatile=True,
        )
        self.ask(context, job(queue, context.payload, timeout_ms))
        if rng.random() < 0.1:
            context.wake_at = now + rng.randrange(1_000, 40_000)

    def on_reply(self, context: Context, reply: Message) -> None:
        """The result, which must be that of this request, whoever made it."""
        assert isinstance(context, _Question)
        assert (reply.op, reply.worker) == (RESULT, b""), reply
        if reply.payload.startswith(OF_MEMODB):
            assert reply.payload == OF_MEMODB + context.payload, f"{reply} to {context.payload!r}"
        self._note(context, "ok")
        if not self.retiring:
            context.wake_at = self.world.now + self.rng.randrange(1, 8_000)

    def _note(self, context: _Question, out: str) -> None:
        push = context.push
        push.t1, push.conn = self.world.now / 1000, self.wire.name if self.wire else ""
        push.out = "ok" if out == "ok" else "maybe"
        self.world.history.append(push)
        if out == "ok":
            self.world.tally.jobs += 1
            self.end(self.begin(Event("result", jid=push.jid)))


class Hopeful(Socket):
    """Asks for a service that nobody offers: never answered, and hung up on when it waits alone.

    NNG asks again on the next connection, and so does this; at last it asks for something else.
    """

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.contexts.append(Context())
        self.contexts[0].wake_at = world.now + self.rng.randrange(30_000)
        self._said: dict[int, Millis] = {}

    def connected(self) -> None:
        """Nothing has been asked on this connection."""
        super().connected()
        self._said.clear()

    def on_said(self, context: Context) -> None:
        """Note when it was first asked here."""
        self._said.setdefault(context.request, self.world.now)

    def on_wake(self, context: Context, now: Millis) -> None:
        """One more. The one before is given up, of which the server hears nothing."""
        asked = list(self._said.values())
        assert len(asked) != 1 or self.wire is None or now - asked[0] < HOPE_MS, "it still waits"
        if self.retiring:
            self._asking.clear()
            context.message = b""
            if self.wire is not None:
                self.world.hang_up(self.wire)
            return
        timeout_ms = self.rng.choice((1_000, 30_000, 150_000))
        self.ask(context, job("nowhere", b"%d" % now, timeout_ms))
        context.wake_at = now + self.rng.randrange(5_000, 90_000)

    def on_reply(self, context: Context, reply: Message) -> None:
        """Nobody can have done it."""
        raise AssertionError(f"{reply} to what nobody offers")


class _Hand(Context):
    """A worker: what it was given, and what it has asked and reported with its last request."""

    def __init__(self) -> None:
        super().__init__()
        self.worker_id = b""
        self.held: Event | None = None
        self.payload = b""
        self.asking: Event | None = None
        self.report: Event | None = None


class Worker(Socket):
    """A few workers on one socket: they run, report and beat; or oversleep, leave, vanish."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._is_sleepy = self.rng.random() < 0.25
        for _ in range(self.rng.choice((1, 1, 3))):
            hand = _Hand()
            hand.wake_at = world.now + self.rng.randrange(20_000)
            self.contexts.append(hand)

    def on_wake(self, context: Context, now: Millis) -> None:
        """Begin, or end a run in one way or another."""
        assert isinstance(context, _Hand)
        if context.held is None:
            if not context.waits:
                self._offer(context)
            return
        held, context.held = context.held, None
        words = ("done", "done, and leaving", "leaving", "vanish")
        word = self.last_word(words, (80, 6, 6, 8))
        if word == "vanish" and self.wire is not None:
            # All that this process held is lost, and it begins anew.
            for other in self.contexts:
                assert isinstance(other, _Hand)
                self._begin_anew(other, now + self.rng.randrange(2_000))
            self.world.hang_up(self.wire)
        elif word == "leaving":
            context.report = self._begin_report("release", context, held)
            self.ask(context, leaving(context.worker_id))
        else:
            goes = True if word == "done, and leaving" else self.rng.choice((None, False))
            context.report = self._begin_report("ack", context, held)
            payload = OF_MEMODB + context.payload
            self.ask(context, result(context.worker_id, payload, goes))

    def _begin_report(self, op: Op, context: _Hand, held: Event) -> Event:
        report = self.begin(Event(op, jid=held.jid))
        report.worker = context.worker_id.hex()  # others share the connection
        return report

    def on_said(self, context: Context) -> None:
        """Every request asks for work too, on each connection anew."""
        assert isinstance(context, _Hand)
        if context.asking is None:
            context.asking = self.begin(Event("fetch"))

    def on_reply(self, context: Context, reply: Message) -> None:
        """A job, a question whether one lives, or the order to begin anew."""
        assert isinstance(context, _Hand)
        asking, context.asking = context.asking, None
        report, context.report = context.report, None
        if report is not None:
            # What is said of a report says nothing of whether it came in time.
            self.end(report, "maybe" if reply.op == DISCONNECT else "ok")
        assert asking is not None
        if reply.op == JOB:
            self._take(context, asking, reply)
            return
        self.forget(asking)
        if reply.op == HEARTBEAT:
            self.ask(context, heartbeat(reply.worker))
        else:
            assert reply.op == DISCONNECT, reply
            context.wake_at = self.world.now + self.rng.randrange(1, 300)

    def _take(self, context: _Hand, asking: Event, reply: Message) -> None:
        queue, timeout_ms = reply.fields
        assert isinstance(queue, str)
        assert isinstance(timeout_ms, int)
        asking.jid, asking.queue = msgspec.json.decode(reply.payload)[0], queue
        asking.body, asking.worker = digest(reply.payload), reply.worker.hex()
        asking.reserve = None if timeout_ms == FOREVER_MS else timeout_ms / 1000
        self.end(asking)
        context.worker_id, context.payload, context.held = reply.worker, reply.payload, asking
        context.wake_at = self.world.now + self._plan()

    def _offer(self, context: _Hand) -> None:
        names = [*QUEUES, SOMEDAY]
        self.rng.shuffle(names)
        self.ask(context, ready(*names))

    def _plan(self) -> int:
        spans = ((1, 800), (1_000, 4_000), (5_000, 50_000), (150_000, 200_000))
        weights = (20, 30, 40, 10) if self._is_sleepy else (70, 20, 9, 1)
        return self.run_time(spans, weights)

    def cut_off(self, now: Millis) -> None:
        """What was asked on this connection was asked; it is asked again on the next."""
        super().cut_off(now)
        for context in self.contexts:
            assert isinstance(context, _Hand)
            context.asking = context.report = None

    def _begin_anew(self, context: _Hand, at: Millis) -> None:
        self._asking.pop(context.request, None)
        context.message = b""
        context.held = None
        context.wake_at = at


def populate(world: World, *, exact_times: bool) -> None:
    """Some of each."""
    rng = world.rng
    world.puppets += [
        *(Asker(world, f"m-ask{n}") for n in range(rng.randrange(1, 4))),
        *(Worker(world, f"m-work{n}") for n in range(rng.randrange(1, 4))),
        Hopeful(world, "m-hope"),
    ]
