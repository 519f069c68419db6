"""The contract between a protocol and the engine: Link, Conversation, Service.

A Link is one peer's connection as seen from inside: what is to be said, and whether it may be
said before the disk has it. A Conversation is the dialogue on one link: bytes in, verbs of the
broker, bytes out. A Service is what a protocol keeps for all its links together (its settings,
its workers) and what opens their conversations. All three are pure: no I/O, no clock, no chance
that was not handed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from franca.core.events import Event
from franca.core.model import Millis, Session

NOTICES_MAX = 1_000
"""Notices that wait to be logged; what a flood of bad peers gives rise to beyond it is dropped."""

FEW_PIECES = 8
"""So few pieces of a turn are not counted, unless they were said to be long."""


class Peer(Struct, frozen=True):
    """Who is at the other end, as far as the socket tells."""

    address: str
    local: bool
    """A unix socket or a loopback address."""
    unix: bool = False
    """A unix socket: some protocols frame their messages differently there."""
    listener: str = ""
    """Which of the protocol's listeners it came to, as the settings write it."""


class Notice(Struct):
    """Something about a peer that an operator should know; the node logs it, not too often.

    `error` is set where a conversation raised what it should not have.
    """

    link: Link
    reason: str
    error: Exception | None = None


class Link:
    """One connection. `id` is unique over restarts and names the peer where nothing else does.

    `known` is set by the conversation once the peer has said who it is. What is written in one
    turn leaves in one piece, in order; if any of it was written `after_commit`, all of it waits
    for the disk. While the peer does not take what was said to it the link is `full`: what can
    wait should. Whoever writes to many links in one turn asks each whether it `is_full`, which
    counts what this turn wrote, and ends its share of the turn when one is.
    `deliver` lets everybody hear what has happened so far, as the end of a turn's share does:
    between two messages, where it would matter otherwise how they were cut; never from `tell`, or
    what came first would be heard last.
    A link that is `broken` ended because of an error of its conversation: nothing more is sent.
    `weighed` is how many pieces of `out` were counted so far: 0 whenever it was emptied.
    `paused` while nothing is read from the peer, for whatever reason of ours.
    `carrier` is whatever moves the bytes; nobody here looks at it.
    """

    conversation: Conversation

    __slots__ = (
        "_soft_bytes",
        "_wanting",
        "_weight",
        "after_commit",
        "broken",
        "bulky",
        "carrier",
        "closed",
        "closing",
        "conversation",
        "deliver",
        "full",
        "id",
        "known",
        "notices",
        "opened_at",
        "out",
        "partial_bytes",
        "partial_since",
        "paused",
        "peer",
        "protocol",
        "speaking",
        "weighed",
    )

    def __init__(
        self,
        link_id: str,
        peer: Peer,
        speaking: list[Link],
        wanting: list[Link],
        notices: list[Notice],
        deliver: Callable[[Millis], None],
        now: Millis,
        protocol: str = "",
        soft_bytes: int = 1024 * 1024,
    ) -> None:
        self.id = link_id
        self._soft_bytes = soft_bytes
        self._weight = 0
        self.weighed = 0
        self.protocol = protocol
        self.notices = notices
        self.deliver = deliver
        self.peer = peer
        self.speaking = speaking
        self._wanting = wanting
        self.opened_at = now
        self.out: list[bytes] = []
        self.after_commit = False
        self.broken = False
        self.bulky = False
        self.known = False
        self.full = False
        self.closing = False
        self.closed = False
        self.paused = False
        self.partial_since: Millis = 0
        self.partial_bytes = 0
        self.carrier: object = None

    def write(self, data: bytes) -> None:
        """Say something that is true whatever the disk does."""
        out = self.out
        if not out:
            self.speaking.append(self)
        out.append(data)

    def write_bulk(self, *pieces: bytes) -> None:
        """Say something so long that it must not be copied only to be said in one piece."""
        if not self.out:
            self.speaking.append(self)
        self.out += pieces
        self.bulky = True

    def write_after_commit(self, data: bytes) -> None:
        """Say something that must be durable first, and everything after it."""
        out = self.out
        if not out:
            self.speaking.append(self)
        out.append(data)
        self.after_commit = True

    def is_full(self) -> bool:
        """Whether as much as may waits for this peer, or will after this turn."""
        if self.full:
            return True
        out = self.out
        weighed = self.weighed
        if len(out) < FEW_PIECES and not self.bulky:
            return False
        if not weighed or weighed > len(out):
            weighed = self._weight = 0
        self._weight += sum(map(len, out[weighed:]))
        self.weighed = len(out)
        return self._weight > self._soft_bytes

    def again(self) -> None:
        """Have the conversation called next turn, though nothing came; once it is not full."""
        self._wanting.append(self)

    def forget_said(self) -> None:
        """Keep nothing of what nobody will hear."""
        self.out.clear()
        self.after_commit = self.bulky = False
        self.weighed = 0

    def note(self, reason: str) -> None:
        """Have an operator told what this peer did, such as sending more than is taken."""
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(Notice(self, reason))

    def close(self, reason: str = "") -> None:
        """Hang up once everything written so far has been sent; `reason` is for the log."""
        if not self.closing:
            self.closing = True
            if reason:
                self.note(reason)
            if not self.out:
                self.speaking.append(self)


class Conversation(ABC):
    """The dialogue on one link. Never raises for what a peer may send."""

    link: Link
    holding = False
    """An answer is owed before more may be read: input piles up until then."""
    drops = False
    """What this peer does not read is dropped here, so it is listened to even while full."""
    silent_ok = False
    """A peer of this protocol may say nothing for as long as it likes. It is not hung up on for
    that alone, but while it is not `known` it is the first to go when there are too many."""

    @abstractmethod
    def receive(self, data: bytes, now: Millis) -> bool:
        """Take bytes and act on the whole messages among them, a fair share of them at most.

        True if whole messages are left over; it is then called again, with nothing, next turn.
        """

    @abstractmethod
    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a session of this conversation."""

    @abstractmethod
    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The link is gone; `unheard` if something written last never left the server."""

    @abstractmethod
    def unread(self) -> int:
        """How many bytes were taken and not yet acted on."""

    def forget_unread(self) -> None:
        """Let go of these bytes: the link is gone, and what is left of it may stay for a while."""

    def stop(self, now: Millis) -> None:
        """The server is about to stop: make the peer leave, as far as the protocol has words."""


class WorkerView(Struct):
    """A worker as operators see it, whatever its protocol."""

    name: str
    protocol: str
    host: str
    pid: int
    labels: Sequence[str]
    state: str
    started_at: Millis
    seen_at: Millis
    rss_kb: int
    connections: int
    queues: Sequence[str] = ()


class Service(ABC):
    """What one protocol keeps for all its links."""

    name: str
    file = ""
    """The path of a file that the service wants to have read to it, now and when it changes."""
    refusal = b""
    """What a peer is told when there are too many connections already."""

    @abstractmethod
    def open(self, link: Link, now: Millis) -> Conversation:
        """Begin the dialogue on a new link; a greeting may be written at once."""

    def tick(self, now: Millis) -> None:
        """Called about ten times a second, for what the protocol itself must time."""

    def doors(self) -> Mapping[str, Service]:
        """Further listeners of this protocol that share what it keeps, by their names."""
        return {}

    def take_file(self, content: bytes) -> str:
        """What `file` says now; returns a word about it. ValueError, and all stays as it was."""
        return ""

    def workers(self) -> list[WorkerView]:
        """The workers that this protocol knows of."""
        return []

    def ask_worker(self, name: str, what: str) -> bool:
        """Ask a worker to be `quiet` or to `stop`; False if it is not one of this protocol's."""
        return False

    def stop(self, now: Millis) -> None:
        """The server is about to stop. Conversations are told one by one after this."""

    def consumers(self) -> int:
        """How many links still belong to workers that were asked to leave."""
        return 0
