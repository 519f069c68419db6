"""The clients of one connection: what they asked for, and how much of it at once.

The document leaves open how many jobs a client may submit. Here each connection has a share, in
jobs and in bytes, and large jobs of all connections have a share of the memory. What is beyond
stays in the socket: nothing more is read from a connection before one of its jobs is done. One
that also carries workers must be read, or their results would never come; what it submits beyond
its share is left unanswered, and NNG sends it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.errors import Refused
from franca.core.events import Finished
from franca.core.model import Job, JobId, Millis, OnHangUp, Session, State
from franca.protocols.memodb.messages import JOB, Header, begin, encode_result
from franca.protocols.memodb.outbox import LARGE_BYTES, Outbox
from franca.protocols.memodb.requests import Request
from franca.protocols.memodb.sp import WORD, Parts

if TYPE_CHECKING:
    from franca.protocols.memodb.conversation import MemoDBConversation
    from franca.protocols.memodb.kinds import Kind
    from franca.protocols.memodb.service import MemoDBService

READY: Final = State.READY
DONE: Final = State.DONE
USUAL_JOB: Final = begin(JOB, 5) + b"\x40"
_RESULT_HEAD: Final = encode_result(b"")
SAMPLE_BYTES: Final = 1_024
"""How much of either end of a large job stands for the whole in its request's key."""
IN_TIME_S: Final = 30
"""How long a large job may take to come while others wait for room."""
_USUAL: Final = len(USUAL_JOB)
_TEXT: Final = 0x60
_UINT_BYTES: Final = bytes([*[1] * 24, 2, 3, 5, 9, *[0] * 228])
"""How many bytes a whole number takes, by its first."""


def job_header_end(data: bytes, at: int, end: int) -> int:
    """Where the header of a usual JOB ends that begins at `at`; 0 if its name is a long one.

    A guess, if what stands there is no header: whoever knows it by its bytes has read it before.
    """
    named = at + _USUAL
    number = named + 1 + data[named] - _TEXT if named < end else end
    if named < number < end:
        stop = number + _UINT_BYTES[data[number]]
        if stop <= end:
            return stop
    return 0


class Held(Struct):
    """A JOB that must wait, of which all has come if it is `whole`."""

    message: bytes | Parts
    size: int
    whole: bool


class Clients:
    """All clients that share one connection, each known by the stack of its request."""

    def __init__(
        self, service: MemoDBService, conversation: MemoDBConversation, outbox: Outbox
    ) -> None:
        self.asked: dict[JobId, tuple[Request, bytes]] = {}
        self.held: Held | None = None
        self._conversation = conversation
        self._outbox = outbox
        self._broker = service.broker
        self._service = service
        self._settings = service.settings
        self._requests = service.requests
        self._by_key = service.requests.by_key
        self._kinds = service.kinds
        self._by_bytes = service.kinds.by_bytes
        self._room = service.room
        self._jobs_max = service.settings.share_jobs
        self._easy_bytes = min(LARGE_BYTES, service.settings.share_bytes)
        self._body_max = service.limits.body_bytes_max
        self._session: Session | None = None
        self._bytes = 0
        self._owed: set[bytes] = set()
        self._admitted: Parts | None = None
        self._slow: Parts | None = None
        self._came = 0
        self._said = b""
        self._kind: Kind | None = None

    # -- asking -----------------------------------------------------------------------------------

    def on_usual_job(
        self, data: bytes, start: int, at: int, end: int, parts: Parts | None, now: Millis
    ) -> None:
        """JOB, as clients write it, and of a kind that was met before."""
        named = at + _USUAL
        stop = named + len(self._said)
        kind = self._kind
        # Most jobs of a connection are of the same kind: its bytes are compared before others.
        if kind is None or stop > end or data[named:stop] != self._said:
            stop = job_header_end(data, at, end)
            said = data[named:stop]
            kind = self._by_bytes.get(said)
            if kind is None:
                self._conversation.act_on_unusual(data, start, at, end, parts, now)
                return
            self._said = said
            self._kind = kind
        self._ask(kind, data, start, at, stop, end, parts, now)

    def on_job(
        self,
        header: Header,
        data: bytes,
        start: int,
        at: int,
        end: int,
        parts: Parts | None,
        now: Millis,
    ) -> None:
        """JOB, in any other way."""
        # Only what follows the usual beginning can be found by its bytes next time.
        named = at + _USUAL
        said = data[named : header.end] if data[at:named] == USUAL_JOB else b""
        kind = self._kinds.learn(header.service, header.timeout_ms, said)
        self._ask(kind, data, start, at, header.end, end, parts, now)

    def _ask(
        self,
        kind: Kind,
        data: bytes,
        start: int,
        at: int,
        stop: int,
        end: int,
        parts: Parts | None,
        now: Millis,
    ) -> None:
        """Submit a client's job, if there is room for it and it was not submitted before."""
        size = (end if parts is None else parts.size) - stop
        if size > self._body_max:
            self._conversation.link.close(f"a job of {size} bytes, at most {self._body_max}")
            return
        # With little under way there is room, without a further look.
        is_tight = self._bytes + size > self._easy_bytes or len(self.asked) >= self._jobs_max
        if is_tight and not self._has_room(size):
            self._hold(data[start:end] if parts is None else parts, size)
            return
        payload = data[stop:end] if parts is None else parts.rest(stop)
        stack = data[start:at]
        word = stack[-WORD:]  # the request's id: NNG says all of it again, to the byte
        if size <= LARGE_BYTES:
            key = hash((word, kind.service, kind.task, payload))
            body = b""
        else:
            ends = payload[:SAMPLE_BYTES], payload[-SAMPLE_BYTES:]
            key = hash((word, kind.service, kind.task, size, ends))
            body = payload
        request = self._by_key.get(key)
        if request is not None and request.body == body:
            self._ask_again(request, stack, now)
            return
        if self._service.stopping:
            return  # the server that comes after this one is asked again
        session = self._session or self._open_session()
        try:
            job = self._broker.submit(self._kinds.make(kind, payload), now, session)
        except Refused:
            self._owe(stack)
            return
        request = self._by_key[key] = Request(key, job, body, b"", now)
        self._note(job, request, stack)

    def _ask_again(self, request: Request, stack: bytes, now: Millis) -> None:
        """The same request again: it joins its job, or is given the reply once more."""
        job = request.job
        if job is None:
            self._outbox.say(stack, _RESULT_HEAD, request.reply, again=True)
        elif job.id in self.asked:
            self.asked[job.id] = (request, stack)
        else:
            self._broker.watch(job.id, self._session or self._open_session())
            self._requests.release(job, now)
            self._note(job, request, stack)

    def _open_session(self) -> Session:
        conversation = self._conversation
        holder = conversation.link.id
        self._session = self._broker.open_session(holder, OnHangUp.KEEP, conversation)
        return self._session

    def _note(self, job: Job, request: Request, stack: bytes) -> None:
        self.asked[job.id] = (request, stack)
        if self._owed:
            self._owed.discard(stack)
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
            # Another client that asked the same may have heard it already.
            self._outbox.say(stack, _RESULT_HEAD, result, False, b"", request.job is None)
            self._requests.answered(request, result, now)
        else:
            self._requests.forget(request)
            if not event.failure.final:  # else it would only be asked again at once
                self._owe(stack)
        if self._owed and not self.asked:
            self._hang_up_if_alone()
        size = len(job.body)
        self._bytes -= size
        if size > LARGE_BYTES:
            self._room.free(size)
        if self.held is not None:
            self.look_again()

    def _owe(self, stack: bytes) -> None:
        """A request cannot be answered: hang up, so that NNG asks again at once.

        Not while others wait on the connection too, or work there: then it stays unanswered,
        until those who wait are done or NNG's patience ends.
        """
        if len(self._owed) < self._jobs_max:
            self._owed.add(stack)
        self._hang_up_if_alone()

    def _hang_up_if_alone(self) -> None:
        if not self.asked and not self._conversation.crew.here:
            self._conversation.link.close()

    def drop_unserved(self, now: Millis) -> None:
        """Hang up on a client that has waited long for a service that nobody offers.

        Not where others share the connection, unless their jobs are in the way of more.
        """
        asked = self.asked
        if not asked or self._conversation.crew.here:
            return
        in_the_way = self.held is not None or (self._room.waiting and self._bytes > LARGE_BYTES)
        if len(asked) > 1 and not in_the_way:
            return
        request, _ = next(iter(asked.values()))
        job = request.job
        if (
            job is not None
            and job.state is READY
            and now - request.asked_at >= self._settings.start_ms
            and not self._broker.serves(job.queue)
        ):
            self._conversation.link.close()

    def hang_up(self, now: Millis) -> None:
        """The clients are gone. What runs for them is watched in their place for a while."""
        if self._admitted is not None:
            self._give_up(self._admitted)
        self.held = None
        self._room.waiting.pop(self, None)
        requests = [request for request, _ in self.asked.values()]
        freed = [len(request.job.body) for request in requests if request.job is not None]
        self.asked.clear()
        for request in requests:
            self._requests.adopt(request)
        if self._session is not None:
            self._broker.close_session(self._session, now)
        for request in requests:
            if request.job is not None and request.job.state >= DONE:
                self._requests.forget(request)
        self._room.bytes -= sum(size for size in freed if size > LARGE_BYTES)
        self._room.wake()

    # -- the share --------------------------------------------------------------------------------

    def _has_room(self, size: int) -> bool:
        if len(self.asked) >= self._jobs_max:
            return False
        if self._bytes and self._bytes + size > self._settings.share_bytes:
            return False
        return size <= LARGE_BYTES or self._room.is_free(size)

    def on_its_way(self, parts: Parts) -> None:
        """More of a large JOB has come: make room for it, or read no more of it.

        What is only promised takes none: room for all of it is made when an eighth is there.
        """
        if parts is self._admitted or parts is self._slow:
            return
        if not self._has_room(parts.size):
            self._hold(parts, parts.size)
        elif parts.have >= parts.size // 8:
            self._admitted = parts
            self._came = 0
            self._bytes += parts.size
            self._room.take(parts.size)
            self._room.coming[self] = None

    def has_come(self, parts: Parts) -> None:
        """A large message is whole: what room was made for it is that of a job, if it is one."""
        self._slow = None
        if parts is self._admitted:
            self._give_up(parts)

    def acted_on(self) -> None:
        """Room that was made is taken, or came to nothing."""
        if self._room.waiting:
            self._room.wake()

    def _give_up(self, parts: Parts) -> None:
        self._admitted = None
        self._bytes -= parts.size
        self._room.coming.pop(self, None)
        if parts.size > LARGE_BYTES:
            self._room.bytes -= parts.size

    def see_how_it_comes(self) -> None:
        """Once a second: if others wait and it comes slowly, its room is theirs until it is there.

        Not while nothing is read from the peer.
        """
        parts = self._admitted
        if parts is None or self._conversation.link.paused:
            return
        came, self._came = self._came, parts.have
        if self._room.waiting and came and parts.have - came < parts.size // IN_TIME_S:
            self._slow = parts
            self._give_up(parts)

    def _hold(self, message: bytes | Parts, size: int) -> None:
        if not self._conversation.crew.here:
            whole = isinstance(message, bytes) or message.is_whole
            self.held = Held(message, size, whole)
            self._conversation.holding = True
            if not self._room.is_free(size):
                self._room.waiting[self] = None

    def look_again(self) -> None:
        """Something has become free: go on, if it is enough for the JOB that waits."""
        held = self.held
        if held is None:
            return
        if self._has_room(held.size):
            self.held = None
            if not held.whole:
                assert isinstance(held.message, Parts)
                self.on_its_way(held.message)
            self._conversation.go_on(held.message)
        elif not self._room.is_free(held.size):
            self._room.waiting[self] = None
