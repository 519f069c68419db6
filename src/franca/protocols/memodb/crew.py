"""The workers of one connection: what each says, and what it is answered.

Each request of a worker is a demand, answered with a JOB or, when nothing comes, a HEARTBEAT.
NNG sends a request again when it waits too long or its connection broke; such a one must be
answered again and never be taken for the next, or one job's result would end another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import NotHeld
from franca.core.events import Granted
from franca.core.model import NEVER, Demand, Failure, Job, Millis, Session
from franca.protocols.bodies import as_bytes
from franca.protocols.memodb.cbor import TEXT, of_name
from franca.protocols.memodb.kinds import ORIGIN
from franca.protocols.memodb.messages import (
    HEARTBEAT,
    RESULT,
    Header,
    begin,
    encode_disconnect,
    task,
)
from franca.protocols.memodb.outbox import LARGE_BYTES, SHARED_BYTES, Outbox
from franca.protocols.memodb.sp import WORD, Parts
from franca.protocols.memodb.workers import (
    BEATING,
    ID_BYTES,
    LOST,
    PARKED,
    WORKING,
    Worker,
)

if TYPE_CHECKING:
    from franca.protocols.memodb.conversation import MemoDBConversation
    from franca.protocols.memodb.service import MemoDBService

USUAL_RESULT: Final = begin(RESULT, 3) + bytes((0x40 | ID_BYTES,))
RESULT_HEADER_BYTES: Final = len(USUAL_RESULT) + ID_BYTES
SAID_BYTES: Final = 64
"""How much of a worker's request is compared with its last one. Its id alone would do for NNG."""
MANY_SERVICES: Final = 64
"""To ask for more services than these takes long."""
FOREVER_MS: Final = 2**32 - 1
"""The timeout that a worker is told of a job that has none."""


class Crew:
    """All workers that share one connection, by their sessions. `bytes` is what they take."""

    def __init__(
        self, service: MemoDBService, conversation: MemoDBConversation, outbox: Outbox
    ) -> None:
        self.here: dict[Session, Worker] = {}
        self.bytes = 0
        self.conversation = conversation
        self.link = conversation.link
        self._outbox = outbox
        self._service = service
        self._broker = service.broker
        self._settings = service.settings
        self._body_max = service.limits.body_bytes_max
        self._workers = service.registry
        self._by_id = service.registry.by_id
        self._readies: dict[bytes, Worker] = {}
        self._patient: dict[Worker, None] = {}
        self._heartbeat_ms = service.settings.heartbeat_ms
        self._last_given: Worker | None = None
        self._last_job = 0

    # -- what workers say -------------------------------------------------------------------------

    def on_ready(self, header: Header, stack: bytes, said: bytes, now: Millis) -> None:
        """READY: a new worker, unless NNG only sent it again."""
        worker = self._readies.get(said)
        if worker is not None:
            self._answer_again(worker, stack, now)
            return
        worker = self._workers.welcome(header.services, self, stack, said, now)
        if worker is None:
            self.conversation.tired = True  # to find out took as long as to take it in
            return  # not answered: it may ask again when others have left
        self._readies[said] = worker
        self.here[worker.session] = worker
        self._want(worker, now)

    def on_usual_result(
        self, data: bytes, start: int, at: int, end: int, parts: Parts | None, now: Millis
    ) -> None:
        """RESULT, as workers write it, from one that was given a job on this connection."""
        stop = at + RESULT_HEADER_BYTES
        worker = self._by_id.get(data[stop - ID_BYTES : stop])
        if worker is None or worker.doing is not WORKING or worker.crew is not self or stop > end:
            self.conversation.act_on_unusual(data, start, at, end, parts, now)
            return
        if self._says_again(worker, data, start, at, end, parts):
            self._answer_again(worker, data[start:at], now)
            return
        self._take_result(worker, data, stop, end, parts, now)
        self._want(worker, now)

    def on_word(
        self,
        header: Header,
        data: bytes,
        start: int,
        at: int,
        end: int,
        parts: Parts | None,
        now: Millis,
    ) -> None:
        """RESULT, HEARTBEAT or DISCONNECT, in any way, of any worker on any connection."""
        stack = data[start:at]
        worker = self._by_id.get(header.id)
        if worker is None:
            self._outbox.say(stack, encode_disconnect(header.id), b"")
            return
        doing = worker.doing
        if worker.crew is not self or doing is LOST:
            if not self._workers.find_again(worker, self, now):
                self.conversation.tired = True
                return  # not answered either
            self.here[worker.session] = worker
        if self._says_again(worker, data, start, at, end, parts):
            self._answer_again(worker, stack, now)
        elif header.op == RESULT and doing in (WORKING, LOST):
            self._take_result(worker, data, header.end, end, parts, now)
            worker.leaving = worker.leaving or header.leaving
            self._want(worker, now)
        elif header.op == HEARTBEAT and doing is not WORKING:
            if doing is PARKED:
                self._want_if_put_off(worker, now)
            else:
                self._want(worker, now)
        else:
            self._dismiss(worker, now)

    def _says_again(
        self, worker: Worker, data: bytes, start: int, at: int, end: int, parts: Parts | None
    ) -> bool:
        """Whether this is the request that the worker sent last; if not, it is from now on."""
        size = (end if parts is None else parts.size) - at
        stop = at + SAID_BYTES
        said = data[at - WORD : stop if stop < end else end]
        if said == worker.said and size == worker.said_bytes:
            return True
        if worker.ready:
            self._past_ready(worker)
        worker.said = said
        worker.said_bytes = size
        worker.stack = data[start:at]
        return False

    def _take_result(
        self, worker: Worker, data: bytes, stop: int, end: int, parts: Parts | None, now: Millis
    ) -> None:
        """A worker's job is done; or what came of it is more than anybody may be given.

        A word that comes too late changes nothing.
        """
        size = (end if parts is None else parts.size) - stop
        if size > self._body_max:
            self._fail(worker, size, now)
            return
        job = worker.job
        worker.job = None
        if worker.doing is LOST:
            job = self._broker.jobs.get(worker.lost_job)
        if job is None:
            return
        result = data[stop:end] if parts is None else parts.rest(stop)
        try:
            if worker.doing is WORKING:
                self._broker.finish(job, worker.session.holder, result, now)
            else:
                self._broker.finish_late(job, worker.session.holder, result, now)
        except NotHeld:
            return
        worker.durable = job.policy.durable

    def _fail(self, worker: Worker, size: int, now: Millis) -> None:
        job = worker.job
        worker.job = None
        text = f"a result of {size} bytes, at most {self._body_max}"
        self.link.note(text)
        if job is not None and job.id in worker.session.leases:
            failure = Failure("ResultTooLarge", text, final=True)
            self._broker.fail(job, worker.session.holder, failure, now)
            worker.durable = job.policy.durable

    # -- what they are answered -------------------------------------------------------------------

    def _want(self, worker: Worker, now: Millis) -> None:
        """A worker asks for its next job."""
        worker.seen_at = now
        worker.doing = PARKED
        if worker.leaving:
            self._dismiss(worker, now)
            return
        if self._service.stopping:
            return
        if self.link.full:
            self._wait_for_peer(worker)
            return
        demand = Demand(worker.session, worker.wanted, now + self._heartbeat_ms)
        worker.demand = demand
        answer = self._broker.demand(demand, now)
        if len(worker.services) > MANY_SERVICES:
            self.conversation.tired = True
        if answer is not None and isinstance(answer, Granted):
            self._give(worker, answer.job, now)

    def _want_if_put_off(self, worker: Worker, now: Millis) -> None:
        """Ask anew for a worker for which nothing was asked, because a connection was full."""
        if worker.demand is None:
            self._want(worker, now)

    def on_granted(self, session: Session, event: Granted, now: Millis) -> None:
        """A job has come for a worker that waits."""
        worker = self.here.get(session)
        if worker is None or worker.demand is not event.demand or self.link.closing:
            self._give_back(event.job, session, now)
        else:
            self._give(worker, event.job, now)

    def _give(self, worker: Worker, job: Job, now: Millis) -> None:
        worker.demand = None
        is_hard = self.link.full or len(job.body) > LARGE_BYTES
        if is_hard and not self._outbox.takes(len(job.body)):
            # Its time would run while it waits to be sent: somebody else may have it.
            self._give_back(job, worker.session, now)
            self._wait_for_peer(worker)
            return
        worker.job = job
        worker.doing = WORKING
        worker.until = job.until
        durable = worker.durable or job.policy.durable
        worker.durable = False
        self._say_job(worker, job, durable, False)

    def _give_back(self, job: Job, session: Session, now: Millis) -> None:
        """A job that its worker will never hear of, unless it was taken away meanwhile."""
        try:
            self._broker.give_back(job, session.holder, now)
        except NotHeld:
            pass

    def _say_job(self, worker: Worker, job: Job, durable: bool, again: bool) -> None:
        body = job.body
        if job.origin == ORIGIN:
            extra = job.extra
            is_named = extra[0] >> 5 == TEXT  # not if its name is long: see `Kind`
            head = worker.job_head + (extra if is_named else of_name(job.queue) + extra)
        else:
            head = worker.job_head + task(job.queue, job.policy.lease_ms or FOREVER_MS)
            body = as_bytes(job.media, body)
            if len(body) > LARGE_BYTES:
                self.conversation.tired = True
        outbox = self._outbox
        outbox.say(worker.stack, head, body, durable, worker.id, again)
        worker.answer = outbox.count
        self._last_given = worker
        self._last_job = job.id

    def _wait_for_peer(self, worker: Worker) -> None:
        """Give this worker nothing until its connection can take it."""
        self._patient[worker] = None
        self.link.again()

    def go_on(self, now: Millis) -> None:
        """The connection can take more."""
        if self._patient and not self.link.full:
            patient, self._patient = self._patient, {}
            for worker in patient:
                idle = worker.doing is PARKED and worker.demand is None
                if idle and worker.crew is self and worker.session.open:
                    self._want(worker, now)

    def look_after(self, worker: Worker) -> None:
        """See that a worker that waits for nothing is asked for again."""
        if worker not in self._patient and not self._service.stopping:
            self._wait_for_peer(worker)

    def on_unmet(self, session: Session, demand: Demand, now: Millis) -> None:
        """No job came for a long time: does the worker still live?"""
        worker = self.here.get(session)
        if worker is not None and worker.demand is demand:
            worker.demand = None
            worker.doing = BEATING
            worker.until = now + self._settings.heartbeat_due_ms
            self._outbox.say(worker.stack, worker.heartbeat, b"")

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
            self._outbox.say(stack, worker.heartbeat, b"")
        elif worker.doing is PARKED:
            self._want_if_put_off(worker, now)
        elif job is None or job.id not in worker.session.leases:
            # It never heard of the job that was taken from it meanwhile.
            worker.job = None
            self._want(worker, now)
        elif self._is_on_its_way(worker, job):
            pass  # it is not written once more for somebody who does not read
        elif not job.away:
            self._say_job(worker, job, job.policy.durable, True)
        else:
            # Its body is with the store: asked for anew, it comes from there.
            worker.job = None
            self._give_back(job, worker.session, now)
            self._want(worker, now)

    def _is_on_its_way(self, worker: Worker, job: Job) -> bool:
        """Whether the job that a worker asks for again has not left, and is too long to repeat."""
        # What another protocol wrote is written anew each time: nobody shares it.
        most = LARGE_BYTES if job.origin == ORIGIN else SHARED_BYTES
        is_small = len(job.body) <= most
        return self._outbox.is_on_its_way(worker.id, worker.answer, worker.stack, is_small=is_small)

    def on_lease_lost(self, session: Session, job: Job, now: Millis) -> None:
        """A worker's time is over, and it is taken for gone; or an operator took only its job."""
        worker = self.here.get(session)
        if worker is not None and worker.job is job:
            worker.job = None
            if worker.until and worker.until <= now:
                self._workers.dismiss(worker, now)

    def _dismiss(self, worker: Worker, now: Millis) -> None:
        """The worker leaves, or is out of step: it may begin anew."""
        self._workers.dismiss(worker, now)
        if len(worker.services) > MANY_SERVICES:
            self.conversation.tired = True
        self._outbox.say(worker.stack, encode_disconnect(worker.id), b"", durable=worker.durable)

    # -- coming and going -------------------------------------------------------------------------

    def hush(self, worker: Worker, *, leaving: bool) -> None:
        """Give a worker no more jobs; one that is `leaving` is told so when it asks next."""
        worker.wanted = ()
        worker.leaving = leaving
        demand = worker.demand
        if demand is not None and demand.queues:
            self._broker.withdraw(demand)
            worker.demand = Demand(worker.session, (), demand.until)
            # It ends when the other would have; the present moment decides nothing about it.
            self._broker.demand(worker.demand, NEVER)

    def stop(self) -> None:
        """Give no more jobs. Who waits goes on waiting: an answer would make it ask again."""
        for worker in self.here.values():
            if worker.demand is not None:
                self._broker.withdraw(worker.demand)
                worker.demand = None

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The connection is gone: what its workers hold goes to others."""
        self.stop()
        last = self._last_given
        # One that has moved hears of its job elsewhere, whatever became of what was said here.
        if unheard and last is not None and last.crew is self:
            job, is_last = last.job, last.answer == self._outbox.count
            if is_last and job is not None and job.id == self._last_job:
                self._give_back(job, last.session, now)
        for worker in list(self.here.values()):
            self._workers.lose(worker, self._settings.heartbeat_due_ms, now)
        self.here.clear()

    def let_go(self, worker: Worker) -> None:
        """The worker is no longer one of this connection."""
        self.here.pop(worker.session, None)
        self.bytes -= worker.cost
        self._patient.pop(worker, None)
        self._past_ready(worker)

    def _past_ready(self, worker: Worker) -> None:
        """The worker has said something after its READY, which will not come again."""
        self._readies.pop(worker.ready, None)
        worker.ready = b""
