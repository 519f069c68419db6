"""One MemoDB connection: requests of many clients and workers in, replies in any order out.

A client's JOB becomes a job that this connection watches; a worker's READY, RESULT or HEARTBEAT
becomes a demand, answered with a JOB or, when nothing comes, with a HEARTBEAT. What a message
that came twice means is decided in `requests.py` for clients and here, by how it begins, for
workers. What is no message of the protocol is left unanswered, as the original does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from franca.core.errors import NotHeld, WireError
from franca.core.events import Event, Finished, Granted, LeaseLost, Unmet
from franca.core.model import Demand, Job, Millis, NewJob, OnHangUp, Session, State
from franca.protocols.bodies import BYTES, as_bytes
from franca.protocols.conversation import Conversation, Link
from franca.protocols.memodb.cbor import Malformed
from franca.protocols.memodb.messages import (
    HEARTBEAT,
    JOB,
    READY,
    RESULT,
    Header,
    begin,
    encode_disconnect,
    encode_result,
    read_header,
    task,
)
from franca.protocols.memodb.requests import Request
from franca.protocols.memodb.sp import (
    HELLO_OF_CLIENT,
    HELLO_OF_SERVER,
    LENGTH,
    NOBODY,
    WORD,
    Inbox,
    Parts,
    head_over_ipc,
    head_over_tcp,
    stack_end,
)
from franca.protocols.memodb.workers import (
    BEATING,
    ID_BYTES,
    LOST,
    PARKED,
    WORKING,
    Worker,
)

if TYPE_CHECKING:
    from franca.protocols.memodb.service import Kind, MemoDBService

ORIGIN: Final = "memodb"
HEADER_ROOM: Final = 64 * 1024
"""How much longer than the longest body a message may be."""
SAID_BYTES: Final = 64
"""How much of a worker's request is compared with its last one. Its id alone would do for NNG."""
HEAD_BYTES: Final = 4 * 1024
"""How much of a large message is looked at for its header before it is joined."""
LARGE_BYTES: Final = 64 * 1024
FOREVER_MS: Final = 2**32 - 1
"""The timeout that a worker is told of a job that has none."""

_RESULT_HEAD: Final = encode_result(b"")
_USUAL: Final = 10
"""Bytes of a header up to where its id begins, written as nearly everybody does."""
_UINT_BYTES: Final = bytes([*[1] * 24, 2, 3, 5, 9, *[0] * 228])
"""How many bytes a whole number takes, by its first."""
_TEXT: Final = 0x60
_USUAL_JOB: Final = begin(JOB, 5) + b"\x40"


class MemoDBConversation(Conversation):
    """The dialogue with one peer, from the handshake on."""

    def __init__(self, service: MemoDBService, link: Link) -> None:
        limits = service.limits
        unix = link.peer.unix
        self.link = link
        self.service = service
        self.broker = service.broker
        self._workers = service.workers_by_id
        self._requests = service.requests
        self._by_key = service.requests.by_key
        self._kinds = service.kinds
        self._share = limits.turn_messages
        self._size_max = min(limits.frame_bytes_max, limits.body_bytes_max + HEADER_ROOM)
        self._head = head_over_ipc if unix else head_over_tcp
        self._head_bytes = len(self._head(0))
        self._lead = unix
        self._inbox = Inbox(self._size_max, unix=unix)
        self._behind = True
        self._greeted = False
        self._parts: Parts | None = None
        self._session: Session | None = None
        self._asked: dict[int, tuple[Request, bytes]] = {}
        self._here: dict[Session, Worker] = {}
        self._readies: dict[bytes, Worker] = {}
        self._last_grant: Worker | None = None
        link.write(HELLO_OF_SERVER)

    # -- the contract -------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole messages among `data`, at most a turn's share of them."""
        if self._behind or self.holding:
            return self._catch_up(data, now)
        size = len(data)
        head = self._head_bytes
        at = 0
        left = self._share
        while True:
            start = at + head
            if start > size or (self._lead and data[at] != 1):
                break
            end = start + LENGTH.unpack_from(data, start - LENGTH.size)[0]
            if end > size or end - start > self._size_max:
                break
            self._act(data, start, end, now)
            at = end
            if at == size:
                return False
            left -= 1
            if not left or self.holding or self.link.closing:
                break
        self._behind = True
        return self._catch_up(data[at:], now)

    def _catch_up(self, data: bytes, now: Millis) -> bool:
        """The same for what lies in the inbox: parts of messages, or messages that had to wait."""
        inbox = self._inbox
        inbox.feed(data)
        if not self._greeted and not self._greet():
            return False
        try:
            for _ in range(self._share):
                if self.holding or self.link.closing:
                    return False
                message = inbox.next()
                if message is None:
                    self._behind = len(inbox) > 0
                    return False
                if isinstance(message, bytes):
                    self._act(message, 0, len(message), now)
                else:
                    self._act_on_parts(message, now)
        except WireError:
            self.link.close()
            return False
        self._behind = len(inbox) > 0
        return self._behind

    def _greet(self) -> bool:
        """Whether the peer has said that it sends requests; who says another thing is cut off."""
        said = self._inbox.take_hello()
        if said is None:
            return False
        self._greeted = said == HELLO_OF_CLIENT
        if self._greeted:
            self.link.known = True
        else:
            self.link.close()
        return self._greeted

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A job for a worker, an end for a client, or nothing for too long."""
        if isinstance(event, Granted):
            worker = self._here.get(session)
            if worker is None or worker.demand is not event.demand or self.link.closing:
                self.broker.give_back(event.job, session.holder, now)
            else:
                self._say_job(worker, event.job)
        elif isinstance(event, Finished):
            self._on_finished(event, now)
        elif isinstance(event, Unmet):
            worker = self._here.get(session)
            if worker is not None and worker.demand is event.demand:
                self._say_heartbeat(worker, now)
        elif isinstance(event, LeaseLost):
            worker = self._here.get(session)
            if worker is not None and worker.job is event.job:
                self._on_lease_lost(worker, now)

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone: its workers' jobs go to others, its clients wait for nothing more."""
        last = self._last_grant
        if unheard and last is not None and last.job is not None and last.doing is WORKING:
            try:
                self.broker.give_back(last.job, last.session.holder, now)
            except NotHeld:
                pass  # it was settled, or taken from it, meanwhile
        for worker in list(self._here.values()):
            self._workers.lose(worker, self.service.settings.heartbeat_due_ms, now)
        self._here.clear()
        if self._session is not None:
            requests = [request for request, _ in self._asked.values()]
            self._asked.clear()
            for request in requests:
                self._requests.adopt(request, now)
            self.broker.close_session(self._session, now)
            for request in requests:
                if request.job is not None and request.job.state >= State.DONE:
                    self._requests.forget(request)
        self.service.conversations.pop(self, None)

    def unread(self) -> int:
        """How many bytes wait in the inbox."""
        return len(self._inbox) if self._behind else 0

    def stop(self, now: Millis) -> None:
        """The server stops: workers that wait do so in vain, until their connection ends.

        An answer would only make them ask again; NNG asks the next server for them.
        """
        for worker in self._here.values():
            self._withdraw(worker)

    # -- one message --------------------------------------------------------------------------

    def _act(self, data: bytes, start: int, end: int, now: Millis) -> None:
        """Act on the message that stands there. `data` may hold more than it, before and behind."""
        at = stack_end(data, start, end)
        if at < 0:
            if at == NOBODY:
                self.link.close()  # as NNG does with a peer that speaks garbage
            return
        act = _USUAL_MESSAGES.get(data[at : at + _USUAL])
        if act is None:
            self._act_on_unusual(data, start, at, end, now)
        else:
            act(self, data, start, at, end, now)

    def _act_on_parts(self, parts: Parts, now: Millis) -> None:
        """Act on a message that came in pieces; a large payload is joined once and never cut."""
        if parts.size <= LARGE_BYTES:
            self._act(parts.rest(0), 0, parts.size, now)
            return
        head = parts.head(HEAD_BYTES)
        self._parts = parts
        self._act(head, 0, len(head), now)
        self._parts = None

    def _act_on_unusual(self, data: bytes, start: int, at: int, end: int, now: Millis) -> None:
        """Act on a message that is written in another way than most; or on rubbish, not at all."""
        try:
            header = read_header(data, at, end, self.service.limits.name_bytes_max)
        except Malformed:
            if self._parts is not None:
                whole, self._parts = self._parts.rest(0), None
                self._act_on_unusual(whole, start, at, len(whole), now)
            return
        stack = data[start:at]
        if header.op == READY:
            if not header.id and header.end == end and self._parts is None:
                self._on_ready(header, stack, data[at - WORD : end], now)
        elif header.op == JOB:
            self._on_job(header, data, start, at, end, now)
        elif header.id:
            worker = self._workers.by_id.get(header.id)
            if worker is None:
                self._say(stack, encode_disconnect(header.id), b"")
            else:
                self._on_word(worker, header, data, start, at, end, now)

    def _payload(self, data: bytes, at: int, end: int) -> bytes:
        return data[at:end] if self._parts is None else self._parts.rest(at)

    # -- clients --------------------------------------------------------------------------------

    def _on_usual_job(self, data: bytes, start: int, at: int, end: int, now: Millis) -> None:
        """JOB: as clients write it, and of a kind that was seen before."""
        named = at + _USUAL
        number = named + 1 + data[named] - _TEXT if named < end else end
        if named < number < end:
            stop = number + _UINT_BYTES[data[number]]
            if stop <= end:
                kind = self._kinds.get(data[named:stop])
                if kind is not None:
                    self._ask(kind, data, start, at, stop, end, now)
                    return
        self._act_on_unusual(data, start, at, end, now)

    def _on_job(
        self, header: Header, data: bytes, start: int, at: int, end: int, now: Millis
    ) -> None:
        # Only what follows the usual beginning can be found by its bytes next time.
        usual = data[at : at + _USUAL] == _USUAL_JOB
        said = data[at + _USUAL : header.end] if usual else b""
        kind = self.service.learn_kind(said, header.service, header.timeout_ms)
        self._ask(kind, data, start, at, header.end, end, now)

    def _ask(
        self, kind: Kind, data: bytes, start: int, at: int, stop: int, end: int, now: Millis
    ) -> None:
        """Submit a client's job, unless it is one that was submitted already."""
        payload = self._payload(data, stop, end)
        key = hash((data[at - WORD : at], kind.task, payload))
        stack = data[start:at]
        request = self._by_key.get(key)
        if request is not None:
            self._ask_again(request, stack, now)
            return
        if len(payload) > self.service.limits.body_bytes_max:
            self.link.close()
            return
        if self.service.stopping:
            return  # the server that comes after this one is asked again
        session = self._session
        if session is None:
            session = self._session = self.broker.open_session(self.link.id, OnHangUp.KEEP, self)
        new = NewJob(
            kind.service,
            kind.service,
            payload,
            kind.policy,
            self.service.next_name(),
            BYTES,
            ORIGIN,
            extra=kind.task,
        )
        job = self.broker.submit(new, now, session)
        request = self._by_key[key] = Request(key, job, b"", now)
        self._asked[job.id] = (request, stack)

    def _ask_again(self, request: Request, stack: bytes, now: Millis) -> None:
        """The same request again: it joins its job, or is given the reply once more."""
        job = request.job
        if job is None:
            self._say(stack, _RESULT_HEAD, request.reply)
            return
        if job.id not in self._asked:
            session = self._session
            if session is None:
                session = self.broker.open_session(self.link.id, OnHangUp.KEEP, self)
                self._session = session
            self.broker.watch(job.id, session)
            self._requests.release(job, now)
        self._asked[job.id] = (request, stack)

    def _on_finished(self, event: Finished, now: Millis) -> None:
        asked = self._asked.pop(event.job.id, None)
        if asked is None:
            return
        request, stack = asked
        if event.state is State.DONE:
            self._say(stack, _RESULT_HEAD, event.result)
            self._requests.answered(request, event.result, now)
        else:
            self._requests.forget(request)
            self._drop_if_alone()

    def _drop_if_alone(self) -> None:
        """Hang up, so that the client asks again at once; not where others share the connection.

        Then its request stays unanswered, until NNG's patience ends.
        """
        if not self._asked and not self._here:
            self.link.close()

    def drop_unserved(self, now: Millis) -> None:
        """Hang up on a client that has waited long for a service that nobody offers."""
        if len(self._asked) != 1 or self._here:
            return
        request, _ = next(iter(self._asked.values()))
        job = request.job
        if (
            job is not None
            and job.state is State.READY
            and now - request.asked_at >= self.service.settings.start_ms
            and not self.broker.serves(job.queue)
        ):
            self.link.close()

    # -- workers --------------------------------------------------------------------------------

    def _on_ready(self, header: Header, stack: bytes, said: bytes, now: Millis) -> None:
        """READY: a new worker, unless NNG only sent it again."""
        worker = self._readies.get(said)
        if worker is not None:
            self._answer_again(worker, stack, now)
            return
        worker = self._workers.welcome(header.services, self, stack, said, now)
        self._here[worker.session] = self._readies[said] = worker
        self._want(worker, now)

    def _on_usual_result(self, data: bytes, start: int, at: int, end: int, now: Millis) -> None:
        """RESULT: as workers write it, from one who was given a job on this connection."""
        stop = at + _USUAL + ID_BYTES
        worker = self._workers.by_id.get(data[at + _USUAL : stop])
        if worker is None or worker.doing is not WORKING or worker.conversation is not self:
            self._act_on_unusual(data, start, at, end, now)
            return
        size = end if self._parts is None else self._parts.size
        said = data[at - WORD : min(at + SAID_BYTES, end)]
        if said == worker.said and size - at == worker.said_bytes:
            self._answer_again(worker, data[start:at], now)
            return
        if worker.ready:
            self._past_ready(worker)
        worker.said = said
        worker.said_bytes = size - at
        worker.stack = data[start:at]
        self._finish(worker, self._payload(data, stop, end), now)
        self._want(worker, now)

    def _on_word(
        self,
        worker: Worker,
        header: Header,
        data: bytes,
        start: int,
        at: int,
        end: int,
        now: Millis,
    ) -> None:
        """RESULT, HEARTBEAT or DISCONNECT of a worker that is known."""
        stack = data[start:at]
        size = end if self._parts is None else self._parts.size
        said = data[at - WORD : min(at + SAID_BYTES, end)]
        doing = worker.doing
        if worker.conversation is not self or doing is LOST:
            self._workers.find_again(worker, self)
            self._here[worker.session] = worker
        if said == worker.said and size - at == worker.said_bytes:
            self._answer_again(worker, stack, now)
            return
        if worker.ready:
            self._past_ready(worker)
        worker.said = said
        worker.said_bytes = size - at
        worker.stack = stack
        if header.op == RESULT and doing in (WORKING, LOST):
            self._finish(worker, self._payload(data, header.end, end), now)
            if not header.leaving:
                self._want(worker, now)
                return
        elif header.op == HEARTBEAT and doing is not WORKING:
            if doing is not PARKED:
                self._want(worker, now)
            return
        self._dismiss(worker, now)

    def _finish(self, worker: Worker, result: bytes, now: Millis) -> None:
        """The job is done; a word that comes too late changes nothing."""
        job = worker.job
        worker.job = None
        if job is None:
            return
        try:
            if worker.doing is WORKING:
                self.broker.finish(job, worker.session.holder, result, now)
            else:
                self.broker.finish_late(job, worker.session.holder, result, now)
        except NotHeld:
            return
        worker.durable = job.policy.durable

    def _want(self, worker: Worker, now: Millis) -> None:
        """A worker asks for its next job."""
        worker.seen_at = now
        worker.doing = PARKED
        if worker.leaving:
            self._dismiss(worker, now)
            return
        if self.service.stopping:
            return
        until = now + self.service.settings.heartbeat_ms
        demand = worker.demand = Demand(worker.session, worker.wanted, until)
        answer = self.broker.demand(demand, now)
        if isinstance(answer, Granted):
            self._say_job(worker, answer.job)

    def _say_job(self, worker: Worker, job: Job) -> None:
        worker.demand = None
        worker.job = job
        worker.doing = WORKING
        worker.until = job.until
        body = job.body
        if job.origin == ORIGIN:
            head = worker.job_head + job.extra
        else:
            head = worker.job_head + task(job.queue, job.policy.lease_ms or FOREVER_MS)
            body = as_bytes(job.media, body)
        durable = worker.durable or job.policy.durable
        worker.durable = False
        self._say(worker.stack, head, body, durable=durable)
        self._last_grant = worker

    def _say_heartbeat(self, worker: Worker, now: Millis) -> None:
        worker.demand = None
        worker.doing = BEATING
        worker.until = now + self.service.settings.heartbeat_due_ms
        worker.durable = False  # a commit that takes so long would have ended the server
        self._say(worker.stack, worker.heartbeat, b"")

    def _answer_again(self, worker: Worker, stack: bytes, now: Millis) -> None:
        """The same request as last time: who waits goes on waiting, the others hear it again."""
        worker.stack = stack
        worker.seen_at = now
        job = worker.job
        if worker.doing is LOST:
            # Whatever it was given when its connection broke, it has not heard.
            worker.job = None
            self._want(worker, now)
        elif worker.doing is BEATING:
            self._say(stack, worker.heartbeat, b"")
        elif worker.doing is WORKING and job is not None and job.id in worker.session.leases:
            self._say_job(worker, job)

    def _on_lease_lost(self, worker: Worker, now: Millis) -> None:
        """Its time is over, and it is taken for gone; or an operator took only the job."""
        worker.job = None
        if worker.until and worker.until <= now:
            self._workers.dismiss(worker, now)

    def _dismiss(self, worker: Worker, now: Millis) -> None:
        """The worker leaves, or is out of step: it may begin anew."""
        stack = worker.stack
        self._workers.dismiss(worker, now)
        self._say(stack, encode_disconnect(worker.id), b"", durable=worker.durable)

    def _withdraw(self, worker: Worker) -> None:
        if worker.demand is not None:
            self.broker.withdraw(worker.demand)
            worker.demand = None

    def hush(self, worker: Worker, *, leaving: bool) -> None:
        """Give a worker no more jobs; one that is `leaving` is told so when it asks next."""
        worker.wanted = ()
        worker.leaving = leaving
        demand = worker.demand
        if demand is not None and demand.queues:
            self.broker.withdraw(demand)
            worker.demand = Demand(worker.session, (), demand.until)
            # It ends when the other would have; the present moment decides nothing about it.
            self.broker.demand(worker.demand, 0)

    def let_go(self, worker: Worker) -> None:
        """The worker is no longer one of this connection."""
        self._here.pop(worker.session, None)
        self._past_ready(worker)

    def _past_ready(self, worker: Worker) -> None:
        """The worker has said something after its READY, which will not come again."""
        self._readies.pop(worker.ready, None)
        worker.ready = b""

    # -- speaking -------------------------------------------------------------------------------

    def _say(self, stack: bytes, head: bytes, body: bytes, *, durable: bool = False) -> None:
        """Answer the request with that stack; after the commit, if it is about a durable job."""
        self._last_grant = None
        size = len(stack) + len(head) + len(body)
        message = b"".join((self._head(size), stack, head, body))
        if durable:
            self.link.write_after_commit(message)
        else:
            self.link.write(message)


Act = Callable[[MemoDBConversation, bytes, int, int, int, Millis], None]

_USUAL_MESSAGES: Final[Mapping[bytes, Act]] = {
    _USUAL_JOB: MemoDBConversation._on_usual_job,
    begin(RESULT, 3) + bytes((0x40 | ID_BYTES,)): MemoDBConversation._on_usual_result,
}
"""Messages as nearly everybody writes them, found by how they begin."""
