"""Publish and subscribe: a message reaches all who asked for its topic or a beginning of it.

Nothing is kept: who is not there does not hear it, and who does not read loses what piles up.
"""

from __future__ import annotations

from typing import Final

from franca.core.events import Event
from franca.core.limits import Limits
from franca.core.model import Millis, Session
from franca.protocols.conversation import Link, Service
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.zmtp import last, more

TOPICS_MAX: Final = 10_000
"""Subscriptions of one subscriber."""


class Topics:
    """Everybody who subscribes. `published` counts messages, `dropped` those somebody lost."""

    def __init__(self) -> None:
        self.subscribers: dict[SubscriberConversation, None] = {}
        self.published = 0
        self.dropped = 0

    def publish(self, topic: bytes, body: bytes) -> None:
        """Tell everybody who asked for this topic, or for something that it begins with."""
        self.published += 1
        data = b""
        for subscriber in self.subscribers:
            if subscriber.wants(topic):
                if subscriber.link.full:
                    self.dropped += 1
                    continue
                data = data or more(topic) + last(body)
                subscriber.link.write(data)


class SubscriberConversation(ZmtpConversation):
    """The dialogue with a subscriber: it says which topics, and hears what is published."""

    socket_type = b"PUB"
    accepted = frozenset((b"SUB", b"XSUB"))
    drops = True

    def __init__(self, topics: Topics, link: Link, limits: Limits, name: bytes) -> None:
        super().__init__(link, limits, name)
        self._hub = topics
        self._counts: dict[bytes, int] = {}
        self._lengths: dict[int, int] = {}
        self._topic_max = limits.name_bytes_max

    def act(self, frames: list[bytes], now: Millis) -> None:
        """A subscription, or its end: a message of one frame. Others are nobody's business."""
        kind, topic = frames[0][:1], frames[0][1:]
        if kind == b"\x01":
            self._subscribe(topic)
        elif kind == b"\x00":
            self._cancel(topic)

    def on_command(self, name: bytes, data: bytes) -> None:
        """The same as commands, as newer peers say it."""
        if name == b"SUBSCRIBE":
            self._subscribe(data)
        elif name == b"CANCEL":
            self._cancel(data)

    def wants(self, topic: bytes) -> bool:
        """Whether it subscribed to the topic or to something that it begins with."""
        counts = self._counts
        return any(topic[:length] in counts for length in self._lengths)

    def _subscribe(self, topic: bytes) -> None:
        """Subscribed twice is cancelled twice, as sockets that speak for several do."""
        if len(topic) > self._topic_max or len(self._counts) >= TOPICS_MAX:
            self.link.close()
            return
        if topic not in self._counts:
            self._lengths[len(topic)] = self._lengths.get(len(topic), 0) + 1
        self._counts[topic] = self._counts.get(topic, 0) + 1
        self._hub.subscribers[self] = None

    def _cancel(self, topic: bytes) -> None:
        count = self._counts.get(topic, 0)
        if count > 1:
            self._counts[topic] = count - 1
        elif count:
            del self._counts[topic]
            self._lengths[len(topic)] -= 1
            if not self._lengths[len(topic)]:
                del self._lengths[len(topic)]

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A subscriber has no dealings with the broker."""

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The subscriber is gone."""
        self._hub.subscribers.pop(self, None)


class SubscribeDoor(Service):
    """The listener for subscribers."""

    name = "eventmq_subscribe"

    def __init__(self, topics: Topics, limits: Limits, socket_name: bytes) -> None:
        self._topics = topics
        self._limits = limits
        self._socket_name = socket_name

    def open(self, link: Link, now: Millis) -> SubscriberConversation:
        """Begin the dialogue with a subscriber."""
        return SubscriberConversation(self._topics, link, self._limits, self._socket_name)
