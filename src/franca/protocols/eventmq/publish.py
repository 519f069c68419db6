"""Publish and subscribe: a message reaches all who asked for its topic or a beginning of it.

Nothing is kept: who is not there does not hear it, and who does not read loses what piles up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.events import Event
from franca.core.limits import Limits
from franca.core.model import Millis, Session
from franca.protocols.conversation import Link, Service
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.zmtp import more, pieces

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

TOPICS_MAX: Final = 10_000
"""Subscriptions of one subscriber."""
SUBSCRIPTION_COSTS_BYTES: Final = 256
"""What a subscription takes besides its topic, roughly."""


def on_publish(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """PUBLISH: topic and message, with headers between them or without."""
    conversation.be_client()
    if len(frames) < 6:
        conversation.refuse("a PUBLISH of too few frames")
    else:
        conversation.service.topics.publish(frames[4], frames[6] if len(frames) > 6 else frames[5])


class Topics:
    """Who subscribed to what. `published` counts messages, `dropped` those somebody lost.

    `bytes` is what all subscriptions take; more than `bytes_max` are refused.
    """

    def __init__(self, bytes_max: int) -> None:
        self.published = 0
        self.dropped = 0
        self.bytes = 0
        self._bytes_max = bytes_max
        self._subscribers: dict[bytes, dict[SubscriberConversation, None]] = {}
        self._lengths: dict[int, int] = {}

    def publish(self, topic: bytes, body: bytes) -> None:
        """Tell everybody who asked for this topic, or for something that it begins with."""
        self.published += 1
        wanted = [self._subscribers.get(topic[:length]) for length in self._lengths]
        said: list[bytes] = []
        for subscriber in {s: None for found in wanted if found for s in found}:
            link = subscriber.link
            if link.full or (link.bulky and link.out):
                self.dropped += 1
                continue
            said = said or pieces(more(topic), [body])
            if len(said) == 1:
                link.write(said[0])
            else:
                link.write_bulk(*said)

    def add(self, subscriber: SubscriberConversation, topic: bytes) -> bool:
        """Somebody asks for a topic; False if there is no room for it."""
        size = len(topic) + SUBSCRIPTION_COSTS_BYTES
        if self.bytes + size > self._bytes_max:
            return False
        self.bytes += size
        if topic not in self._subscribers:
            self._subscribers[topic] = {}
            self._lengths[len(topic)] = self._lengths.get(len(topic), 0) + 1
        self._subscribers[topic][subscriber] = None
        return True

    def remove(self, subscriber: SubscriberConversation, topic: bytes) -> None:
        """Somebody asks for a topic no more."""
        self.bytes -= len(topic) + SUBSCRIPTION_COSTS_BYTES
        subscribers = self._subscribers[topic]
        del subscribers[subscriber]
        if not subscribers:
            del self._subscribers[topic]
            self._lengths[len(topic)] -= 1
            if not self._lengths[len(topic)]:
                del self._lengths[len(topic)]


class SubscriberConversation(ZmtpConversation):
    """The dialogue with a subscriber: it says which topics, and hears what is published."""

    socket_type = b"PUB"
    accepted = frozenset((b"SUB", b"XSUB"))
    drops = True

    def __init__(self, topics: Topics, link: Link, limits: Limits, name: bytes) -> None:
        super().__init__(link, limits, name)
        self._hub = topics
        self._counts: dict[bytes, int] = {}
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

    def _subscribe(self, topic: bytes) -> None:
        """Subscribed twice is cancelled twice, as sockets that speak for several do."""
        count = self._counts.get(topic, 0)
        too_long = len(topic) > self._topic_max
        too_many = not count and len(self._counts) >= TOPICS_MAX
        if too_long or too_many or not (count or self._hub.add(self, topic)):
            self.link.close("more topics, or longer ones, than one may subscribe to")
            return
        self._counts[topic] = count + 1

    def _cancel(self, topic: bytes) -> None:
        count = self._counts.get(topic, 0)
        if count > 1:
            self._counts[topic] = count - 1
        elif count:
            del self._counts[topic]
            self._hub.remove(self, topic)

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A subscriber has no dealings with the broker."""

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The subscriber is gone."""
        for topic in self._counts:
            self._hub.remove(self, topic)
        self._counts.clear()


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
