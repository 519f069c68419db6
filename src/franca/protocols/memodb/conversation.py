"""One MemoDB connection: requests of many clients and workers in, replies in any order out.

Each message finds whom it concerns: `client_commands.py` or `worker_commands.py`. What is not a
message of the protocol is left unanswered, as the original does; what is not SP ends the
connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.events import Event, Finished, Granted, LeaseLost, Unmet
from franca.core.model import Millis, Session
from franca.protocols.conversation import WHOLE_SHARE, Conversation, Link
from franca.protocols.memodb import messages
from franca.protocols.memodb.client_commands import Clients
from franca.protocols.memodb.messages import Message
from franca.protocols.memodb.outbox import Outbox
from franca.protocols.memodb.sp import HEAD_BYTES, HELLO_OF_SERVER, WORD
from franca.protocols.memodb.wire import MessageReader
from franca.protocols.memodb.worker_commands import ConnectionWorkers

if TYPE_CHECKING:
    from franca.protocols.memodb.service import MemoDBService

HEADER_ROOM: Final = 64 * 1024
"""How much longer than the longest body a message may be."""
LONG_HEADER: Final = HEAD_BYTES - WORD
"""To read a header of so many bytes takes long: others are served before the next message."""


class MemoDBConversation(Conversation):
    """The dialogue with one peer, from the handshake on."""

    reader: MessageReader

    def __init__(self, service: MemoDBService, link: Link) -> None:
        limits = service.limits
        super().__init__(link)
        self.service = service
        self._size_max = min(limits.frame_bytes_max, limits.body_bytes_max + HEADER_ROOM)
        headers, unix = service.job_headers, link.peer.unix
        self.reader = MessageReader(self._size_max, limits.name_bytes_max, headers, unix=unix)
        self.outbox = Outbox(link, limits, service.unsent)
        self.clients = Clients(self)
        self.connection_workers = ConnectionWorkers(self)
        self._handlers: Mapping[int, Callable[[Message, Millis], None]] = {
            messages.JOB: self.clients.on_job,
            messages.READY: self.connection_workers.on_ready,
            messages.RESULT: self.connection_workers.on_result,
            messages.HEARTBEAT: self.connection_workers.on_heartbeat,
            messages.DISCONNECT: self.connection_workers.on_disconnect,
        }
        link.write(HELLO_OF_SERVER)

    def on_message(self, message: Message, now: Millis) -> None:
        """Act on a request."""
        handler = self._handlers.get(message.op)
        if message.is_usual and handler is not None:
            handler(message, now)
            return
        if message.is_large:
            self.clients.on_whole()
        if message.end - message.at >= LONG_HEADER:
            self.spent += WHOLE_SHARE
        if handler is not None:
            handler(message, now)
        elif message.op == messages.HELLO:
            self.link.known = True
        elif message.op == messages.NOT_ADDRESSED:
            self.link.close()  # as NNG does with a peer that sends garbage
        if message.is_large:
            self.service.room.wake()  # what was reserved is taken, or came to nothing

    def on_partial(self, now: Millis) -> None:
        """More of a message has come: for a large JOB there must be room."""
        parts = self.reader.parts
        if parts is None or parts.op is None:
            return
        if parts.too_large:
            if parts.op != messages.RESULT:
                self.link.close(f"a message of {parts.size} bytes, at most {self._size_max}")
        elif parts.op == messages.JOB:
            self.clients.on_part(parts)

    def on_turn(self, now: Millis) -> None:
        """Send what had to wait, and give jobs to workers that had to."""
        self.outbox.flush()
        self.clients.hang_up_if_alone()
        self.connection_workers.resume(now)

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
        self.outbox.drop()
        self.service.conversations.pop(self, None)

    def unread(self) -> int:
        """How many bytes wait to be acted on."""
        held = self.clients.held
        # What is only partly there is in the reader, and counted there.
        return len(self.reader) + (held.size if isinstance(held, Message) else 0)

    def forget_unread(self) -> None:
        """Drop what waits in the reader."""
        self.reader = MessageReader(0, 0, {}, unix=self.link.peer.unix)

    def stop(self, now: Millis) -> None:
        """The server stops: nobody is given a job, results still go where they belong."""
        self.connection_workers.stop()
