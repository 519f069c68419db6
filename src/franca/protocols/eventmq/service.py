"""EventMQ on this server: its settings, workers, rules and topics, and the dialogues it opens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link
from franca.protocols.declaration import Stop, Surroundings
from franca.protocols.eventmq.conversation import EventmqConversation
from franca.protocols.eventmq.jobs import Intake
from franca.protocols.eventmq.results import ResultDelivery
from franca.protocols.eventmq.schedules import Schedules
from franca.protocols.eventmq.settings import EventmqSettings
from franca.protocols.eventmq.topics import SubscriberConversation, Topics
from franca.protocols.eventmq.wire import Encoder
from franca.protocols.eventmq.workers import ALIVE_MS, BEAT_EVERY_MS, Registry, Worker
from franca.protocols.service import Listener, Service, WorkerView, runs_of, state_of

LOOK_EVERY_MS: Final = 1_000
BEATS_AT_ONCE: Final = 500
"""Heartbeats in one tick; a server with more peers than that sends the others in the next ones."""
COUNTED_MAX: Final = 10_000
"""Queues whose jobs are counted; all counts begin anew when there are more."""


class EventmqService(Service):
    """What all EventMQ connections share.

    `request_stop` is called when an administrator asks for it. `handed` counts the jobs of each
    queue given to workers, `refused` what could not be taken: peers are not told. In
    `wait_for_room` are conversations with a request that could not be kept.
    """

    name = "eventmq"

    def __init__(
        self, broker: Broker, settings: EventmqSettings, rng: Random, request_stop: Stop
    ) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.request_stop = request_stop
        self.encoder = Encoder(rng)
        self.intake = Intake(broker)
        self.schedules = Schedules(broker, self.intake, settings.timezone)
        self.topics = Topics(self.limits)
        self.results = ResultDelivery(broker, self.encoder)
        self.workers_here = Registry()
        self.schedulers = Registry()
        self.handed: Counter[str] = Counter()
        self.refused = 0
        self.joined_bytes = 0
        self.listings: dict[object, Millis] = {}
        self.wait_for_room: dict[EventmqConversation, None] = {}
        self._beat_at: Millis = NEVER
        self._look_at: Millis = NEVER
        self._to_beat: list[Worker] = []

    def open(self, link: Link, now: Millis) -> EventmqConversation:
        """Begin the dialogue on a new link; nothing is sent before the peer has spoken."""
        return EventmqConversation(self, link)

    def extra_listeners(self) -> Mapping[str, Service]:
        """Where messages are published, and where they are subscribed to.

        Whatever else a publisher says is understood too.
        """

        def subscriber(link: Link, now: Millis) -> SubscriberConversation:
            return SubscriberConversation(self.topics, link, self.limits, self.encoder.name)

        return {
            "eventmq_publish": Listener("eventmq_publish", self.open),
            "eventmq_subscribe": Listener("eventmq_subscribe", subscriber),
        }

    def tick(self, now: Millis) -> None:
        """Send heartbeats, let go of those who send none, go on where room was waited for."""
        self.results.tick(now)
        self.topics.resume(now)
        self.schedules.move_some()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_EVERY_MS
            self._to_beat = [*self.schedulers.all.values(), *self.workers_here.all.values()]
        if self._to_beat:
            beat = [self.heartbeat(now)]
            for worker in self._to_beat[-BEATS_AT_ONCE:]:
                if not worker.gone:
                    worker.conversation.send(beat)
            del self._to_beat[-BEATS_AT_ONCE:]
        if len(self.handed) > COUNTED_MAX:
            self.handed.clear()
        if now >= self._look_at:
            has_more = self.workers_here.lose_silent(now) | self.schedulers.lose_silent(now)
            self._look_at = now + (0 if has_more else LOOK_EVERY_MS)
        if self.wait_for_room and not self.broker.refusing_new:
            for conversation in self.wait_for_room:
                conversation.link.call_next_turn()
            self.wait_for_room.clear()

    def heartbeat(self, now: Millis) -> bytes:
        """HEARTBEAT with the time of the clock on the wall."""
        wall = self.broker.wall(now)
        return self.encoder.heartbeat(b"%d.%03d" % (wall // 1000, wall % 1000))

    # -- what operators ask -----------------------------------------------------------------------

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        """The workers that INFORMed and are still there."""
        return (
            WorkerView(
                name=worker.name,
                protocol=self.name,
                host=worker.conversation.link.peer.address,
                state=state_of(
                    running, stopping=worker.leaving, stalled=now - worker.heard_at > ALIVE_MS
                ),
                started_at=worker.since,
                seen_at=worker.heard_at,
                queues=worker.queues,
                running=running,
                fetched_at=worker.asked_at,
            )
            for worker in list(self.workers_here.all.values())
            for running in (runs_of(worker.session.leases.values()),)
        )

    def ask_worker(self, name: str, what: str) -> bool:
        """Give a worker no more jobs; one that is to stop is told that the broker leaves it."""
        worker = self.workers_here.by_name.get(name)
        if worker is None or what not in ("quiet", "stop"):
            return False
        if what == "stop":
            worker.stop()
        else:
            worker.leave()
        return True

    def consumers(self) -> int:
        """How many workers still run jobs."""
        return sum(bool(worker.session.leases) for worker in self.workers_here.all.values())


def build(chosen: Mapping[str, object], around: Surroundings) -> EventmqService:
    """The service with what was chosen for it."""
    # The original reads cron lines in UTC, so the machine's own zone must be asked for by name.
    timezone = "UTC" if around.timezone == "local" else around.timezone
    settings = EventmqSettings(around.remote_shutdown, timezone)
    return EventmqService(around.broker, settings, around.rng, around.server.request_stop)
