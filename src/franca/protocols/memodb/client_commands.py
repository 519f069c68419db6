"""The clients of one connection: what they ask for, and how much of it at once.

The document leaves open how many jobs a client may submit. Here each connection has a share, in
jobs and in bytes, and large jobs of all connections have a share of the memory. What is beyond
stays in the socket: nothing more is read from a connection before one of its jobs is done. One
that also carries workers must be read, or their results would never come; what it submits beyond
its share is left unanswered, and NNG sends it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Finished
from franca.core.model import Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.memodb.messages import Message
from franca.protocols.memodb.requests import Request
from franca.protocols.memodb.sp import WORD, Parts
from franca.protocols.memodb.wire import LARGE_BYTES, RESULT_HEAD

if TYPE_CHECKING:
    from franca.protocols.memodb.conversation import MemoDBConversation

READY: Final = State.READY
DONE: Final = State.DONE
SAMPLE_BYTES: Final = 1_024
"""How much of either end of a large job stands for the whole in its request's key."""
IN_TIME_S: Final = 30
"""How long a large job may take to come while others wait for room."""


class Clients:
    """All clients that share one connection, each known by the stack of its request.

    `asked` are the requests under way, and `held` is a JOB that must wait for room.
    """

    def __init__(self, conversation: MemoDBConversation) -> None:
        service = conversation.service
        self.asked: dict[JobId, tuple[Request, bytes]] = {}
        self.held: Message | Parts | None = None
        self._conversation = conversation
        self._outbox = conversation.outbox
        self._broker = service.broker
        self._service = service
        self._requests = service.requests
        self._by_key = service.requests.by_key
        self._room = service.room
        self._jobs_max = service.settings.share_jobs
        self._easy_bytes = min(LARGE_BYTES, service.settings.share_bytes)
        self._body_max = service.limits.body_bytes_max
        self._session: Session | None = None
        self._bytes = 0
        self._unanswered: set[bytes] = set()
        self._admitted: Parts | None = None
        """A JOB of which a part has come, for which there is room."""
        self._slow: Parts | None = None
        """One whose room was given to others because it comes slowly."""
        self._came = 0

    # -- asking -----------------------------------------------------------------------------------

    def on_job(self, message: Message, now: Millis) -> None:
        """JOB: submitted, if there is room for it and it was not submitted before."""
        size = message.size
        if size > self._body_max:
            self._conversation.link.close(f"a job of {size} bytes, at most {self._body_max}")
            return
        # With little under way there is room, without a further look.
        is_tight = self._bytes + size > self._easy_bytes or len(self.asked) >= self._jobs_max
        if is_tight and not self._has_room(size):
            self._hold(message)
            return
        header, payload, stack = message.header, message.payload, message.stack
        assert header is not None
        word = stack[-WORD:]  # the request's id: NNG sends all of it again, to the byte
        if size <= LARGE_BYTES:
            key = hash((word, header.service, header.task, payload))
            body = b""
        else:
            ends = payload[:SAMPLE_BYTES], payload[-SAMPLE_BYTES:]
            key = hash((word, header.service, header.task, size, ends))
            body = payload
        request = self._by_key.get(key)
        if request is not None and request.body == body:
            self._ask_again(request, stack, now)
            return
        if self._service.stopping:
            return  # the server that comes after this one is asked again
        session = self._session or self._open_session()
        try:
            job = self._broker.submit(self._service.intake.new_job(header, payload), now, session)
        except Refused:
            self._leave_unanswered(stack)
            return
        request = self._by_key[key] = Request(key, job, body, b"", now)
        self._note(job, request, stack)

    def _ask_again(self, request: Request, stack: bytes, now: Millis) -> None:
        """The same request again: it joins its job, or is given the reply once more."""
        job = request.job
        if job is None:
            self._outbox.send(stack, RESULT_HEAD, request.reply, again=True)
        elif job.id in self.asked:
            self.asked[job.id] = (request, stack)
        else:
            self._broker.watch(job.id, self._session or self._open_session())
            self._requests.release(job, now)
            self._note(job, request, stack)

    def _open_session(self) -> Session:
        conversation = self._conversation
        self._session = self._broker.open_session(conversation.link.id, OnHangUp.KEEP, conversation)
        return self._session

    def _note(self, job: Job, request: Request, stack: bytes) -> None:
        self.asked[job.id] = (request, stack)
        if self._unanswered:
            self._unanswered.discard(stack)
        size = len(job.body)
        self._bytes += size
        if size > LARGE_BYTES:
            self._room.take(size)

    # -- answers ----------------------------------------------------------------------------------

    def on_finished(self, event: Finished, now: Millis) -> None:
        """A job that was asked for has ended: its client hears of it, or is dropped."""
        job = event.job
        asked = self.asked.pop(job.id, None)
        if asked is None:
            return
        request, stack = asked
        if event.state is DONE:
            result = event.result
            if request.job is not None:
                self._outbox.send(stack, RESULT_HEAD, result)
                self._requests.answered(request, result, now)
            else:  # another client that asked the same has been sent it already
                self._outbox.send(stack, RESULT_HEAD, result, again=True)
        else:
            self._requests.forget(request)
            if not event.failure.final:  # else it would only be asked again at once
                self._leave_unanswered(stack)
        if self._unanswered:
            self.hang_up_if_alone()
        size = len(job.body)
        self._bytes -= size
        if size > LARGE_BYTES:
            self._room.take(-size)
            self._room.wake()
        if self.held is not None:
            self.retry_held()

    def _leave_unanswered(self, stack: bytes) -> None:
        """A request cannot be answered: hang up, so that NNG asks again at once.

        Not while others wait on the connection too, or work there: then it stays unanswered,
        until those who wait are done or NNG's patience ends.
        """
        if len(self._unanswered) < self._jobs_max:
            self._unanswered.add(stack)
        self.hang_up_if_alone()

    def hang_up_if_alone(self) -> None:
        """Hang up if requests are left unanswered and nobody else uses the connection.

        Not while replies wait for the peer to read: they would be lost with it.
        """
        if not (self._unanswered and not self.asked and not self._outbox.waiting_bytes):
            return
        if not self._conversation.connection_workers.here:
            self._conversation.link.close()

    def drop_unserved(self, now: Millis) -> None:
        """Hang up on a client that has waited long for a service that nobody offers.

        Not where others share the connection, unless their jobs are in the way of more.
        """
        asked = self.asked
        if not asked or self._outbox.waiting_bytes or self._conversation.connection_workers.here:
            return
        in_the_way = self.held is not None or (self._room.waiting and self._bytes > LARGE_BYTES)
        if len(asked) > 1 and not in_the_way:
            return
        request, _ = next(iter(asked.values()))
        job = request.job
        if job is None or now - request.asked_at < self._service.settings.start_ms:
            return
        if job.state is READY and not self._broker.serves(job.queue):
            self._conversation.link.close()

    def hang_up(self, now: Millis) -> None:
        """The clients are gone. What runs for them is watched in their place for a while."""
        self._free_admitted()
        self.held = None
        self._room.waiting.pop(self, None)
        requests = [request for request, _ in self.asked.values()]
        self.asked.clear()
        for request in requests:
            if request.job is not None:
                self._room.take(-len(request.job.body))
            self._requests.adopt(request)
        if self._session is not None:
            self._broker.close_session(self._session, now)
        for request in requests:
            if request.job is not None and request.job.state >= DONE:
                self._requests.forget(request)
        self._room.wake()

    # -- the share --------------------------------------------------------------------------------

    def _has_room(self, size: int) -> bool:
        if len(self.asked) >= self._jobs_max:
            return False
        if self._bytes and self._bytes + size > self._service.settings.share_bytes:
            return False
        return size <= LARGE_BYTES or self._room.is_free(size)

    def on_part(self, parts: Parts) -> None:
        """More of a large JOB has come: make room for it, or read no more of it.

        What is only promised takes none: room for all of it is made when an eighth is there.
        """
        if parts is self._admitted or parts is self._slow:
            return
        if not self._has_room(parts.size):
            self._hold(parts)
        elif parts.have >= parts.size // 8:
            self._admitted = parts
            self._came = 0
            self._bytes += parts.size
            self._room.take(parts.size)
            self._room.coming[self] = None

    def on_whole(self) -> None:
        """A large message is whole: what room was made for it is that of a job, if it is one."""
        self._slow = None
        self._free_admitted()

    def _free_admitted(self) -> None:
        parts, self._admitted = self._admitted, None
        if parts is not None:
            self._bytes -= parts.size
            self._room.take(-parts.size)
            self._room.coming.pop(self, None)

    def check_progress(self) -> None:
        """Once a second: if others wait and it comes slowly, its room is theirs until it is there.

        Not while nothing is read from the peer.
        """
        parts = self._admitted
        if parts is None or self._conversation.link.paused:
            return
        came, self._came = self._came, parts.have
        if self._room.waiting and came and parts.have - came < parts.size // IN_TIME_S:
            self._slow = parts
            self._free_admitted()

    def _hold(self, message: Message | Parts) -> None:
        """Read nothing more until there is room, unless workers are read on this connection."""
        if not self._conversation.connection_workers.here:
            self.held = message
            self._conversation.holding = True
            if not self._room.is_free(message.size):
                self._room.waiting[self] = None

    def retry_held(self) -> None:
        """Something has become free: go on, if it is enough for the JOB that waits."""
        held = self.held
        if held is None:
            return
        if self._has_room(held.size):
            self.held = None
            if isinstance(held, Parts):
                self.on_part(held)
            self._conversation.reader.put_back(held)
            self._conversation.resume()
        elif not self._room.is_free(held.size):
            self._room.waiting[self] = None
