"""Publish and subscribe: a message reaches all who asked for its topic or a beginning of it.

Nothing is kept: who is not there does not hear it, and who does not read loses what piles up.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from franca.core.events import Event
from franca.core.limits import Limits
from franca.core.model import NEVER, Millis, Session
from franca.protocols.conversation import Link, Service
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.zmtp import LARGE_BYTES, more, pieces

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

TOPICS_MAX: Final = 10_000
"""Subscriptions of one subscriber."""
SUBSCRIPTION_COSTS_BYTES: Final = 256
"""What a subscription takes besides its topic, roughly."""
COPIED_BYTES: Final = 512
"""A longer message is there once, however many subscribers do not take it."""
TURN_WORK: Final = 4 * 1024 * 1024
"""What all messages together may take of one turn: bytes written, and what goes with them."""
SHARE_WORK: Final = 256 * 1024
"""What one publisher's messages may take before others are heard."""
WRITE_WORK: Final = 4_096
"""To write to one subscriber more takes as long as so many bytes."""
LOOK_WORK: Final = 256
"""And to find one."""


def on_publish(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """PUBLISH: topic and message, with headers between them or without."""
    conversation.be_client()
    if len(frames) < 6:
        conversation.refuse("a PUBLISH of too few frames")
    else:
        body = frames[6] if len(frames) > 6 else frames[5]
        publication = conversation.service.topics.publish(frames[4], body, now)
        if not publication.is_done:
            conversation.task = publication
        if publication.work > SHARE_WORK:
            conversation.has_had_its_share = True


class Publication:
    """A message on its way to its subscribers. `work` is what it took so far.

    `rest` are those who asked for it, from the moment when its turn has come; `at` is the next.
    """

    __slots__ = ("_hub", "at", "body", "is_done", "rest", "said", "topic", "work")

    def __init__(self, hub: Topics, topic: bytes, body: bytes) -> None:
        self._hub = hub
        self.topic = topic
        self.body = body
        self.said: list[bytes] = []
        self.rest: list[SubscriberConversation] | None = None
        self.at = 0
        self.work = 0
        self.is_done = False

    def step(self, now: Millis) -> bool:
        """Reach some more of those who asked for it, and for those before it."""
        self._hub.go_on(now)
        return self.is_done

    def __len__(self) -> int:
        return len(self.topic) + len(self.body)


class Topics:
    """Who subscribed to what. `published` counts messages, `dropped` those somebody lost.

    `bytes` is what all subscriptions take; more than `bytes_max` are refused. Messages are told
    one after the other, and no more of them in one turn than a turn has time for: the rest waits,
    and so do those who said them.
    """

    def __init__(self, limits: Limits) -> None:
        self.published = 0
        self.dropped = 0
        self.bytes = 0
        self._bytes_max = limits.subscribed_bytes
        self._at_once = limits.output_soft_bytes // 2
        self._subscribers: dict[bytes, dict[SubscriberConversation, None]] = {}
        self._lengths: dict[int, int] = {}
        self._waiting: deque[Publication] = deque()
        self._left = 0
        self._spoken: Link | None = None
        self._now: Millis = NEVER

    # -- messages ---------------------------------------------------------------------------------

    def publish(self, topic: bytes, body: bytes, now: Millis) -> Publication:
        """Tell everybody who asked for this topic, or for something that it begins with."""
        self.published += 1
        publication = Publication(self, topic, body)
        self._waiting.append(publication)
        self.go_on(now)
        return publication

    def go_on(self, now: Millis) -> None:
        """Tell as much of what waits as this turn still has time for."""
        spoken = self._spoken
        # What was written to a link in this turn is in its `out` until the turn ends.
        is_over = now != self._now if spoken is None else spoken.closed or not spoken.out
        if is_over:
            self._now = now
            self._spoken = None
            self._left = TURN_WORK
        waiting = self._waiting
        while waiting and self._left > 0:
            publication = waiting[0]
            before = self._left
            publication.is_done = self._tell(publication)
            publication.work += before - self._left
            if not publication.is_done:
                return
            waiting.popleft()

    def _find(self, publication: Publication) -> list[SubscriberConversation]:
        """Everybody who asked for this message, each once."""
        topic = publication.topic
        wanted = [self._subscribers.get(topic[:length]) for length in self._lengths]
        found = {s: None for some in wanted if some for s in some}
        self._left -= LOOK_WORK * (1 + len(wanted) + len(found))
        if found:
            publication.said = pieces(more(topic), [publication.body])
        return list(found)

    def _tell(self, publication: Publication) -> bool:
        """Go on with one message; False if the turn is over before everybody was told."""
        rest = publication.rest
        if rest is None:
            rest = publication.rest = self._find(publication)
        said = publication.said
        size = sum(map(len, said))
        work = WRITE_WORK + min(size, LARGE_BYTES)
        for at in range(publication.at, len(rest)):
            if self._left <= 0:
                publication.at = at
                return False
            subscriber = rest[at]
            link = subscriber.link
            if not link.out:
                subscriber.unsent = 0
            elif subscriber.unsent > self._at_once:
                publication.at = at
                self._left, self._spoken = 0, link
                return False
            if link.full or link.closing or link.closed:
                self.dropped += link.full
                continue
            subscriber.unsent += size
            self._left -= work
            self._spoken = self._spoken or link
            if size <= COPIED_BYTES:
                link.write(said[0])
            else:
                link.write_bulk(*said)
        return True

    # -- subscriptions ----------------------------------------------------------------------------

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
        self.unsent = 0
        """Bytes of messages that it was told in this turn, if it was told anything."""

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
