"""One EventMQ peer: messages in, verbs of the broker, messages out.

Any peer may do anything on any port: a client requests, a worker INFORMs and says READY for each
job it would take, an administrator asks. What a peer is follows from what it says; what it may do
as a worker is in `hands.py`, what it may ask of the server as a whole in `admin.py`.

Clients of the original never read what they are told, so what a client lets pile up is dropped: no
request may ever wait for an answer that nobody reads. How results are spared that is in `post.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from franca.core.errors import Refused, StoreFull
from franca.core.events import Begun, Event, Finished, Granted
from franca.core.model import Failure, Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.conversation import Link
from franca.protocols.eventmq.admin import (
    Listing,
    on_disconnect,
    on_show_schedulers,
    on_show_workers,
    on_status,
)
from franca.protocols.eventmq.frames import Skipped
from franca.protocols.eventmq.hands import Hands
from franca.protocols.eventmq.headers import USUAL_BYTES, wants_result
from franca.protocols.eventmq.job import REQUEST_FRAMES, Address, Unfit, client_of, msgid_of
from franca.protocols.eventmq.publish import on_publish
from franca.protocols.eventmq.results import HOLDERS
from franca.protocols.eventmq.scheduler import on_schedule, on_unschedule
from franca.protocols.eventmq.transport import ZmtpConversation
from franca.protocols.eventmq.wire import ECHO_BYTES_MAX, VERSION, VERSIONS
from franca.protocols.eventmq.working import on_inform, on_ready, on_reply
from franca.protocols.eventmq.zmtp import more

if TYPE_CHECKING:
    from franca.protocols.eventmq.service import EventmqService

LEASED = State.LEASED
FRAMES_MIN: Final = 4
ENVELOPE_BYTES_MAX: Final = 1_024
"""What sockets between a client and us may put around its messages, all of them together."""
JOINED_MAX: Final = 1_000
"""Requests that were said again whose results one connection waits for."""
JOINED_BYTES_MAX: Final = 4 * 1024 * 1024
"""What all connections together may take for them."""
JOINED_COSTS_BYTES: Final = 400
"""What each of them takes, besides the envelope of its answer."""
LAST_SHARES: Final = 8
"""Turns' shares of a worker that is gone that are acted on if it had to wait."""
COMMAND_BYTES: Final = 32
"""No command is longer."""


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
        self._totals = service.broker.totals
        self._session: Session | None = None
        self._address = Address(link.id)
        self.joined: dict[JobId, bytes] = {}
        """Requests said again whose results come here too, with the envelope of each."""
        self._envelope = b""
        self.is_client = False
        self.had_a_role = False
        """It has said something that only a client, a worker or a scheduler says."""
        self._put_off: tuple[Verb, list[bytes]] | None = None

    # -- the contract -------------------------------------------------------------------------

    def act(self, frames: list[bytes], now: Millis) -> None:
        """Find the command and do it. What is no eMQP is counted and left alone."""
        if self._envelope:
            self._envelope = b""
        if (
            len(frames) < FRAMES_MIN
            or frames[0]
            or (frames[1] != VERSION and not frames[1].startswith(VERSIONS))
        ):
            unwrapped = self._unwrap(frames)
            if unwrapped is None:
                self.refuse("not an eMQP message")
                return
            frames = unwrapped
        verb = VERBS.get(frames[2]) or VERBS.get(frames[2][:COMMAND_BYTES].upper())
        hands = self.hands
        if hands is not None:
            hands.member.heard_at = now
        if verb is None:
            self.refuse("an unknown command")
        else:
            verb(self, frames, now)

    def _unwrap(self, frames: list[bytes]) -> list[bytes] | None:
        """The message inside an envelope, as sockets between a client and us put it on.

        The envelope is put on every answer. None if there is no message inside.
        """
        size = 0
        for at in range(len(frames) - FRAMES_MIN + 1):
            if not frames[at] and frames[at + 1].startswith(VERSIONS):
                self._envelope = b"".join(map(more, frames[:at]))
                return frames[at:]
            size += len(frames[at])
            if size > ENVELOPE_BYTES_MAX:
                break
        return None

    def act_on_rest(self, frames: list[bytes], skipped: list[Skipped], now: Millis) -> None:
        """A result or a request that is too large: who waits for it is told so."""
        self._envelope = b""
        whole = self._unwrap(frames)
        if whole is None:
            self.service.refused += 1
            return
        sizes = {frame.at - len(frames) + len(whole): frame.size for frame in skipped}
        command = whole[2].upper()
        if command == b"REPLY" and 4 in sizes and 5 not in sizes and self.hands is not None:
            self.hands.reply_too_large(whole[5] if len(whole) > 5 else b"", sizes[4], now)
        elif command == b"REQUEST":
            most = self.service.limits.body_bytes_max
            text = f"a request of {sum(sizes.values())} bytes, at most {most}"
            self._refuse_request(whole, Unfit(text))
        else:
            self.service.refused += 1

    def on_progress(self, now: Millis) -> None:
        """A worker is heard as long as a large result comes."""
        if self.hands is not None:
            self.hands.member.heard_at = now

    def on_known(self) -> None:
        """The peer has said who it is: results may be there for it."""
        self._address = Address(self.link.id, self.identity)
        self.service.post.join(self)

    def on_turn(self, now: Millis) -> None:
        """Give the worker more jobs and the client its results; act on what was put off."""
        if self.hands is not None:
            self.hands.go_on(now)
        post = self.service.post
        if post.kept_bytes:
            post.go_on(self)
        if self._put_off is not None:
            self._act_on_put_off(now)

    def put_off(self, verb: Verb, frames: list[bytes]) -> None:
        """Do this later: nothing that follows it is acted on before."""
        self._put_off = verb, frames
        self.holding = True

    def _act_on_put_off(self, now: Millis) -> None:
        assert self._put_off is not None
        verb, frames = self._put_off
        self._put_off = None
        self.holding = False
        self.on_progress(now)
        verb(self, frames, now)
        self.link.deliver(now)  # as between any two messages

    def unread(self) -> int:
        """How many bytes wait, those of a message that was put off too."""
        waits = self._put_off
        return super().unread() + (sum(map(len, waits[1])) if waits is not None else 0)

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A job for this worker, or news of a job of this client."""
        if not session.open:
            return  # what came for it went to another with the session's end
        if isinstance(event, Granted):
            assert self.hands is not None
            self.hands.granted(event, now)
        elif isinstance(event, Begun):
            self._on_begun(event.job, now)
        elif isinstance(event, Finished) and event.job.id in self.joined:
            client = Address(self.link.id, self.identity, self.part(event.job.id))
            post = self.service.post
            post.bring(client, post.written(event), msgid_of(event.job), now)

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone, and with it whatever it wanted; what it ran goes to another."""
        if isinstance(self.task, Listing):
            self.task.end()
        self.task = None
        if self.hands is not None and self._put_off is not None and not self.link.broken:
            self.hands.leave()
            self._act_on_put_off(now)
            for _ in range(LAST_SHARES):
                if not self.receive(b"", now):
                    break
        self._put_off = None
        self.service.wait_no_more(self)
        self.service.post.leave(self)
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
        for job_id in list(self.joined):
            self.part(job_id)

    def stop(self, now: Millis) -> None:
        """The server stops: no more jobs for this peer, and a goodbye.

        Not to a REQ socket, which would take it for the answer that it waits for.
        """
        if self.hands is not None:
            self.hands.stop()
        elif self.is_client and self.peer_type != b"REQ" and not self.link.full:
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

    def refuse(self, reason: str) -> None:
        """A message was not taken: it is counted, and now and then the operator is told.

        To find out was work, and nobody needs to hear it often.
        """
        self.has_had_its_share = True
        self.service.refused += 1
        self.link.note(reason)

    def say(self, message: bytes) -> None:
        """Say something that no disk can make untrue, in answer to the message at hand."""
        if not self.link.full:
            self.link.write(self._envelope + message)

    def report(self, text: bytes) -> None:
        """Answer an administrator with what must be durable first."""
        if not self.link.full:
            said = self.voice.report(text)
            self._write([self._envelope, *said] if self._envelope else said)
            self.link.after_commit = True

    @property
    def takes_results(self) -> bool:
        """Whether a result would leave at once, also behind what was said in this turn."""
        link = self.link
        return not (link.is_full() or link.closing)

    def say_result(self, result: bytes, msgid: bytes, envelope: bytes) -> None:
        """Tell a client what came of its request."""
        said = self.voice.result(result, msgid)
        if len(said) == 1 and not envelope:
            self.link.write_after_commit(said[0])
            return
        self._write([envelope, *said] if envelope else said)
        self.link.after_commit = True

    def _write(self, pieces: list[bytes]) -> None:
        """Say something that may be long, and then is not copied."""
        if len(pieces) > 2:
            self.link.write_bulk(*pieces)
        else:
            self.link.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    # -- clients ----------------------------------------------------------------------------------

    def be_client(self) -> None:
        """The peer asks for something, again perhaps after a goodbye."""
        if not self.is_client:
            self.is_client = self.had_a_role = True
            self.service.post.join(self)

    def on_request(self, frames: list[bytes], now: Millis) -> None:
        """REQUEST: a job. The answer says that a worker has it, and comes when one does."""
        if not self.is_client:
            self.be_client()
        session = self._session or self.session
        client = self._address
        if self._envelope:
            client = Address(client.link, client.identity, self._envelope)
        last_id = self._totals.last_job_id
        try:
            job = self._submit(frames, client, now)
        except StoreFull:
            # No word says so. What cannot be kept is not taken: the peer's socket keeps it.
            self.put_off(EventmqConversation.on_request, frames)
            self.service.wait_for_room(self)
            return
        except Refused as refusal:
            self._refuse_request(frames, refusal)
            return
        if len(frames[5]) > USUAL_BYTES:
            self.has_had_its_share = True
        if job.id <= last_id and job.policy.tells_end:
            self._join(job.id, client.envelope)  # asked for before, perhaps by somebody else
        if job.state is LEASED:
            self._on_begun(job, now)
        elif not self.broker.await_begin(job, session) and job.id in self.joined:
            self.broker.watch(job.id, session)

    def _join(self, job_id: JobId, envelope: bytes) -> None:
        """Wait for the result of a job that is there already, if not too many are waited for."""
        joined, service = self.joined, self.service
        has_room = len(joined) < JOINED_MAX and service.joined_bytes < JOINED_BYTES_MAX
        if has_room and job_id not in joined:
            joined[job_id] = envelope
            service.joined_bytes += JOINED_COSTS_BYTES + len(envelope)

    def part(self, job_id: JobId) -> bytes:
        """Wait for it no longer; returns the envelope of the answer."""
        envelope = self.joined.pop(job_id)
        self.service.joined_bytes -= JOINED_COSTS_BYTES + len(envelope)
        return envelope

    def _on_begun(self, job: Job, now: Millis) -> None:
        """Somebody has the job of a request. A REQ socket hears one answer: the result, if any.

        From now on a job that another asked for first is watched. Not before: each watch of a job
        that waits takes memory, however long the backlog is.
        """
        client = client_of(job)
        envelope = b"" if client is None else client.envelope
        if self.joined and job.id in self.joined:
            envelope = self.joined[job.id]
            if job.state > LEASED:  # somebody has taken it away in the same breath
                self.tell(self.session, Finished(job, job.state, job.result, Failure()), now)
                return
            self.broker.watch(job.id, self.session)
        link = self.link
        if not (link.full or (self.peer_type == b"REQ" and job.policy.tells_end)):
            said = self.voice.handed_over(msgid_of(job))
            link.write_after_commit(envelope + said if envelope else said)

    def _refuse_request(self, frames: list[bytes], refusal: Refused) -> None:
        """Who asked for a result hears why there will be none."""
        self.refuse(refusal.text)
        is_whole = len(frames) >= REQUEST_FRAMES and len(frames[3]) <= ECHO_BYTES_MAX
        if is_whole and wants_result(frames[5]) and not self.link.full:
            error = msgspec.json.encode({"error": refusal.text})
            self._write([self._envelope, *self.voice.result(error, frames[3])])

    # -- anybody ----------------------------------------------------------------------------------

    def on_noted(self, frames: list[bytes], now: Millis) -> None:
        """HEARTBEAT, HELLO, ACK: it was heard that the peer lives."""

    def on_goodbye(self, frames: list[bytes], now: Millis) -> None:
        """KBYE, or the document's KBAI: nothing more for this peer; it may finish its jobs."""
        if self.hands is not None:
            self.hands.leave()
        else:
            self.is_client = False
            self.service.post.leave(self)
            self.forget(now)


Verb = Callable[[EventmqConversation, list[bytes], Millis], None]

VERBS: Final[Mapping[bytes, Verb]] = {
    b"REQUEST": EventmqConversation.on_request,
    b"READY": on_ready,
    b"REPLY": on_reply,
    b"HEARTBEAT": EventmqConversation.on_noted,
    b"INFORM": on_inform,
    b"SCHEDULE": on_schedule,
    b"UNSCHEDULE": on_unschedule,
    b"PUBLISH": on_publish,
    b"KBYE": EventmqConversation.on_goodbye,
    b"KBAI": EventmqConversation.on_goodbye,
    b"DISCONNECT": on_disconnect,
    b"HELLO": EventmqConversation.on_noted,
    b"ACK": EventmqConversation.on_noted,
    b"STATUS": on_status,
    b"ROUTER_SHOW_WORKERS": on_show_workers,
    b"ROUTER_SHOW_SCHEDULERS": on_show_schedulers,
}
