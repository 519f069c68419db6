"""One MemoDB connection: requests of many clients and workers in, replies in any order out.

Each message finds whom it concerns: `client_commands.py` or `worker_commands.py`. What is no
message of the protocol is left unanswered, as the original does; what is no SP ends the
connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from franca.core.events import Event, Finished, Granted, LeaseLost, Unmet
from franca.core.model import Millis, Session
from franca.protocols.conversation import WHOLE_SHARE, Conversation, Link
from franca.protocols.memodb.cbor import Malformed
from franca.protocols.memodb.client_commands import USUAL_JOB, Clients, job_header_end
from franca.protocols.memodb.messages import JOB, READY, RESULT, read_header
from franca.protocols.memodb.outbox import LARGE_BYTES, Outbox
from franca.protocols.memodb.sp import (
    HEAD_BYTES,
    HELLO_OF_SERVER,
    ID_BIT,
    NOBODY,
    WORD,
    Hello,
    Inbox,
    Parts,
    stack_end,
)
from franca.protocols.memodb.worker_commands import (
    RESULT_HEADER_BYTES,
    USUAL_RESULT,
    ConnectionWorkers,
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
    """The dialogue with one peer, from the handshake on."""

    reader: Inbox

    def __init__(self, service: MemoDBService, link: Link) -> None:
        limits = service.limits
        self.link = link
        self._service = service
        self._name_max = limits.name_bytes_max
        self._size_max = min(limits.frame_bytes_max, limits.body_bytes_max + HEADER_ROOM)
        self.reader = Inbox(self._size_max, unix=link.peer.unix)
        self._outbox = Outbox(link, limits, service.unsent)
        self.clients = Clients(service, self, self._outbox)
        self.connection_workers = ConnectionWorkers(service, self, self._outbox)
        self._usual: dict[bytes, Act] = {
            USUAL_JOB: self.clients.on_usual_job,
            USUAL_RESULT: self.connection_workers.on_usual_result,
        }
        link.write(HELLO_OF_SERVER)

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: bytes | Parts | Hello, now: Millis) -> None:
        """Act on a request."""
        if isinstance(message, bytes):
            act = self._usual.get(message[WORD : WORD + USUAL])
            if act is not None and message[0] >= ID_BIT:
                act(message, WORD, None, now)  # as `_act`: most are such
            else:
                self._act(message, None, now)
        elif isinstance(message, Parts):
            self._act_on_parts(message, now)
        else:
            self.link.known = True

    def on_partial(self, now: Millis) -> None:
        """More of a message has come: see what it is, if it is large."""
        if self.reader.parts is not None:
            self._glance_at(self.reader.parts)

    def on_turn(self, now: Millis) -> None:
        """Say what had to wait, and give jobs to those who had to."""
        self._outbox.flush()
        self.connection_workers.go_on(now)

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """A job for a worker, an end for a client, or nothing for too long."""
        # `isinstance` is slow to say no, and these two come for every job.
        if type(event) is Granted:
            self.connection_workers.on_granted(session, event, now)
        elif type(event) is Finished:
            self.clients.on_finished(event, now)
        elif isinstance(event, Unmet):
            self.connection_workers.on_unmet(session, event.demand, now)
        elif isinstance(event, LeaseLost):
            self.connection_workers.on_lease_lost(session, event.job, now)

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone: its workers' jobs go to others, its clients wait for nothing more."""
        self.connection_workers.hang_up(now, undelivered=undelivered)
        self.clients.hang_up(now)
        self._outbox.drop()
        self._service.conversations.pop(self, None)

    def unread(self) -> int:
        """How many bytes wait to be acted on."""
        held = self.clients.held
        # What is only partly there is in the inbox, and counted there.
        return len(self.reader) + (held.size if held is not None and held.whole else 0)

    def forget_unread(self) -> None:
        """Let go of what waits in the inbox."""
        self.reader = Inbox(0, unix=self.link.peer.unix)

    def stop(self, now: Millis) -> None:
        """The server stops: nobody is given a job, results still go where they belong."""
        self.connection_workers.stop()

    def go_on(self, held: bytes | Parts) -> None:
        """There is room for a JOB that had to wait."""
        self.reader.put_back(held)
        self.resume()

    # -- one message --------------------------------------------------------------------------

    def _act(self, data: bytes, parts: Parts | None, now: Millis) -> None:
        """Act on the message that stands there; `data` is only its beginning, if it has `parts`."""
        at = WORD
        if len(data) < WORD or data[0] < ID_BIT:
            at = stack_end(data, 0, len(data))
            if at < 0:
                if at == NOBODY:
                    self.link.close()  # as NNG does with a peer that speaks garbage
                return
        act = self._usual.get(data[at : at + USUAL]) or self.act_on_unusual
        act(data, at, parts, now)

    def _act_on_parts(self, parts: Parts, now: Millis) -> None:
        """Act on a message that came in pieces; a large payload is joined once and never cut."""
        if parts.size <= LARGE_BYTES and not parts.too_large:
            self._act(parts.rest(0), None, now)
        else:
            head = parts.head(HEAD_BYTES)
            self.clients.has_come(parts)
            self._act(head, parts, now)
            self.clients.acted_on()

    def act_on_unusual(self, data: bytes, at: int, parts: Parts | None, now: Millis) -> None:
        """Act on a message that is written in another way than most; or on rubbish, not at all."""
        try:
            header = read_header(data, at, len(data), self._name_max)
        except Malformed:
            self._charge(len(data) - at)
            if parts is not None and len(data) == HEAD_BYTES and not parts.too_large:
                # Its header may be longer than what was looked at; no payload follows a READY.
                whole = parts.head(HEADER_BYTES_MAX)
                rest = parts if parts.size > HEADER_BYTES_MAX else None
                self.act_on_unusual(whole, at, rest, now)
            return
        self._charge(header.end - at)
        if header.op == READY:
            if not header.id and header.end == len(data) and parts is None:
                self.connection_workers.on_ready(header, data[:at], data[at - WORD :], now)
        elif header.op == JOB:
            self.clients.on_job(header, data, at, parts, now)
        elif header.id:
            self.connection_workers.on_word(header, data, at, parts, now)

    def _charge(self, header_bytes: int) -> None:
        """To read a long header takes long: others are heard before the next message."""
        if header_bytes >= HEAD_BYTES - WORD:
            self.spent += WHOLE_SHARE

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


Act = Callable[[bytes, int, Parts | None, Millis], None]
