"""One EventMQ peer: messages in, verbs of the broker, messages out.

Any peer may do anything on any port: a client requests, a worker INFORMs and says READY for each
job it would take, an administrator asks. What a peer is follows from what it says; what it may do
as a worker is in `hands.py`, what it may ask of the server as a whole in `admin.py`.

Clients of the original never read what they are told, so what a client lets pile up is dropped: no
request may ever wait for an answer that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.errors import Refused, StoreFull
from franca.core.events import Begun, Event, Finished, Granted
from franca.core.model import Failure, Job, Millis, OnHangUp, Session, State
from franca.protocols.conversation import Link
from franca.protocols.eventmq.admin import on_show_schedulers, on_show_workers, on_status
from franca.protocols.eventmq.hands import Hands, settle_late
from franca.protocols.eventmq.job import REQUEST_FRAMES, msgid_of
from franca.protocols.eventmq.results import HOLDERS, result_of
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.wire import VERSION, VERSIONS
from franca.protocols.eventmq.zmtp import message, more

if TYPE_CHECKING:
    from franca.protocols.eventmq.service import EventmqService

LEASED = State.LEASED
FRAMES_MIN: Final = 4
ADMIN_PREFIX: Final = b"admin:"
"""What the ids of the original's command line begin with."""


class EventmqConversation(ZmtpConversation):
    """The dialogue with a client, a worker, a scheduler or an administrator."""

    socket_type = b"ROUTER"
    accepted = frozenset((b"DEALER", b"REQ", b"ROUTER"))

    def __init__(self, service: EventmqService, link: Link) -> None:
        super().__init__(link, service.limits, service.voice.name, (b"", VERSION))
        self.service = service
        self.broker = service.broker
        self.voice = service.voice
        self.hands: Hands | None = None
        self.drops = True
        self._submit = service.intake.submit
        self._session: Session | None = None
        self._envelopes: dict[int, bytes] = {}
        self._envelope = b""
        self._is_client = False
        self._unread_results = 0
        self._results_max = service.limits.output_hard_bytes // 2
        self._waits_for_room: list[bytes] | None = None

    # -- the contract -------------------------------------------------------------------------

    def act(self, frames: list[bytes], now: Millis) -> None:
        """Find the command and do it. What is no eMQP is counted and left alone."""
        if self._envelope:
            self._envelope = b""
        if len(frames) < FRAMES_MIN or frames[0] or not frames[1].startswith(VERSIONS):
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
        for at in range(len(frames) - FRAMES_MIN + 1):
            if not frames[at] and frames[at + 1].startswith(VERSIONS):
                self._envelope = b"".join(map(more, frames[:at]))
                return frames[at:]
        return None

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A job for this worker, or news of a job of this client."""
        if not session.open:
            return  # what came for it went to another with the session's end
        if isinstance(event, Granted):
            assert self.hands is not None
            self.hands.granted(event, now)
        elif isinstance(event, Begun):
            self._on_begun(event.job)
        elif isinstance(event, Finished) and self._wants_result(event.job):
            self._say_result(event)

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone, and with it whatever it wanted; what it ran goes to another."""
        self.service.wait_no_more(self)
        self.forget(now, unheard=unheard)

    def forget(self, now: Millis, *, unheard: bool = False) -> None:
        """The peer is nobody from now on; its connection may still be there."""
        if self.hands is not None:
            self.hands.end(now, unheard=unheard)
            self.hands = None
            self.drops = True
        if self._session is not None:
            self.broker.close_session(self._session, now)
            self._session = None
        self._envelopes.clear()

    def stop(self, now: Millis) -> None:
        """The server stops: no more jobs for this peer, and a goodbye.

        Not to a REQ socket, which would take it for the answer that it waits for.
        """
        if self.hands is not None:
            self.hands.stop()
        elif self._is_client and self.peer_type != b"REQ" and not self.link.full:
            self.link.write(self.voice.kbye())

    # -- for those built on it ------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """This peer as the broker sees it, from the first time that it matters."""
        session = self._session
        if session is None:
            holder = HOLDERS + self.link.id
            session = self._session = self.broker.open_session(holder, OnHangUp.RETURN, self)
        return session

    def say(self, message: bytes) -> None:
        """Say something that no disk can make untrue, in answer to the message at hand."""
        if not self.link.full:
            self.link.write(self._envelope + message)

    def report(self, text: bytes) -> None:
        """Answer an administrator with what must be durable first."""
        if not self.link.full:
            self.link.write_after_commit(self._envelope + self.voice.report(text))
        self.has_had_its_share = True

    def go_on(self, now: Millis) -> None:
        """There is room again: take the request that waits for it, and what came behind it."""
        frames, self._waits_for_room = self._waits_for_room, None
        self.holding = False
        if frames is not None:
            self.on_request(frames, now)
        while not self.link.closing and self.receive(b"", now):
            pass

    # -- clients ----------------------------------------------------------------------------------

    def on_request(self, frames: list[bytes], now: Millis) -> None:
        """REQUEST: a job. The answer says that a worker has it, and comes when one does."""
        self._is_client = True
        session = self._session or self.session
        try:
            job, terms = self._submit(frames, now)
        except StoreFull:
            # No word says so. What cannot be kept is not taken: the peer's socket keeps it.
            self._waits_for_room = frames
            self.holding = True
            self.service.wait_for_room(self)
            return
        except Refused as refusal:
            self._refuse_request(frames, refusal)
            return
        if self._envelope:
            self._envelopes[job.id] = self._envelope
        if job.state is LEASED:
            self._on_begun(job)
        elif not self.broker.await_begin(job, session) and terms.wants_result:
            self.broker.watch(job.id, session)

    def _on_begun(self, job: Job) -> None:
        """Somebody has the job of a request. From now on its end is of interest, if it is at all.

        Not before: a job that is watched cannot leave memory, and might overtake those that do.
        """
        wants_result = self._wants_result(job)
        if wants_result:
            if job.state > LEASED:  # somebody has taken it away in the same breath
                self._say_result(Finished(job, job.state, job.result, Failure()))
                return
            self.broker.watch(job.id, self.session)
            if self.peer_type == b"REQ":
                return  # a REQ socket hears one answer to each request: the result
        if not self.link.full:
            handed_over = self.voice.handed_over(msgid_of(job))
            self.link.write_after_commit(self._enveloped(job.id) + handed_over)
        if self._envelopes and not wants_result:
            self._envelopes.pop(job.id, None)

    def _refuse_request(self, frames: list[bytes], refusal: Refused) -> None:
        """Who asked for a result hears why there will be none."""
        self.service.refuse(refusal.text)
        if len(frames) >= REQUEST_FRAMES and self.service.terms.of(frames[5]).wants_result:
            error = msgspec.json.encode({"error": refusal.text})
            self.say(self.voice.result(error, frames[3]))

    def _wants_result(self, job: Job) -> bool:
        return self.service.renderer.terms(job).wants_result

    def _say_result(self, event: Finished) -> None:
        job = event.job
        envelope = self._enveloped(job.id)
        if envelope:
            del self._envelopes[job.id]
        result = envelope + self.voice.result(result_of(event), msgid_of(job))
        if not self.link.full:
            self._unread_results = 0
        else:
            self._unread_results += len(result)
            if self._unread_results > self._results_max:
                self.service.refuse("results that their client does not read")
                return
        self.link.write_after_commit(result)

    def _enveloped(self, job_id: int) -> bytes:
        return self._envelopes.get(job_id, b"") if self._envelopes else b""

    def on_schedule(self, frames: list[bytes], now: Millis) -> None:
        """SCHEDULE: jobs by a rule. There is no answer."""
        self._is_client = True
        try:
            self.service.scheduling.schedule(frames, now)
        except Refused as refusal:
            self.service.refuse(refusal.text)

    def on_unschedule(self, frames: list[bytes], now: Millis) -> None:
        """UNSCHEDULE: no more jobs by this rule, nor by those that other schedulers keep."""
        self._is_client = True
        try:
            self.service.scheduling.unschedule(frames)
        except Refused as refusal:
            self.service.refuse(refusal.text)
            return
        self.service.schedulers.tell(message(frames))

    def on_publish(self, frames: list[bytes], now: Millis) -> None:
        """PUBLISH: topic and message, with headers between them or without."""
        self._is_client = True
        if len(frames) < 6:
            self.service.refuse("a PUBLISH of too few frames")
        else:
            self.service.topics.publish(frames[4], frames[6] if len(frames) > 6 else frames[5])

    # -- workers ----------------------------------------------------------------------------------

    def on_inform(self, frames: list[bytes], now: Millis) -> None:
        """INFORM: the peer is a worker of these queues, or a scheduler."""
        queues = frames[4] if len(frames) > 4 else b""
        role = frames[5].strip().lower() if len(frames) > 5 else b"worker"
        try:
            hands = Hands.of(self, role, queues, now)
        except Refused as refusal:
            self.service.refuse(refusal.text)
            return
        if self.hands is not None:
            self.hands.replace()
        self.hands = hands
        self.drops = False
        # At once: a job manager starts its processes on the first heartbeat it hears.
        self.say(self.voice.ack(frames[3]) + self.service.heartbeat(now))
        hands.join()
        if self.service.stopping:
            hands.stop()

    def on_ready(self, frames: list[bytes], now: Millis) -> None:
        """READY: the worker would take one more job."""
        if self.hands is not None:
            self.hands.ready(now)

    def on_reply(self, frames: list[bytes], now: Millis) -> None:
        """REPLY: a job is done. The document's form has one frame less and does not say which."""
        hands = self.hands
        if len(frames) > 5:
            if hands is not None:
                hands.reply(frames[4], frames[5], now)
            else:
                settle_late(self.broker, frames[4], frames[5], now)
        elif len(frames) == 5 and hands is not None:
            hands.reply_unnamed(frames[4], frames[3], now)
        else:
            self.service.refuse("a REPLY of too few frames")

    # -- anybody ----------------------------------------------------------------------------------

    def on_noted(self, frames: list[bytes], now: Millis) -> None:
        """HEARTBEAT, HELLO, ACK: it was heard that the peer lives."""

    def on_goodbye(self, frames: list[bytes], now: Millis) -> None:
        """KBYE, or the document's KBAI: nothing more for this peer; it may finish its jobs."""
        if self.hands is not None:
            self.hands.leave()
        else:
            self.forget(now)

    def on_disconnect(self, frames: list[bytes], now: Millis) -> None:
        """DISCONNECT: of an administrator, the whole server is to stop; of others, only they."""
        is_admin = self.hands is None and not self._is_client
        if is_admin or frames[3].startswith(ADMIN_PREFIX):
            if not self.service.may_stop(self.link.peer):
                self.service.refuse("a DISCONNECT from afar")
                return
            self.say(self.voice.ack(frames[3]))
            self.service.request_stop()
            return
        self.say(self.voice.kbye())
        self.on_goodbye(frames, now)


Verb = Callable[[EventmqConversation, list[bytes], Millis], None]

VERBS: Final[Mapping[bytes, Verb]] = {
    b"REQUEST": EventmqConversation.on_request,
    b"READY": EventmqConversation.on_ready,
    b"REPLY": EventmqConversation.on_reply,
    b"HEARTBEAT": EventmqConversation.on_noted,
    b"INFORM": EventmqConversation.on_inform,
    b"SCHEDULE": EventmqConversation.on_schedule,
    b"UNSCHEDULE": EventmqConversation.on_unschedule,
    b"PUBLISH": EventmqConversation.on_publish,
    b"KBYE": EventmqConversation.on_goodbye,
    b"KBAI": EventmqConversation.on_goodbye,
    b"DISCONNECT": EventmqConversation.on_disconnect,
    b"HELLO": EventmqConversation.on_noted,
    b"ACK": EventmqConversation.on_noted,
    b"STATUS": on_status,
    b"ROUTER_SHOW_WORKERS": on_show_workers,
    b"ROUTER_SHOW_SCHEDULERS": on_show_schedulers,
}
