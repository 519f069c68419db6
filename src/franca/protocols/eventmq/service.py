"""EventMQ on this server: its settings, workers and schedulers, and the conversations it opens."""

from __future__ import annotations

from random import Random

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link, Service, WorkerView
from franca.protocols.eventmq.conversation import EventmqConversation
from franca.protocols.eventmq.headers import TermsReader
from franca.protocols.eventmq.job import Intake, Renderer
from franca.protocols.eventmq.wire import Voice
from franca.protocols.eventmq.workers import BEAT_EVERY_MS, Members

LOOK_EVERY_MS = 1_000


class EventmqSettings(Struct, frozen=True):
    """What an operator may choose."""

    remote_shutdown: str = "loopback"
    timezone: str = "UTC"


class EventmqService(Service):
    """What all EventMQ connections share."""

    name = "eventmq"

    def __init__(self, broker: Broker, settings: EventmqSettings, rng: Random) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.voice = Voice(rng)
        terms = TermsReader(broker.limits.losses_max)
        self.intake = Intake(broker, terms)
        self.renderer = Renderer(terms)
        self.workers_here = Members()
        self.schedulers = Members()
        self.refused = 0
        self._beat_at: Millis = NEVER
        self._look_at: Millis = NEVER

    def open(self, link: Link, now: Millis) -> EventmqConversation:
        """Begin the dialogue on a new link; nothing is said before the peer has spoken."""
        return EventmqConversation(self, link)

    def tick(self, now: Millis) -> None:
        """Send heartbeats, and let go of those who send none."""
        if now >= self._beat_at:
            self._beat_at = now + BEAT_EVERY_MS
            beat = self.heartbeat(now)
            self.workers_here.beat(beat)
            self.schedulers.beat(beat)
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_MS
            self.workers_here.lose_silent(now)
            self.schedulers.lose_silent(now)

    def heartbeat(self, now: Millis) -> bytes:
        """HEARTBEAT with the time of the clock on the wall."""
        wall = self.broker.wall(now)
        return self.voice.heartbeat(b"%d.%03d" % (wall // 1000, wall % 1000))

    def refuse(self, reason: str) -> None:
        """A message was not taken. Peers have no ears for it: it is counted."""
        self.refused += 1

    def name_for(self, identity: bytes, link: Link) -> str:
        """What a worker is called: its own name where that is text and nobody else's."""
        try:
            name = identity.decode()
        except UnicodeDecodeError:
            name = ""
        if not name or not name.isprintable():
            name = f"{identity.hex()}@{link.id}" if identity else link.id
        taken = self.workers_here.by_name(name) or self.schedulers.by_name(name)
        return f"{name}@{link.id}" if taken is not None else name

    def workers(self) -> list[WorkerView]:
        """The workers that INFORMed and are still there."""
        return self.workers_here.views(self.name)
