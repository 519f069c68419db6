"""One MemoDB connection: requests of many clients and workers in, replies in any order out.

Here bytes become messages and find whom they concern: `clients.py` or `crew.py`. What is no
message of the protocol is left unanswered, as the original does; what is no SP ends the
connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from franca.core.errors import WireError
from franca.core.events import Event, Finished, Granted, LeaseLost, Unmet
from franca.core.model import Millis, Session
from franca.protocols.conversation import Conversation, Link
from franca.protocols.memodb.cbor import Malformed
from franca.protocols.memodb.clients import USUAL_JOB, Clients, job_header_end
from franca.protocols.memodb.crew import RESULT_HEADER_BYTES, USUAL_RESULT, Crew
from franca.protocols.memodb.messages import JOB, READY, RESULT, read_header
from franca.protocols.memodb.outbox import LARGE_BYTES, Outbox
from franca.protocols.memodb.sp import (
    HEAD_BYTES,
    HELLO_OF_CLIENT,
    HELLO_OF_SERVER,
    ID_BIT,
    LENGTH_BYTES,
    NOBODY,
    WORD,
    Inbox,
    Parts,
    length_at,
    stack_end,
)

if TYPE_CHECKING:
    from franca.protocols.memodb.service import MemoDBService

HEADER_ROOM: Final = 64 * 1024
"""How much longer than the longest body a message may be."""
HEADER_BYTES_MAX: Final = 2 * 1024 * 1024
"""No header is longer: that of a READY with as many services as there may be."""
GLANCE_BYTES: Final = 128
"""How much of one that has only begun to come is looked at: enough for any usual header."""
USUAL: Final = len(USUAL_JOB)
"""Bytes of a header up to where its id begins, written as nearly everybody does."""


class MemoDBConversation(Conversation):
    """The dialogue with one peer, from the handshake on.

    It is `tired` when a message took long: then others are heard before the next one, as they are
    when its outbox has said `enough`.
    """

    def __init__(self, service: MemoDBService, link: Link) -> None:
        limits = service.limits
        unix = link.peer.unix
        self.link = link
        self._service = service
        self._share = limits.turn_messages
        self._name_max = limits.name_bytes_max
        self._size_max = min(limits.frame_bytes_max, limits.body_bytes_max + HEADER_ROOM)
        self._unix = unix
        self._head_bytes = LENGTH_BYTES + unix
        self._inbox = Inbox(self._size_max, unix=unix)
        self._behind = True
        self.holding = False
        self._greeted = False
        self.tired = False
        self._next: bytes | Parts | None = None
        self._outbox = Outbox(link, limits, service.unsent)
        self.clients = Clients(service, self, self._outbox)
        self.crew = Crew(service, self, self._outbox)
        self._usual: dict[bytes, Act] = {
            USUAL_JOB: self.clients.on_usual_job,
            USUAL_RESULT: self.crew.on_usual_result,
        }
        link.write(HELLO_OF_SERVER)

    # -- the contract -------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole messages among `data`, at most a turn's share of them."""
        self.tired = False
        if self._behind or self.holding:
            self._outbox.enough = False
            return self._catch_up(data, now)
        size = len(data)
        head = self._head_bytes
        at = 0
        left = self._share
        while True:
            start = at + head
            if start > size or (self._unix and data[at] != 1):
                break
            end = start + length_at(data, start - LENGTH_BYTES)[0]
            if end > size or end - start > self._size_max:
                break
            at = start + WORD
            act = self._usual.get(data[at : at + USUAL])
            if act is not None and at <= end and data[start] >= ID_BIT:
                act(data, start, at, end, None, now)  # as `_act`, without a call: most are such
            else:
                self._act(data, start, end, None, now)
            at = end
            if at == size:
                return False
            left -= 1
            self.link.deliver(now)
            if not left or self.tired or self.holding or self.link.closing or self._outbox.enough:
                break
        self._behind = True
        return self._catch_up(data[at:], now)

    def _catch_up(self, data: bytes, now: Millis) -> bool:
        """The same for what lies in the inbox: parts of messages, or messages that had to wait."""
        inbox = self._inbox
        inbox.feed(data)
        if not self._greeted and not self._greet():
            return False
        outbox = self._outbox
        outbox.flush()
        self.crew.go_on(now)
        try:
            for _ in range(self._share):
                if self.tired or outbox.enough:
                    break
                # A worker that was given a job has its answer before the same request may come
                # again: else that would be taken for the one that still waits.
                self.link.deliver(now)
                if self.holding or self.link.closing:
                    return False
                message, self._next = self._next, None
                if message is None:
                    message = inbox.next()
                if message is None:
                    self._behind = len(inbox) > 0
                    if inbox.parts is not None:
                        self._glance_at(inbox.parts)
                    return False
                if isinstance(message, bytes):
                    self._act(message, 0, len(message), None, now)
                else:
                    self._act_on_parts(message, now)
        except WireError as error:
            self.link.close(error.text)
            return False
        self._behind = len(inbox) > 0 or self._next is not None
        return self._behind

    def _greet(self) -> bool:
        """Whether the peer has said that it sends requests; who says another thing is cut off."""
        said = self._inbox.take_hello()
        if said is None:
            return False
        self._greeted = self.link.known = said == HELLO_OF_CLIENT
        if not self._greeted:
            self.link.close("these bytes are not a request socket's")
        return self._greeted

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A job for a worker, an end for a client, or nothing for too long."""
        # `isinstance` is slow to say no, and these two come for every job.
        if type(event) is Granted:
            self.crew.on_granted(session, event, now)
        elif type(event) is Finished:
            self.clients.on_finished(event, now)
        elif isinstance(event, Unmet):
            self.crew.on_unmet(session, event.demand, now)
        elif isinstance(event, LeaseLost):
            self.crew.on_lease_lost(session, event.job, now)

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone: its workers' jobs go to others, its clients wait for nothing more."""
        self.crew.hang_up(now, unheard=unheard)
        self.clients.hang_up(now)
        self._outbox.drop()
        self._service.conversations.pop(self, None)

    def unread(self) -> int:
        """How many bytes wait to be acted on."""
        if not (self._behind or self.holding):
            return 0
        held = self.clients.held
        # What is only partly there is in the inbox, and counted there.
        return len(self._inbox) + (held.size if held is not None and held.whole else 0)

    def forget_unread(self) -> None:
        """Let go of what waits in the inbox."""
        self._inbox = Inbox(0, unix=self._unix)
        self._next = None

    def stop(self, now: Millis) -> None:
        """The server stops: nobody is given a job, results still go where they belong."""
        self.crew.stop()

    def go_on(self, held: bytes | Parts) -> None:
        """There is room for a JOB that had to wait."""
        self.holding = False
        if held is not self._inbox.parts:
            self._next = held
        self._behind = True
        self.link.again()

    # -- one message --------------------------------------------------------------------------

    def _act(self, data: bytes, start: int, end: int, parts: Parts | None, now: Millis) -> None:
        """Act on the message that stands there; `data` is only its beginning, if it has `parts`."""
        at = start + WORD
        if at > end or data[start] < ID_BIT:
            at = stack_end(data, start, end)
            if at < 0:
                if at == NOBODY:
                    self.link.close()  # as NNG does with a peer that speaks garbage
                return
        act = self._usual.get(data[at : at + USUAL]) or self.act_on_unusual
        act(data, start, at, end, parts, now)

    def _act_on_parts(self, parts: Parts, now: Millis) -> None:
        """Act on a message that came in pieces; a large payload is joined once and never cut."""
        if parts.size <= LARGE_BYTES and not parts.too_large:
            self._act(parts.rest(0), 0, parts.size, None, now)
        else:
            head = parts.head(HEAD_BYTES)
            self.clients.has_come(parts)
            self._act(head, 0, len(head), parts, now)
            self.clients.acted_on()

    def act_on_unusual(
        self, data: bytes, start: int, at: int, end: int, parts: Parts | None, now: Millis
    ) -> None:
        """Act on a message that is written in another way than most; or on rubbish, not at all."""
        try:
            header = read_header(data, at, end, self._name_max)
        except Malformed:
            self.tired = self.tired or end - at >= HEAD_BYTES - WORD
            if parts is not None and len(data) == HEAD_BYTES and not parts.too_large:
                # Its header may be longer than what was looked at; no payload follows a READY.
                whole = parts.head(HEADER_BYTES_MAX)
                rest = parts if parts.size > HEADER_BYTES_MAX else None
                self.act_on_unusual(whole, start, at, len(whole), rest, now)
            return
        self.tired = self.tired or header.end - at >= HEAD_BYTES - WORD
        if header.op == READY:
            if not header.id and header.end == end and parts is None:
                self.crew.on_ready(header, data[start:at], data[at - WORD : end], now)
        elif header.op == JOB:
            self.clients.on_job(header, data, start, at, end, parts, now)
        elif header.id:
            self.crew.on_word(header, data, start, at, end, parts, now)

    def _is_result(self, head: bytes, at: int) -> bool:
        """Whether a message that begins like this is a worker's result: only then one goes on."""
        try:
            return at > 0 and read_header(head, at, len(head), self._name_max).op == RESULT
        except Malformed:
            return False

    def _glance_at(self, parts: Parts) -> None:
        """More of a large message has come: see what it is, once.

        Its payload is gathered apart from its header; for a JOB there must be room.
        """
        if parts.is_job:
            self.clients.on_its_way(parts)
            return
        is_large = parts.size > LARGE_BYTES or parts.too_large
        if not is_large or parts.glanced_at or parts.have < GLANCE_BYTES:
            return
        parts.glanced_at = True
        head = parts.head(GLANCE_BYTES)
        at = stack_end(head, 0, GLANCE_BYTES)
        begin = head[at : at + USUAL]
        if parts.too_large:
            if not self._is_result(head, at):
                self.link.close(f"a message of {parts.size} bytes, at most {self._size_max}")
        elif begin == USUAL_JOB:
            parts.set_body(job_header_end(head, at, GLANCE_BYTES) or at)
            parts.is_job = True
            self.clients.on_its_way(parts)
        elif begin == USUAL_RESULT:
            parts.set_body(at + RESULT_HEADER_BYTES)


Act = Callable[[bytes, int, int, int, Parts | None, Millis], None]
