"""The workers of one connection: what each sends, and what it is answered.

Each request of a worker is a demand, answered with a JOB or, when nothing comes, a HEARTBEAT.
NNG sends a request again when it waits too long or its connection broke; such a one must be
answered again and never be taken for the next, or one job's result would end another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import NotHeld
from franca.core.events import Granted
from franca.core.model import Demand, Failure, Job, Millis, Session
from franca.protocols.bodies import as_bytes
from franca.protocols.conversation import WHOLE_SHARE, ask_for_nothing
from franca.protocols.memodb.cbor import TEXT, of_name
from franca.protocols.memodb.jobs import ORIGIN
from franca.protocols.memodb.messages import HEARTBEAT, JOB, Message
from franca.protocols.memodb.outbox import SHARED_BYTES
from franca.protocols.memodb.sp import WORD
from franca.protocols.memodb.wire import LARGE_BYTES, begin, encode_disconnect, task
from franca.protocols.memodb.workers import BEATING, LOST, PARKED, WORKING, Worker
from franca.protocols.undelivered import give_back

if TYPE_CHECKING:
    from franca.protocols.memodb.conversation import MemoDBConversation

SAID_BYTES: Final = 64
"""How much of a worker's request is compared with its last one. Its id alone would do for NNG."""
MANY_SERVICES: Final = 64
"""To ask for more services than these takes long."""
_JOB_BEGIN: Final = begin(JOB, 5)
_HEARTBEAT_BEGIN: Final = begin(HEARTBEAT, 3)
FOREVER_MS: Final = 2**32 - 1
"""The timeout that a worker is told of a job that has none."""


class ConnectionWorkers:
    """All workers that share one connection, by their sessions. `bytes` is what they take."""

    def __init__(self, conversation: MemoDBConversation) -> None:
        service = conversation.service
        self.here: dict[Session, Worker] = {}
        self.bytes = 0
        self.conversation = conversation
        self.link = conversation.link
        self._outbox = conversation.outbox
        self._service = service
        self._broker = service.broker
        self._body_max = service.limits.body_bytes_max
        self._workers = service.registry
        self._by_id = service.registry.by_id
        self._readies: dict[bytes, Worker] = {}
        self._deferred: dict[Worker, None] = {}
        self._heartbeat_ms = service.settings.heartbeat_ms
        self._last_given: Worker | None = None
        self._last_job = 0

    # -- what workers send ------------------------------------------------------------------------

    def on_ready(self, message: Message, now: Millis) -> None:
        """READY: a new worker, unless NNG only sent it again."""
        if message.id or message.size:
            return
        said = message.data[message.at - WORD :]
        worker = self._readies.get(said)
        if worker is not None:
            self._answer_again(worker, message.stack, now)
            return
        worker = self._workers.add(message, self, said, now)
        if worker is None:
            self.conversation.spent = WHOLE_SHARE  # to find out took as long as to take it in
            return  # not answered: it may ask again when others have left
        self._readies[said] = worker
        self.here[worker.session] = worker
        self._want(worker, now)

    def on_result(self, message: Message, now: Millis) -> None:
        """RESULT: its job is done, and it asks for the next; unless it says that it leaves."""
        worker = self._worker_of(message, now)
        if worker is None:
            return
        if worker.doing != WORKING and worker.doing != LOST:
            self._dismiss(worker, now)
            return
        self._take_result(worker, message, now)
        if message.header is not None and message.header.leaving:
            worker.leaving = True
        self._want(worker, now)

    def on_heartbeat(self, message: Message, now: Millis) -> None:
        """HEARTBEAT: it is still there, and asks for a job."""
        worker = self._worker_of(message, now)
        if worker is None:
            return
        if worker.doing == WORKING:
            self._dismiss(worker, now)
        elif worker.doing != PARKED or worker.demand is None:
            self._want(worker, now)

    def on_disconnect(self, message: Message, now: Millis) -> None:
        """DISCONNECT: it leaves."""
        worker = self._worker_of(message, now)
        if worker is not None:
            self._dismiss(worker, now)

    def _worker_of(self, message: Message, now: Millis) -> Worker | None:
        """The worker that sends this, of any connection until now; None if it was answered.

        So it is if it is the same request as its last one.
        """
        worker = self._by_id.get(message.id)
        if worker is None:
            if message.id:
                self._outbox.send(message.stack, encode_disconnect(message.id), b"")
            return None
        if worker.connection_workers is not self or worker.doing == LOST:
            if not self._workers.move(worker, self, now):
                self.conversation.spent = WHOLE_SHARE
                return None  # not answered either
            self.here[worker.session] = worker
        at = message.at
        size = message.end - at + message.size
        said = message.data[at - WORD : at + SAID_BYTES]
        if said == worker.said and size == worker.said_bytes:
            self._answer_again(worker, message.stack, now)
            return None
        if worker.ready:
            self._past_ready(worker)
        worker.said = said
        worker.said_bytes = size
        worker.stack = message.stack
        return worker

    def _take_result(self, worker: Worker, message: Message, now: Millis) -> None:
        """A worker's job is done; or what came of it is more than anybody may be given.

        What comes too late changes nothing.
        """
        job = worker.job
        worker.job = None
        if message.size > self._body_max:
            text = f"a result of {message.size} bytes, at most {self._body_max}"
            self.link.note(text)
            if job is None or job.id not in worker.session.leases:
                return
            failure = Failure("ResultTooLarge", text, final=True)
            self._broker.fail(job, worker.session.holder, failure, now)
        else:
            if worker.doing == LOST:
                job = self._broker.jobs.get(worker.lost_job)
            if job is None:
                return
            finish = self._broker.finish if worker.doing == WORKING else self._broker.finish_late
            try:
                finish(job, worker.session.holder, message.payload, now)
            except NotHeld:
                return
        worker.durable = job.policy.durable

    # -- what they are answered -------------------------------------------------------------------

    def _want(self, worker: Worker, now: Millis) -> None:
        """A worker asks for its next job."""
        worker.seen_at = worker.asked_at = now
        worker.doing = PARKED
        if worker.leaving:
            self._dismiss(worker, now)
            return
        if self._service.stopping:
            return
        if self.link.full:
            self.defer(worker)
            return
        demand = Demand(worker.session, worker.wanted, now + self._heartbeat_ms)
        worker.demand = demand
        answer = self._broker.demand(demand, now)
        if len(worker.services) > MANY_SERVICES:
            self.conversation.spent = WHOLE_SHARE
        if answer is not None and isinstance(answer, Granted):
            self._give(worker, answer.job, now)

    def on_granted(self, session: Session, event: Granted, now: Millis) -> None:
        """A job has come for a worker that waits."""
        worker = self.here.get(session)
        if worker is None or worker.demand is not event.demand or self.link.closing:
            give_back(self._broker, event.job, session.holder, now)
        else:
            self._give(worker, event.job, now)

    def _give(self, worker: Worker, job: Job, now: Millis) -> None:
        worker.demand = None
        is_hard = self.link.full or len(job.body) > LARGE_BYTES
        if is_hard and not self._outbox.takes(len(job.body)):
            # Its time would run while it waits to be sent: somebody else may have it.
            give_back(self._broker, job, worker.session.holder, now)
            self.defer(worker)
            return
        worker.job = job
        worker.doing = WORKING
        worker.until = job.until
        durable = worker.durable or job.policy.durable
        worker.durable = False
        self._send_job(worker, job, durable, False)

    def _send_job(self, worker: Worker, job: Job, durable: bool, again: bool) -> None:
        body = job.body
        if job.origin == ORIGIN:
            extra = job.extra
            is_named = extra[0] >> 5 == TEXT  # not if its name is long: see `Header`
            head = _JOB_BEGIN + worker.head + (extra if is_named else of_name(job.queue) + extra)
        else:
            head = _JOB_BEGIN + worker.head + task(job.queue, job.policy.lease_ms or FOREVER_MS)
            body = as_bytes(job.media, body)
            if len(body) > LARGE_BYTES:
                self.conversation.spent = WHOLE_SHARE
        self._outbox.send(worker.stack, head, body, durable, worker.id, again)
        worker.answer = self._outbox.count
        self._last_given = worker
        self._last_job = job.id

    def defer(self, worker: Worker) -> None:
        """Ask for nothing for this worker until its connection can take a job."""
        if not self._service.stopping:
            self._deferred[worker] = None
            self.link.call_next_turn()

    def resume(self, now: Millis) -> None:
        """The connection can take more: ask for those who were deferred."""
        if self._deferred and not self.link.full:
            deferred, self._deferred = self._deferred, {}
            for worker in deferred:
                idle = worker.doing == PARKED and worker.demand is None
                if idle and worker.connection_workers is self and worker.session.open:
                    self._want(worker, now)

    def on_unmet(self, session: Session, demand: Demand, now: Millis) -> None:
        """No job came for a long time: does the worker still live?"""
        worker = self.here.get(session)
        if worker is not None and worker.demand is demand:
            worker.demand = None
            worker.doing = BEATING
            worker.until = now + self._service.settings.heartbeat_due_ms
            self._outbox.send(worker.stack, _HEARTBEAT_BEGIN + worker.head, b"")

    def _answer_again(self, worker: Worker, stack: bytes, now: Millis) -> None:
        """The same request as last time: who waits goes on waiting, others are answered again."""
        worker.stack = stack
        worker.seen_at = now
        job = worker.job
        if worker.doing == LOST:
            # Whatever it was given when its connection broke, it has not heard.
            worker.job = None
            self._want(worker, now)
        elif worker.doing == BEATING:
            self._outbox.send(stack, _HEARTBEAT_BEGIN + worker.head, b"")
        elif worker.doing == PARKED:
            if worker.demand is None:  # nothing was asked for, because a connection was full
                self._want(worker, now)
        elif job is None or job.id not in worker.session.leases:
            # It never heard of the job that was taken from it meanwhile.
            worker.job = None
            self._want(worker, now)
        elif not self._is_on_its_way(worker, job):  # else it does not read, or not yet
            if not job.away:
                self._send_job(worker, job, job.policy.durable, True)
                return
            # Its body is with the store: asked for anew, it comes from there.
            worker.job = None
            give_back(self._broker, job, worker.session.holder, now)
            self._want(worker, now)

    def _is_on_its_way(self, worker: Worker, job: Job) -> bool:
        """Whether the job that a worker asks for again has not left, and is too long to repeat."""
        # What another protocol wrote is written anew each time: nobody shares it.
        most = LARGE_BYTES if job.origin == ORIGIN else SHARED_BYTES
        small = len(job.body) <= most
        return self._outbox.is_on_its_way(worker.id, worker.answer, worker.stack, is_small=small)

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
            self.conversation.spent = WHOLE_SHARE
        self._outbox.send(worker.stack, encode_disconnect(worker.id), b"", worker.durable)

    # -- coming and going -------------------------------------------------------------------------

    def stop_giving_jobs(self, worker: Worker, *, leaving: bool) -> None:
        """Give a worker no more jobs; one that is `leaving` is told so when it asks next."""
        worker.wanted = ()
        worker.leaving = leaving
        worker.demand = ask_for_nothing(self._broker, worker.demand)

    def stop(self) -> None:
        """Give no more jobs. Who waits goes on waiting: an answer would make it ask again."""
        for worker in self.here.values():
            if worker.demand is not None:
                self._broker.withdraw(worker.demand)
                worker.demand = None

    def hang_up(self, now: Millis, *, undelivered: bool) -> None:
        """The connection is gone: what its workers hold goes to others."""
        self.stop()
        last = self._last_given
        # One that has moved hears of its job elsewhere, whatever became of what was said here.
        if undelivered and last is not None and last.connection_workers is self:
            job, is_last = last.job, last.answer == self._outbox.count
            if is_last and job is not None and job.id == self._last_job:
                give_back(self._broker, job, last.session.holder, now)
        for worker in list(self.here.values()):
            self._workers.lose(worker, self._service.settings.heartbeat_due_ms, now)
        self.here.clear()

    def remove(self, worker: Worker) -> None:
        """The worker is no longer one of this connection."""
        self.here.pop(worker.session, None)
        self.bytes -= worker.cost
        self._deferred.pop(worker, None)
        self._past_ready(worker)

    def _past_ready(self, worker: Worker) -> None:
        """The worker has sent something after its READY, which will not come again."""
        self._readies.pop(worker.ready, None)
        worker.ready = b""
