"""EventMQ on this server: its settings, workers, rules and topics, and the dialogues it opens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Link, Peer, Service, WorkerView
from franca.protocols.eventmq.admin import Listing
from franca.protocols.eventmq.conversation import EventmqConversation
from franca.protocols.eventmq.headers import TermsReader
from franca.protocols.eventmq.job import Intake, Renderer
from franca.protocols.eventmq.post import Post
from franca.protocols.eventmq.publish import SubscribeDoor, Topics
from franca.protocols.eventmq.scheduler import Scheduling
from franca.protocols.eventmq.wire import Voice
from franca.protocols.eventmq.workers import BEAT_EVERY_MS, Member, Members

LOOK_EVERY_MS: Final = 1_000
TOLD_AT_ONCE: Final = 500
"""Heartbeats in one tick; a server with more peers than that sends the others in the next ones."""
TALLIED_MAX: Final = 10_000
"""Queues whose jobs are counted; all counts begin anew when there are more."""


class EventmqSettings(Struct, frozen=True):
    """What an operator may choose."""

    remote_shutdown: str = "loopback"
    """From whom an administrator's DISCONNECT is taken: `loopback`, `all` or `never`."""
    timezone: str = "UTC"
    """Where cron lines are that name no time zone. The original knows only this one."""


class Tally(dict[str, int]):
    """How often something happened, by names of which only so many are kept."""

    def __missing__(self, name: str) -> int:
        if len(self) >= TALLIED_MAX:
            self.clear()
        return 0


class EventmqService(Service):
    """What all EventMQ connections share.

    `request_stop` is called when an administrator asks for it. `handed` counts the jobs of each
    queue given to workers, `refused` what could not be taken: peers have no ears for it.
    """

    name = "eventmq"

    def __init__(
        self,
        broker: Broker,
        settings: EventmqSettings,
        rng: Random,
        request_stop: Callable[[], None],
    ) -> None:
        self.broker = broker
        self.limits = broker.limits
        self.settings = settings
        self.request_stop = request_stop
        self.voice = Voice(rng)
        self.terms = TermsReader()
        self.intake = Intake(broker, self.terms)
        self.renderer = Renderer(self.terms)
        self.scheduling = Scheduling(broker, self.intake, settings.timezone)
        self.topics = Topics(self.limits)
        self.post = Post(broker)
        self.workers_here = Members()
        self.schedulers = Members()
        self.handed = Tally()
        self.refused = 0
        self.joined_bytes = 0
        self.listings: dict[Listing, None] = {}
        self.stopping = False
        self._beat_at: Millis = NEVER
        self._look_at: Millis = NEVER
        self._to_tell: list[Member] = []
        self._wait_for_room: dict[EventmqConversation, None] = {}

    def open(self, link: Link, now: Millis) -> EventmqConversation:
        """Begin the dialogue on a new link; nothing is said before the peer has spoken."""
        return EventmqConversation(self, link)

    def doors(self) -> Mapping[str, Service]:
        """Where messages are published, and where they are subscribed to."""
        subscribe = SubscribeDoor(self.topics, self.limits, self.voice.name)
        return {"eventmq_publish": PublishDoor(self), subscribe.name: subscribe}

    def tick(self, now: Millis) -> None:
        """Send heartbeats, let go of those who send none, go on where room was waited for."""
        self.post.look(now)
        self.topics.go_on(now)
        self.scheduling.go_on()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_EVERY_MS
            self._to_tell = [*self.schedulers.all, *self.workers_here.all]
        if self._to_tell:
            self._tell_some(now)
        if now >= self._look_at:
            is_enough = self.workers_here.lose_silent(now) | self.schedulers.lose_silent(now)
            self._look_at = now + (0 if is_enough else LOOK_EVERY_MS)
        if self._wait_for_room and not self.broker.refusing_new:
            waiting, self._wait_for_room = self._wait_for_room, {}
            for conversation in waiting:
                conversation.link.again()

    def _tell_some(self, now: Millis) -> None:
        """Send heartbeats to some of those who wait for theirs."""
        beat = [self.heartbeat(now)]
        for member in self._to_tell[-TOLD_AT_ONCE:]:
            if not member.gone:
                member.party.hear(beat)
        del self._to_tell[-TOLD_AT_ONCE:]

    def heartbeat(self, now: Millis) -> bytes:
        """HEARTBEAT with the time of the clock on the wall."""
        wall = self.broker.wall(now)
        return self.voice.heartbeat(b"%d.%03d" % (wall // 1000, wall % 1000))

    def wait_for_room(self, conversation: EventmqConversation) -> None:
        """A request could not be kept: its conversation goes on when there is room."""
        self._wait_for_room[conversation] = None

    def wait_no_more(self, conversation: EventmqConversation) -> None:
        """A conversation is over."""
        self._wait_for_room.pop(conversation, None)

    def may_stop(self, peer: Peer) -> bool:
        """Whether this peer may stop the whole server."""
        allowed = self.settings.remote_shutdown
        return allowed == "all" or (allowed == "loopback" and peer.local)

    def name_for(self, identity: bytes, link: Link, old: Member | None) -> str:
        """What a worker is called: its own name where that is text and nobody else's.

        `old` is what it was until now.
        """
        try:
            name = identity.decode()
        except UnicodeDecodeError:
            name = ""
        if not name or not name.isprintable():
            name = f"{identity.hex()}@{link.id}" if identity else link.id
        taken = self.workers_here.by_name(name) or self.schedulers.by_name(name)
        return f"{name}@{link.id}" if taken is not None and taken is not old else name

    # -- what operators ask -----------------------------------------------------------------------

    def workers(self) -> list[WorkerView]:
        """The workers that INFORMed and are still there."""
        return self.workers_here.views(self.name)

    def ask_worker(self, name: str, what: str) -> bool:
        """Give a worker no more jobs; one that is to stop is told that the broker leaves it."""
        member = self.workers_here.by_name(name)
        if member is None or what not in ("quiet", "stop"):
            return False
        if what == "stop":
            member.party.stop()
        else:
            member.party.leave()
        return True

    def stop(self, now: Millis) -> None:
        """The server is about to stop: nobody is given a job any more."""
        self.stopping = True

    def consumers(self) -> int:
        """How many workers still run jobs."""
        return self.workers_here.busy()


class PublishDoor(Service):
    """The listener for those who publish; whatever else is said there is understood too."""

    name = "eventmq_publish"

    def __init__(self, service: EventmqService) -> None:
        self._service = service

    def open(self, link: Link, now: Millis) -> EventmqConversation:
        """Begin the dialogue with a publisher."""
        return self._service.open(link, now)
