"""Publish and subscribe: a message reaches all who asked for its topic or a beginning of it.

Nothing is kept: who is not connected does not get it, and who does not read loses what piles up.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from msgspec import Struct

from franca.core.events import Event
from franca.core.limits import Limits
from franca.core.model import NEVER, Millis, Session
from franca.core.multimaps import discard
from franca.protocols.conversation import Link, Task
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.zmtp import LARGE_BYTES, Message, more, pieces

TOPICS_MAX: Final = 10_000
"""Subscriptions of one subscriber."""
SUBSCRIPTION_COSTS_BYTES: Final = 256
"""What a subscription takes besides its topic, roughly."""
TURN_WORK: Final = 4 * 1024 * 1024
"""What all messages together may take of one turn: bytes written, and what goes with them."""
SHARE_WORK: Final = 256 * 1024
"""What one publisher's messages may take before others have their turn."""
WRITE_WORK: Final = 4_096
"""To write to one subscriber more takes as long as so many bytes."""
LOOK_WORK: Final = 256
"""And to find one."""


class Publication(Struct, eq=False):
    """A message on its way to its subscribers. `work` is what it took so far.

    `rest` are those who asked for it and were not sent it yet, once its turn has come.
    """

    topics: Topics
    topic: bytes
    body: bytes
    message: list[bytes] = []
    rest: deque[SubscriberConversation] | None = None
    work: int = 0
    is_done: bool = False

    def task(self) -> Task:
        """Reach all who asked for it, and for those before it, some in each turn."""
        yield
        while not self.is_done:
            now = yield
            self.topics.resume(now)
        return b""


class Topics:
    """Who subscribed to what. `dropped` counts what a subscriber lost because it does not read.

    `bytes` is what all subscriptions take; more than a setting allows are refused. Messages are
    sent one after the other, and no more of them in one turn than a turn has time for: the rest
    waits, and so do those who published them.
    """

    def __init__(self, limits: Limits) -> None:
        self.dropped = 0
        self.bytes = 0
        self._bytes_max = limits.subscribed_bytes
        self._at_once = limits.output_soft_bytes // 2
        self._subscribers: dict[bytes, dict[SubscriberConversation, None]] = {}
        self._lengths: Counter[int] = Counter()
        self._waiting: deque[Publication] = deque()
        self._left = 0
        self._written: Link | None = None
        self._now: Millis = NEVER

    # -- messages ---------------------------------------------------------------------------------

    def publish(self, topic: bytes, body: bytes, now: Millis) -> Publication:
        """Send everybody who asked for this topic, or for something that it begins with."""
        publication = Publication(self, topic, body)
        self._waiting.append(publication)
        self.resume(now)
        return publication

    def resume(self, now: Millis) -> None:
        """Send as much of what waits as this turn still has time for."""
        written = self._written
        # What was written to a link in this turn is in its `out` until the turn ends.
        is_over = now != self._now if written is None else written.closed or not written.out
        if is_over:
            self._now = now
            self._written = None
            self._left = TURN_WORK
        waiting = self._waiting
        while waiting and self._left > 0:
            publication = waiting[0]
            before = self._left
            publication.is_done = self._send(publication)
            publication.work += before - self._left
            if not publication.is_done:
                return
            waiting.popleft()

    def _find(self, publication: Publication) -> deque[SubscriberConversation]:
        """Everybody who asked for this message, each once."""
        topic = publication.topic
        wanted = [self._subscribers.get(topic[:length]) for length in self._lengths]
        found = dict.fromkeys(s for some in wanted if some for s in some)
        self._left -= LOOK_WORK * (1 + len(wanted) + len(found))
        publication.message = pieces(more(topic), [publication.body]) if found else []
        return deque(found)

    def _send(self, publication: Publication) -> bool:
        """Go on with one message; False if the turn is over before everybody was sent it."""
        rest = publication.rest
        if rest is None:
            rest = publication.rest = self._find(publication)
        message = publication.message
        size = sum(map(len, message))
        while rest:
            if self._left <= 0:
                return False
            subscriber = rest[0]
            link = subscriber.link
            if not link.out:
                subscriber.unsent = 0
            elif subscriber.unsent > self._at_once:
                self._left, self._written = 0, link
                return False
            rest.popleft()
            if link.full or link.closing or link.closed:
                self.dropped += link.full
                continue
            subscriber.unsent += size
            self._left -= WRITE_WORK + min(size, LARGE_BYTES)
            self._written = self._written or link
            subscriber.send(message)
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
            self._lengths[len(topic)] += 1
        self._subscribers[topic][subscriber] = None
        return True

    def remove(self, subscriber: SubscriberConversation, topic: bytes) -> None:
        """Somebody asks for a topic no more."""
        self.bytes -= len(topic) + SUBSCRIPTION_COSTS_BYTES
        if discard(self._subscribers, topic, subscriber):
            self._lengths[len(topic)] -= 1
            if not self._lengths[len(topic)]:
                del self._lengths[len(topic)]


class SubscriberConversation(ZmtpConversation):
    """The dialogue with a subscriber: it says which topics, and is sent what is published."""

    socket_type = b"PUB"
    accepted = frozenset((b"SUB", b"XSUB"))
    drops = True

    def __init__(self, topics: Topics, link: Link, limits: Limits, name: bytes) -> None:
        super().__init__(link, limits, name)
        self._topics = topics
        self._counts: dict[bytes, int] = {}
        self._topic_max = limits.name_bytes_max
        self.unsent = 0
        """Bytes of messages that it was sent in this turn, if it was sent anything."""

    def on_message(self, message: Message, now: Millis) -> None:
        """A subscription, or its end: a message of one frame. Others are ignored."""
        if not isinstance(message, list) or not self.link.known:
            super().on_message(message, now)
        elif message[0][:1] == b"\x01":
            self._subscribe(message[0][1:])
        elif message[0][:1] == b"\x00":
            self._cancel(message[0][1:])

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
        if too_long or too_many or not (count or self._topics.add(self, topic)):
            self.link.close("more topics, or longer ones, than one may subscribe to")
            return
        self._counts[topic] = count + 1

    def _cancel(self, topic: bytes) -> None:
        count = self._counts.get(topic, 0)
        if count > 1:
            self._counts[topic] = count - 1
        elif count:
            del self._counts[topic]
            self._topics.remove(self, topic)

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """A subscriber has no dealings with the broker."""

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The subscriber is gone."""
        for topic in self._counts:
            self._topics.remove(self, topic)
