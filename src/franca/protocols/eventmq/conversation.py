"""One EventMQ peer: a table from commands to their handlers, and events to messages.

Any peer may do anything on any port: a client requests, a worker INFORMs and says READY for each
job it would take, an administrator asks. What a peer is follows from what it says.

Clients of the original never read what they are sent, so what a client lets pile up is dropped: no
request may ever wait for an answer that nobody reads. `results.py` spares results that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Begun, Event, Finished, Granted
from franca.core.model import Failure, Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.conversation import WHOLE_SHARE, Link
from franca.protocols.eventmq import admin_commands, client_commands, worker_commands
from franca.protocols.eventmq.jobs import HOLDERS, Address, client_of, msgid_of
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.wire import FRAMES_MIN, VERSION, VERSIONS, unwrap
from franca.protocols.eventmq.workers import Worker
from franca.protocols.eventmq.zmtp import LARGE_BYTES, Message, Truncated
from franca.protocols.numbers import EVENTMQ

if TYPE_CHECKING:
    from franca.protocols.eventmq.service import EventmqService

JOINED_MAX: Final = 1_000
"""Requests that were sent again whose results one connection waits for."""
JOINED_BYTES_MAX: Final = 4 * 1024 * 1024
"""What all connections together may take for them."""
JOINED_COSTS_BYTES: Final = 400
"""What each of them takes, besides the envelope of its answer."""
COMMAND_BYTES: Final = 32
"""No command is longer."""


class EventmqConversation(ZmtpConversation):
    """The dialogue with a client, a worker, a scheduler or an administrator.

    `joined` are requests that were sent again, whose results come here too, with the envelope of
    each. It `had_a_role` if it has said what only a client, a worker or a scheduler says.
    """

    socket_type = b"ROUTER"
    accepted = frozenset((b"DEALER", b"REQ", b"ROUTER"))

    def __init__(self, service: EventmqService, link: Link) -> None:
        super().__init__(link, service.limits, service.encoder.name, (b"", VERSION))
        self.service = service
        self.broker = service.broker
        self.worker: Worker | None = None
        self.drops = True
        self.is_client = False
        self.had_a_role = False
        self.address = Address(link.id)
        self.envelope = b""
        self.joined: dict[JobId, bytes] = {}
        self._session: Session | None = None
        self._put_off: tuple[Handler, list[bytes]] | None = None

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: Message, now: Millis) -> None:
        """Find the command and do it. What is no eMQP, or is refused, is counted and left alone."""
        if not isinstance(message, list) or not self.link.known:
            super().on_message(message, now)
            return
        frames = message
        self.envelope = b""
        if (
            len(frames) < FRAMES_MIN
            or frames[0]
            or (frames[1] != VERSION and not frames[1].startswith(VERSIONS))
        ):
            unwrapped = unwrap(frames)
            if unwrapped is None:
                self.refuse("not an eMQP message")
                return
            self.envelope, frames = unwrapped
        handler = HANDLERS.get(frames[2]) or HANDLERS.get(frames[2][:COMMAND_BYTES].upper())
        if self.worker is not None:
            self.worker.heard_at = now
        if handler is None:
            self.refuse("an unknown command")
            return
        try:
            handler(self, frames, now)
        except Refused as refusal:
            self.refuse(refusal.text)

    def on_truncated(self, message: Truncated, now: Millis) -> None:
        """A result or a request that is too large: the client that waits for it is told so."""
        self.envelope, frames = unwrap(message.frames) or (b"", [])
        before = len(message.frames) - len(frames)
        sizes = {at - before: size for at, size in message.sizes.items()}
        command = frames[2].upper() if frames else b""
        if command == b"REPLY" and self.worker is not None and 4 in sizes and 5 not in sizes:
            msgid = frames[5] if len(frames) > 5 else b""
            worker_commands.settle_too_large(self.worker, msgid, sizes[4], now)
        elif command == b"REQUEST":
            most = self.service.limits.body_bytes_max
            text = f"a request of {sum(sizes.values())} bytes, at most {most}"
            client_commands.refuse_request(self, frames, text)
        else:
            self.service.refused += 1

    def on_partial(self, now: Millis) -> None:
        """A worker is heard as long as a large result comes."""
        partial = self.reader.partial
        if partial is not None and partial.size > LARGE_BYTES and self.worker is not None:
            self.worker.heard_at = now

    def on_handshake(self) -> None:
        """The peer has sent its identity: results may be there for it."""
        self.address = Address(self.link.id, self.identity)
        self.service.results.join(self)

    def on_turn(self, now: Millis) -> None:
        """Give the worker more jobs and the client its results; act on what was put off."""
        if self.worker is not None:
            self.worker.resume(now)
        if self.service.results.kept_bytes:
            self.service.results.send_kept(self.address.key)
        super().on_turn(now)
        self._act_on_put_off(now)

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """A job for this worker, or news of a job of this client."""
        if not session.open:
            return  # what came for it went to another with the session's end
        if isinstance(event, Granted):
            assert self.worker is not None
            self.worker.on_granted(event, now)
        elif isinstance(event, Begun):
            self.on_begun(event.job, now)
        elif isinstance(event, Finished) and event.job.id in self.joined:
            client = Address(self.link.id, self.identity, self.unjoin(event.job.id))
            results = self.service.results
            results.deliver(client, event.job, results.shared(event), now)

    def on_begun(self, job: Job, now: Millis) -> None:
        """A worker has the job of a request. A REQ socket gets one answer: the result, if any.

        From now on a job that another asked for first is watched. Not before: each watch of a job
        that waits takes memory, however long the backlog is.
        """
        client = client_of(job)
        envelope = b"" if client is None else client.envelope
        if self.joined and job.id in self.joined:
            envelope = self.joined[job.id]
            if job.state > State.LEASED:  # it was taken away at once
                self.on_event(self.session, Finished(job, job.state, job.result, Failure()), now)
                return
            self.broker.watch(job.id, self.session)
        link = self.link
        if not (link.full or (self.peer_type == b"REQ" and job.policy.tells_end)):
            message = self.service.encoder.handed_over(msgid_of(job))
            link.write_after_commit(envelope + message if envelope else message)

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone, and with it whatever it wanted; what it ran goes to another."""
        self.end_task()
        if self.worker is not None and self._put_off is not None and not self.link.broken:
            self.worker.leave()
            self._act_on_put_off(now)
            self.act_on_rest(now)
        self._put_off = None
        self.service.wait_for_room.pop(self, None)
        self.service.results.leave(self)
        self.forget(now, undelivered=undelivered)

    def forget(self, now: Millis, *, undelivered: bool = False) -> None:
        """The peer has no role from now on; its connection may still be there."""
        if self.worker is not None:
            self.worker.end(now, undelivered=undelivered)
            self.worker = None
            self.drops = True
        if self._session is not None:
            self.broker.close_session(self._session, now)
            self._session = None
        for job_id in list(self.joined):
            self.unjoin(job_id)

    def stop(self, now: Millis) -> None:
        """The server stops: no more jobs for this peer, and a goodbye.

        Not to a REQ socket, which would take it for the answer that it waits for.
        """
        if self.worker is not None:
            self.worker.stop()
        elif self.is_client and self.peer_type != b"REQ" and not self.link.full:
            self.link.write(self.service.encoder.kbye())

    # -- messages that must wait ----------------------------------------------------------------

    def put_off(self, handler: Handler, frames: list[bytes]) -> None:
        """Do this when the link is called next; nothing that follows it is done before.

        The handler must refuse what it cannot take by itself then.
        """
        self._put_off = handler, frames
        self.holding = True

    def _act_on_put_off(self, now: Millis) -> None:
        if self._put_off is None:
            return
        handler, frames = self._put_off
        self._put_off = None
        self.holding = False
        if self.worker is not None:
            self.worker.heard_at = now
        handler(self, frames, now)

    def unread(self) -> int:
        """How many bytes wait, those of a message that was put off too."""
        return super().unread() + (sum(map(len, self._put_off[1])) if self._put_off else 0)

    # -- for the handlers -----------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """This peer as the broker sees it, from the first time that it matters."""
        session = self._session
        if session is None:
            holder = HOLDERS + self.link.id
            session = self._session = self.broker.open_session(
                holder, OnHangUp.RETURN, self, EVENTMQ
            )
        return session

    def refuse(self, reason: str) -> None:
        """A message was not taken: it is counted, and now and then the operator is told.

        To find out was work, and nobody needs to hear it often.
        """
        self.spent += WHOLE_SHARE
        self.service.refused += 1
        self.link.note(reason)

    def answer(self, message: bytes) -> None:
        """Answer the message at hand with something that no disk can make untrue."""
        if not self.link.full:
            self.link.write(self.envelope + message)

    @property
    def takes_results(self) -> bool:
        """Whether a result would leave at once, also behind what was sent in this turn."""
        return not (self.link.is_full() or self.link.closing)

    def join(self, job_id: JobId, envelope: bytes) -> None:
        """Wait for the result of a job that is there already, if not too many are waited for."""
        service = self.service
        has_room = len(self.joined) < JOINED_MAX and service.joined_bytes < JOINED_BYTES_MAX
        if has_room and job_id not in self.joined:
            self.joined[job_id] = envelope
            service.joined_bytes += JOINED_COSTS_BYTES + len(envelope)

    def unjoin(self, job_id: JobId) -> bytes:
        """Wait for a result no longer; returns the envelope of the answer."""
        envelope = self.joined.pop(job_id)
        self.service.joined_bytes -= JOINED_COSTS_BYTES + len(envelope)
        return envelope


Handler = Callable[[EventmqConversation, list[bytes], Millis], None]

HANDLERS: Final[Mapping[bytes, Handler]] = {
    b"REQUEST": client_commands.on_request,
    b"READY": worker_commands.on_ready,
    b"REPLY": worker_commands.on_reply,
    **dict.fromkeys((b"HEARTBEAT", b"HELLO", b"ACK"), client_commands.on_heartbeat),
    b"INFORM": worker_commands.on_inform,
    b"SCHEDULE": client_commands.on_schedule,
    b"UNSCHEDULE": client_commands.on_unschedule,
    b"PUBLISH": client_commands.on_publish,
    **dict.fromkeys((b"KBYE", b"KBAI"), client_commands.on_goodbye),
    b"DISCONNECT": admin_commands.on_disconnect,
    b"STATUS": admin_commands.on_status,
    b"ROUTER_SHOW_WORKERS": admin_commands.on_show_workers,
    b"ROUTER_SHOW_SCHEDULERS": admin_commands.on_show_schedulers,
}
