"""One EventMQ peer: messages in, verbs of the broker, messages out.

Any peer may do anything on any port: a client requests, a worker INFORMs and says READY for each
job it would take, an administrator asks. What a peer is follows from what it says; what it may do
as a worker is in `hands.py`, what it may ask of the server as a whole in `admin.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Begun, Event, Finished, Granted
from franca.core.model import Millis, OnHangUp, Session, State
from franca.protocols.conversation import Link
from franca.protocols.eventmq.hands import Hands
from franca.protocols.eventmq.job import REQUEST_FRAMES, msgid_of
from franca.protocols.eventmq.results import result_of
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.wire import VERSIONS
from franca.protocols.eventmq.zmtp import more

if TYPE_CHECKING:
    from franca.protocols.eventmq.service import EventmqService

LEASED = State.LEASED
FRAMES_MIN: Final = 4


class EventmqConversation(ZmtpConversation):
    """The dialogue with a client, a worker, a scheduler or an administrator."""

    socket_type = b"ROUTER"
    accepted = frozenset((b"DEALER", b"REQ", b"ROUTER"))

    def __init__(self, service: EventmqService, link: Link) -> None:
        super().__init__(link, service.limits, service.voice.name)
        self.service = service
        self.broker = service.broker
        self.voice = service.voice
        self.hands: Hands | None = None
        self._submit = service.intake.submit
        self._session: Session | None = None
        self._envelopes: dict[int, bytes] = {}
        self._envelope = b""

    # -- the contract -------------------------------------------------------------------------

    def act(self, frames: list[bytes], now: Millis) -> None:
        """Find the command and do it. What is no eMQP is counted and left alone."""
        if self._envelope:
            self._envelope = b""
        if frames[0] or len(frames) < FRAMES_MIN or not frames[1].startswith(VERSIONS):
            unwrapped = self._unwrap(frames)
            if unwrapped is None:
                self.service.refuse("not an eMQP message")
                return
            frames = unwrapped
        verb = VERBS.get(frames[2]) or VERBS.get(frames[2].upper())
        if self.hands is not None:
            self.hands.member.heard_at = now
        if verb is None:
            self.service.refuse("an unknown command")
        else:
            verb(self, frames, now)

    def _unwrap(self, frames: list[bytes]) -> list[bytes] | None:
        """The message inside an envelope, as sockets between a client and us put it on.

        The envelope is put on every answer. None if there is no message inside.
        """
        for at, frame in enumerate(frames):
            if not frame and frames[at + 1 : at + 2] and frames[at + 1].startswith(VERSIONS):
                self._envelope = b"".join(map(more, frames[:at]))
                return frames[at:] if len(frames) >= at + FRAMES_MIN else None
        return None

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A job for this worker, or news of a job of this client."""
        if isinstance(event, Granted):
            if self.hands is not None and session is self.hands.session:
                self.hands.granted(event, now)
            else:
                self.broker.give_back(event.job, session.holder, now)
        elif isinstance(event, Begun):
            job = event.job
            self.link.write_after_commit(
                self._enveloped(job.id) + self.voice.handed_over(msgid_of(job))
            )
        elif isinstance(event, Finished):
            job = event.job
            envelope = self._enveloped(job.id)
            self._envelopes.pop(job.id, None)
            self.link.write_after_commit(
                envelope + self.voice.result(result_of(event), msgid_of(job))
            )

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone, and with it whatever it wanted; what it ran goes to another."""
        self.forget(now, unheard=unheard)

    def forget(self, now: Millis, *, unheard: bool = False) -> None:
        """The peer is nobody from now on; its connection may still be there."""
        if self.hands is not None:
            self.hands.end(now, unheard=unheard)
            self.hands = None
        if self._session is not None:
            self.broker.close_session(self._session, now)
            self._session = None

    def stop(self, now: Millis) -> None:
        """The server stops: no more jobs for this peer, and a goodbye if it would understand it."""
        if self.hands is not None:
            self.hands.stop(now)

    # -- for those built on it ------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """This peer as the broker sees it, from the first time that it matters."""
        session = self._session
        if session is None:
            holder = f"{self.service.name} {self.link.id}"
            session = self._session = self.broker.open_session(holder, OnHangUp.RETURN, self)
        return session

    def say(self, message: bytes) -> None:
        """Say something that no disk can make untrue, in answer to the message at hand."""
        self.link.write(self._envelope + message)

    def _enveloped(self, job_id: int) -> bytes:
        return self._envelopes.get(job_id, b"") if self._envelopes else b""

    # -- clients ----------------------------------------------------------------------------------

    def on_request(self, frames: list[bytes], now: Millis) -> None:
        """REQUEST: a job. The answer says that a worker has it, and comes when one does."""
        if len(frames) < REQUEST_FRAMES:
            self.service.refuse("a REQUEST of too few frames")
            return
        session = self._session or self.session
        try:
            job, terms = self._submit(frames, now, session)
        except Refused as refusal:
            self.service.refuse(refusal.text)
            return
        if self._envelope:
            self._envelopes[job.id] = self._envelope
        if terms.wants_result and self.peer_type == b"REQ":
            return  # a REQ socket hears one answer to each request: the result
        if job.state is LEASED:
            self.link.write_after_commit(self._envelope + self.voice.handed_over(frames[3]))
        else:
            self.broker.await_begin(job, session)

    # -- workers ----------------------------------------------------------------------------------

    def on_inform(self, frames: list[bytes], now: Millis) -> None:
        """INFORM: the peer is a worker of these queues, or a scheduler."""
        queues = frames[4] if len(frames) > 4 else b""
        role = frames[5].lower() if len(frames) > 5 else b"worker"
        try:
            hands = Hands.of(self, role, queues, now)
        except Refused as refusal:
            self.service.refuse(refusal.text)
            return
        if self.hands is not None:
            self.hands.leave(now)
        self.hands = hands
        self.say(self.voice.ack(frames[3]))
        # At once: a job manager starts its processes on the first heartbeat it hears.
        self.say(self.service.heartbeat(now))
        hands.join(now)

    def on_ready(self, frames: list[bytes], now: Millis) -> None:
        """READY: the worker would take one more job."""
        if self.hands is not None:
            self.hands.ready(now)

    def on_reply(self, frames: list[bytes], now: Millis) -> None:
        """REPLY: a job is done."""
        if self.hands is not None and len(frames) > 5:
            self.hands.reply(frames[4], frames[5], now)

    def on_heartbeat(self, frames: list[bytes], now: Millis) -> None:
        """HEARTBEAT, HELLO, ACK: noted, as every message is."""


Verb = Callable[[EventmqConversation, list[bytes], Millis], None]

VERBS: Final[Mapping[bytes, Verb]] = {
    b"REQUEST": EventmqConversation.on_request,
    b"INFORM": EventmqConversation.on_inform,
    b"READY": EventmqConversation.on_ready,
    b"REPLY": EventmqConversation.on_reply,
    b"HEARTBEAT": EventmqConversation.on_heartbeat,
    b"HELLO": EventmqConversation.on_heartbeat,
    b"ACK": EventmqConversation.on_heartbeat,
}
