"""What a worker says: INFORM, READY, REPLY."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.model import Failure, Job, Millis, Outcome, State
from franca.protocols.conversation import WHOLE_SHARE
from franca.protocols.eventmq.jobs import HOLDERS, ORIGIN, known_as, shown_msgid, terms_of_job
from franca.protocols.eventmq.results import TIMED_OUT, bare_value, failure_in
from franca.protocols.eventmq.texts import Unfit, read_queues
from franca.protocols.eventmq.workers import MSGID_BYTES_MAX, Worker

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

SCHEDULERS_MAX: Final = 256
"""Each is sent every UNSCHEDULE."""
EARLY_MS: Final = 250
"""How much sooner than the server a worker's clock may find that a timeout has passed."""


def on_inform(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """INFORM: the peer is a worker of these queues, or a scheduler."""
    conversation.had_a_role = True
    worker = _worker_of(conversation, frames, now)
    worker.list_queues()
    old = conversation.worker
    if old is not None:  # what it holds goes on under its new description
        old.leave()
        old.registry.remove(old)
    conversation.worker = worker
    conversation.drops = False
    service = conversation.service
    # At once: a job manager starts its processes on the first heartbeat it gets.
    conversation.answer(service.encoder.ack(frames[3]) + service.heartbeat(now))
    worker.join()
    conversation.spent += WHOLE_SHARE
    if service.stopping:
        worker.stop()


def _worker_of(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> Worker:
    """The worker or scheduler that an INFORM describes. `Refused` if there is no room for it."""
    service, old = conversation.service, conversation.worker
    role = frames[5].strip().lower() if len(frames) > 5 else b"worker"
    if role == b"scheduler":
        if len(service.schedulers.all) >= SCHEDULERS_MAX:
            raise Unfit(f"an INFORM of more than {SCHEDULERS_MAX} schedulers")
        return Worker(conversation, service.schedulers, (), now)
    if role != b"worker":
        raise Unfit("an INFORM of neither a worker nor a scheduler")
    queues = read_queues(frames[4] if len(frames) > 4 else b"", service.limits.name_bytes_max)
    registry = service.workers_here
    worker = Worker(conversation, registry, queues, now)
    replaced = 0 if old is None or old.gone or old.registry is not registry else old.size
    if registry.bytes + worker.size - replaced > service.limits.offered_bytes:
        raise Unfit("an INFORM of more queues than all workers may name together")
    return worker


def on_ready(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """READY: the worker would take one more job."""
    if conversation.worker is not None:
        conversation.worker.ready(now)


def on_reply(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> None:
    """REPLY: a job is done. The document's form has one frame less and does not say which."""
    worker, results = conversation.worker, conversation.service.results
    if results.kept_bytes and _must_wait(conversation, frames, now):
        conversation.put_off(on_reply, frames)
        results.waiting[conversation] = None
    elif len(frames) > 5:
        if worker is not None:
            _settle(worker, frames[4], frames[5], now)
        else:
            _settle_late(conversation.broker, frames[4], frames[5], now)
    elif len(frames) == 5 and worker is not None:
        # It is the answer to the request of its own id, or to the only one there is.
        job = worker.held_as(frames[3]) or _only_job(worker)
        if job is None:
            conversation.refuse("a REPLY to nobody knows which request")
        else:
            _settle(worker, frames[4], shown_msgid(job), now)
    else:
        conversation.refuse("a REPLY of too few frames")


def _must_wait(conversation: EventmqConversation, frames: list[bytes], now: Millis) -> bool:
    """Whether the client that asked for this result has as many as it may, and still takes them.

    A worker that is gone waits for nobody.
    """
    worker, results = conversation.worker, conversation.service.results
    if worker is None or len(frames) < 5 or conversation.link.closed:
        return False
    job = worker.held_as(frames[5] if len(frames) > 5 else frames[3])
    return job is not None and results.must_wait(job, len(frames[4]), now)


def _settle(worker: Worker, result: bytes, msgid: bytes, now: Millis) -> None:
    """A job is done, or its worker says that it failed."""
    broker, limits = worker.broker, worker.broker.limits
    if len(result) > limits.body_bytes_max:
        text = f"a result of {len(result)} bytes, at most {limits.body_bytes_max}"
        worker.conversation.link.note(text)
        settle_too_large(worker, msgid, len(result), now)
        return
    job = worker.held_as(msgid) or worker.held_by_old_connection(msgid, now)
    if job is None:
        _settle_late(broker, result, msgid, now)
        return
    failure = failure_in(result, limits.error_text_chars)
    if result in TIMED_OUT and _has_timed_out(job, now):
        failure = Failure("TimeoutError", "its timeout passed")
    if failure is not None:
        broker.fail(job, job.holder, failure, now)
    else:
        stored = result if job.origin == ORIGIN else bare_value(result)
        broker.finish(job, job.holder, stored, now)
    if worker.leaving:
        worker.leave_if_idle()


def settle_too_large(worker: Worker, msgid: bytes, size: int, now: Millis) -> None:
    """A job is done, and nobody can be given what came of it.

    Whoever asked for it is told so; to run the job again would bring the same. A job whose result
    nobody waits for is simply done.
    """
    broker, most = worker.broker, worker.broker.limits.body_bytes_max
    job = worker.held_as(msgid) or worker.held_by_old_connection(msgid, now)
    job = job or (None if msgid else _only_job(worker))
    if job is None:
        return
    if job.policy.tells_end or broker.watchers_of(job.id):
        text = f"its result has {size} bytes, at most {most}"
        broker.fail(job, job.holder, Failure("ResultTooLarge", text, final=True), now)
    else:
        broker.finish(job, job.holder, b"", now)
    worker.leave_if_idle()


def _only_job(worker: Worker) -> Job | None:
    jobs = worker.session.leases.values()
    return next(iter(jobs)) if len(jobs) == 1 else None


def _has_timed_out(job: Job, now: Millis) -> bool:
    """Whether the text means what it says, and another try may still help.

    A worker kills a job when its time is over and answers with that text. The last such answer is
    the job's result, as it always was.
    """
    may_retry = job.policy.max_failures < 0 or job.failures < job.policy.max_failures
    return may_retry and 0 < terms_of_job(job).timeout_ms <= now - job.started_at + EARLY_MS


def _settle_late(broker: Broker, result: bytes, msgid: bytes, now: Millis) -> None:
    """A worker that is not taken for the holder any more says what came of a job.

    Its connection broke, or the server was restarted, while it ran; if nobody was given the job
    since, its word counts: better than to run the job again.
    """
    if result in TIMED_OUT or len(msgid) > MSGID_BYTES_MAX or failure_in(result, 0) is not None:
        return
    for job in known_as(broker, msgid, broker.returned_as):
        was_run = job.attempts and job.holder.startswith(HOLDERS) and not _has_failed(job)
        if was_run and job.state in (State.READY, State.WAITING):
            try:
                stored = result if job.origin == ORIGIN else bare_value(result)
                broker.finish_late(job, job.holder, stored, now)
            except Refused:
                pass  # it has left memory, or somebody else was given it
            return


def _has_failed(job: Job) -> bool:
    """Whether its last run was reported as failed, and did not end without a report."""
    last = job.attempt_log[-1] if job.attempt_log else None
    return last is not None and last.outcome is Outcome.FAILED and last.started_at == job.started_at
