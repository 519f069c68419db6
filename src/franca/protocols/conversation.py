"""The contract between a protocol and the engine: Link, Conversation, Service.

A Link is one peer's connection as seen from inside: what is to be sent, and whether it may be
sent before the disk has it. A Conversation is the dialogue on one link: bytes in, verbs of the
broker, bytes out. A Service is what a protocol keeps for all its links together (its settings,
its workers) and what opens their conversations. All three are pure: no I/O, no clock, no random
numbers that were not handed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from franca.core.errors import Refused, WireError
from franca.core.events import Event
from franca.core.model import NEVER, Demand, Job, JobQuery, Millis, Session

if TYPE_CHECKING:
    from franca.core.broker import Broker

NOTICES_MAX = 1_000
"""Notices that wait to be logged; what a flood of bad peers gives rise to beyond it is dropped."""
ABOUT_CHARS = 200
"""What is recorded of what an operator's command was about."""
SHARE_MESSAGES = 64
"""Messages of a turn's share, where no setting is at hand."""
LAST_SHARES = 8
"""Turns' shares of a peer that is gone that are acted on, if it was kept waiting."""
WHOLE_SHARE = 1 << 30
"""What a message is said to cost that should be the last of its turn's share."""
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

    def may(self, who: str) -> bool:
        """Whether this peer may, where `all`, peers on this machine (`loopback`) or nobody may."""
        return who == "all" or (who == "loopback" and self.local)


class Notice(Struct):
    """Something about a peer that an operator should know; the node logs it, not too often.

    `error` is set where a conversation raised what it should not have. With an `action`, the peer
    did what operators do, and `reason` says to what.
    """

    link: Link
    reason: str
    error: Exception | None = None
    action: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Link:
    """One connection. `id` is unique over restarts and names the peer where nothing else does.

    `known` is set by the conversation once the peer has said who it is. What is written in one
    turn leaves in one piece, in order; if any of it was written `after_commit`, all of it waits
    for the disk. While the peer does not take what it was sent the link is `full`: what can
    wait should. Whoever writes to many links in one turn asks each whether it `is_full`, which
    counts what this turn wrote, and ends its share of the turn when one is.
    A link that is `broken` ended because of an error of its conversation: nothing more is sent.
    It is `in_pieces` if some of `out` is too long to be joined. `counted` is how many pieces of it
    were counted so far, 0 whenever it was emptied, and `counted_bytes` how many bytes they have.
    `costly` if what the peer sends takes long to be acted on: the others come first.
    `ready` if what comes may be read at once: the link is none of these, nor held back.
    `input_ended` if the peer sends no more, but may still read.
    `paused` while nothing is read from the peer, for whatever reason of ours.
    `carrier` is whatever moves the bytes; nobody here looks at it.
    """

    id: str
    peer: Peer
    with_output: list[Link]
    wanting: list[Link]
    notices: list[Notice]
    opened_at: Millis
    protocol: str = ""
    soft_bytes: int = 1024 * 1024
    out: list[bytes] = field(default_factory=list)
    after_commit: bool = False
    broken: bool = False
    in_pieces: bool = False
    known: bool = False
    full: bool = False
    input_ended: bool = False
    costly: bool = False
    ready: bool = True
    closing: bool = False
    closed: bool = False
    paused: bool = False
    partial_since: Millis = 0
    partial_bytes: int = 0
    counted: int = 0
    counted_bytes: int = 0
    carrier: Any = None
    conversation: Conversation = field(init=False)

    def write(self, data: bytes) -> None:
        """Send what is true whatever the disk does."""
        out = self.out
        if not out:
            self.with_output.append(self)
        out.append(data)

    def write_after_commit(self, data: bytes) -> None:
        """Send what must be durable first, and everything after it."""
        out = self.out
        if not out:
            self.with_output.append(self)
        out.append(data)
        self.after_commit = True

    def write_pieces(self, pieces: Sequence[bytes], *, durable: bool = False) -> None:
        """Send what is in one piece, or in several that must not be copied.

        After the commit if it must be `durable` first, else at once.
        """
        if not self.out:
            self.with_output.append(self)
        self.out += pieces
        if len(pieces) > 1:
            self.in_pieces = True
        if durable:
            self.after_commit = True

    def is_full(self) -> bool:
        """Whether as much as may waits for this peer, or will after this turn."""
        if self.full:
            return True
        out = self.out
        counted = self.counted
        if len(out) < FEW_PIECES and not self.in_pieces:
            return False
        if not counted or counted > len(out):
            counted = self.counted_bytes = 0
        self.counted_bytes += sum(map(len, out[counted:]))
        self.counted = len(out)
        return self.counted_bytes > self.soft_bytes

    def call_next_turn(self) -> None:
        """Have the conversation called next turn, though nothing came; once it is not full."""
        self.wanting.append(self)

    def forget_said(self) -> None:
        """Drop what was written: nobody will get it."""
        self.out.clear()
        self.after_commit = self.in_pieces = False
        self.counted = 0

    def note(self, reason: str) -> None:
        """Have an operator told what this peer did, such as sending more than is taken."""
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(Notice(self, reason))

    def did(self, action: str, about: str = "") -> None:
        """Have it recorded that this peer did what operators do, by the protocol's word for it."""
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(Notice(self, about[:ABOUT_CHARS], action=action))

    def close(self, reason: str = "") -> None:
        """Hang up once everything written so far has been sent; `reason` is for the log."""
        if not self.closing:
            self.closing = True
            self.ready = False
            if reason:
                self.note(reason)
            if not self.out:
                self.with_output.append(self)


class Reader(Protocol):
    """Cuts what a peer sent into messages.

    `has_input` while the bytes that came may hold a whole message.
    """

    has_input: bool

    def feed(self, data: bytes) -> None:
        """Bytes came; they are kept until they are read."""

    def next_message(self, data: bytes = b"") -> Any | None:
        """The next whole message, or None until more bytes come; `data` has come since the last.

        May raise `WireError`. Without data, only to be called while there is input.
        """

    def __len__(self) -> int:
        """How many bytes were kept and not yet handed out.

        More than 0 while half a message is there: a peer that never sends the rest is hung up on.
        """


Task = Generator[Any, Any, bytes | None]
"""A command that takes several turns. It begins with `now = yield`; each `yield` ends a turn and
brings the time of the next, and `yield` of a query brings the jobs that the store has found. What
it returns is said once it is durable; None if something else will answer the peer."""


class Conversation(ABC):
    """The dialogue on one link. Never raises for what a peer may send."""

    link: Link
    reader: Reader
    broker: Broker
    now: Millis = NEVER
    """The time of the turn in which a task goes on."""
    holding: bool
    """An answer is owed before more may be read: input piles up until then."""
    busy: bool
    """`on_turn` is called in each turn, until this is unset."""
    spent: int
    """What the message at hand cost beyond most, in messages: so many fewer are read this turn.

    Not 0 if the message has made it `busy`, or has a follow-up: the engine looks at this alone."""
    task: Task | None = None
    """A command that takes several turns, or waits for the store: nothing behind it is read."""
    task_bytes = 0
    has_follow_up: bool
    """Something is to be done once behind several messages: `follow_up` does it behind the last."""
    drops = False
    """What this peer does not read is dropped here, so it is listened to even while full."""
    hears_end = False
    """A peer that ends its side of the connection is still answered; others are hung up on. The
    conversation closes the link when it is done."""
    silent_ok = False
    """A peer of this protocol may say nothing for as long as it likes. It is not hung up on for
    that alone, but while it is not `known` it is the first to go when there are too many."""

    def __init__(self, link: Link) -> None:
        self.link = link
        # Not defaults of the class: those are found slowly, and every message is asked for these.
        self.holding = self.busy = self.has_follow_up = False
        self.spent = 0

    @abstractmethod
    def on_message(self, message: Any, now: Millis) -> None:
        """Act on a message that the reader has cut."""

    def on_partial(self, now: Millis) -> None:
        """The reader keeps the beginning of a message and needs more bytes."""

    def on_unreadable(self, error: WireError, now: Millis) -> None:
        """The reader cannot make sense of the bytes, nor of what follows them."""
        self.link.close(error.text)

    def on_turn(self, now: Millis) -> None:
        """Called before messages are read, in a turn that was asked for though nothing came."""
        if self.busy and self.task is not None:
            self.now = now
            self._step(self.task, now)

    @abstractmethod
    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a session of this conversation."""

    def want_follow_up(self) -> None:
        """Have `follow_up` called behind the last of the messages that are there."""
        if not self.has_follow_up:
            self.has_follow_up = True
            self.spent = self.spent or 1

    def follow_up(self, now: Millis) -> None:
        """No more messages are read in this share: do what they gave rise to."""

    # -- commands that take several turns -------------------------------------------------------

    def begin(self, task: Task, now: Millis, size: int = 0) -> None:
        """Act on a command that may take more than this turn; nothing behind it is read before.

        So many bytes of it are kept until it is done, and count as unread.
        """
        next(task)
        self.now = now
        self.task = task
        self.task_bytes = size
        self.busy = self.holding = True
        self.spent = self.spent or 1
        self._step(task, now)

    def _step(self, task: Task, value: Any) -> None:
        try:
            query = task.send(value)
        except StopIteration as end:
            self.end_task()
            if end.value is None:
                self.holding = True
            else:
                self.on_task_done(end.value)
        except Refused as refusal:
            self.end_task()
            self.on_task_refused(refusal)
        else:
            self.busy = query is None
            if query is not None:
                self.broker.recall(query, self)

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """The store has brought what a task waits for."""
        if self.task is not None and not self.link.closed:
            self.now = now
            self._step(self.task, jobs)
            if self.task is None or self.busy:
                self.link.call_next_turn()

    def end_task(self) -> None:
        """There is no command that takes long any more, because it is done or its peer is gone."""
        task, self.task = self.task, None
        self.task_bytes = 0
        self.busy = self.holding = False
        if task is not None:
            task.close()

    def on_task_done(self, reply: bytes) -> None:
        """A task is done: say what comes of it, once that is durable."""
        if reply:
            self.link.write_after_commit(reply)

    def on_task_refused(self, refusal: Refused) -> None:
        """A task was refused; its peer is told so as the protocol has it."""
        raise refusal

    def resume(self) -> None:
        """What was waited for has come: read on, in the next turn.

        Not at once: others have yet to hear what has happened in this one.
        """
        self.holding = False
        self.link.call_next_turn()

    @abstractmethod
    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The link is gone: close the session, and keep no `Demand`.

        `undelivered` if something written last never left the server: a job that was granted then
        is given back (`protocols/undelivered.py`).
        """

    def act_on_rest(self, now: Millis) -> None:
        """Act on what is left of a peer that is gone and was kept waiting, if it is not much."""
        reader = self.reader
        for _ in range(LAST_SHARES * SHARE_MESSAGES):
            message = reader.next_message() if reader.has_input and not self.holding else None
            if message is None:
                return
            self.on_message(message, now)

    def unread(self) -> int:
        """How many bytes were taken and not yet acted on."""
        return self.task_bytes + len(self.reader)

    def forget_unread(self) -> None:
        """Let go of these bytes: the link is gone, and what is left of it may stay for a while."""

    def stop(self, now: Millis) -> None:
        """The server is about to stop: make the peer leave, as far as the protocol has words.

        No job is given from now on, though running ones may be finished (`Service.stopping`). Who
        waits for one goes on waiting, if it would ask again at once.
        """


def ask_for_nothing(broker: Broker, demand: Demand | None) -> Demand | None:
    """Let a demand wait as long as it would, but for no queue; what is demanded from now on."""
    if demand is None or not demand.queues:
        return demand
    broker.withdraw(demand)
    nothing = Demand(demand.session, (), demand.until)
    broker.demand(nothing, NEVER)  # it ends when the other would have: `now` decides nothing
    return nothing
