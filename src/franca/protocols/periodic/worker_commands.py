"""What workers send: the functions they run, GRAB_JOB and SLEEP, and what became of their jobs.

A worker names a job by its handle. What it says of a run that is over changes nothing and is
confirmed all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import NotHeld, TooMuch
from franca.core.model import Failure, Job, Millis
from franca.protocols.periodic.client_commands import DATA_KIND, LEASED, Name
from franca.protocols.periodic.jobs import AT_MAX_S, later
from franca.protocols.periodic.messages import BROADCAST, NOOP, Message
from franca.protocols.periodic.runs import Run

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

LOCKS_MAX: Final = 64
"""Locks that one run may hold."""
LOCK_AGAIN_MS: Final = 60_000
"""When a job is run again that could not have its lock, if that lock is not open earlier."""
FAILED_RUN: Final = Failure("WorkFail", "the worker reported a failure")
TOO_LARGE: Final = Failure("TooLarge", "its result was larger than results may be")
NO_NAME: Final = ("", "")
"""The job that a message is about which waits for nothing but the next tick."""


class NotNow(Exception):
    """A message is to be acted on later: those who hear of this job have had enough for now."""

    def __init__(self, name: Name) -> None:
        super().__init__(*name)
        self.name = name


# -- functions and jobs ----------------------------------------------------------------------


def on_can_do(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """CAN_DO: jobs of this function are wanted. BROADCAST: each of them, by every such worker."""
    func, for_all = connection.dialect.read_func(message.args), message.command == BROADCAST
    connection.worker.can_do(func, for_all=for_all)
    connection.handshake.confirm(message.id)


def on_cant_do(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """CANT_DO: no more of these; what the worker runs it goes on running."""
    connection.worker.cant_do(connection.dialect.read_func(message.args))
    connection.handshake.confirm(message.id)


def on_grab_job(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """GRAB_JOB: a job when there is one; by the document, at once that there is none."""
    if connection.service.rules is not None:
        connection.rule()
    if connection.dialect.writes_anew and not (
        connection.service.may_write() or connection.is_gone
    ):
        raise NotNow(NO_NAME)
    connection.asked_at = now
    if connection.follows_document:
        connection.worker.grab_now(message.id, now)
    else:
        connection.worker.grab(message.id, now)


def on_sleep(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """SLEEP: NOOP at once, as every server did; by the document, when there is work."""
    connection.rule()
    if connection.follows_document:
        connection.worker.sleep(message.id, now)
    else:
        connection.answer(message.id, NOOP)


def on_job_assigned(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """JOB_ASSIGNED: it arrived. Many workers never say so, so nobody waits for it."""


def on_job_unassigned(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """JOB_UNASSIGNED: too much; the job is as if it had not been given."""
    worker = connection.worker
    run = worker.runs.take(worker.runs.by_grab.get(message.id, b""))
    if run is None:
        return
    # Else it would be handed back and forth as fast as the two can write.
    worker.withdraw()
    worker.pause(now)
    job = worker.runs.own_job_of(run)
    if job is not None:
        connection.broker.give_back(job, connection.session.holder, now)


# -- what became of a job ----------------------------------------------------------------------


def on_work_done(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """WORK_DONE: done, with a result for those who wait."""
    handle, result = connection.dialect.read_handle(message.args)
    run = connection.worker.runs.take(handle)
    if run is not None:
        _finish(connection, run, result, now)
        connection.worker.on_run_over(now)
    connection.handshake.confirm(message.id)


def _finish(connection: PeriodicConversation, run: Run, result: bytes, now: Millis) -> None:
    broker = connection.broker
    job = broker.jobs.get(run.job_id)
    if job is None or job.attempts != run.attempt:
        return
    if job.state is not LEASED:
        # Its time ran out, but nobody was given it since: the work counts.
        try:
            broker.finish_late(job, run.holder, result, now)
        except NotHeld:
            pass
        return
    most = connection.service.limits.body_bytes_max
    if len(result) > most:
        connection.link.note(f"a result of {len(result)} bytes, at most {most}")
        if broker.watchers_of(job.id):
            broker.fail(job, run.holder, TOO_LARGE, now)
            return
        result = b""
    broker.finish(job, run.holder, result, now)


def on_work_fail(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """WORK_FAIL: run again in a second; what comes of it is for who waits to hear."""
    runs = connection.worker.runs
    job = runs.own_job_of(runs.take(connection.dialect.read_handle(message.args)[0]))
    if job is not None:
        connection.broker.fail(job, connection.session.holder, FAILED_RUN, now)
        connection.worker.on_run_over(now)
    connection.handshake.confirm(message.id)


def on_sched_later(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """SCHED_LATER: run again after a while, its counter changed."""
    handle, delay_s, step = connection.dialect.read_later(message.args)
    runs = connection.worker.runs
    job = runs.own_job_of(runs.take(handle))
    if job is not None:
        delay_s = max(0, min(delay_s, AT_MAX_S))
        at = min(connection.broker.wall(now) + 1000 * delay_s, 1000 * AT_MAX_S)
        connection.broker.release(job, connection.session.holder, at, now, later(job, step))
        connection.worker.on_run_over(now)
    connection.handshake.confirm(message.id)


def on_work_data(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """WORK_DATA: a piece for those who follow the job."""
    handle, data = connection.dialect.read_handle(message.args)
    runs, service = connection.worker.runs, connection.service
    run = runs.held.get(handle)
    job = runs.job_of(run)
    if run is not None and job is not None:
        name = (job.queue, job.key)
        if service.may_send(name):
            service.reporter = connection
            connection.broker.report(job, run.holder, DATA_KIND, data)
        elif not connection.is_gone:
            raise NotNow(name)
    connection.handshake.confirm(message.id)


# -- locks -------------------------------------------------------------------------------------


def on_acquire(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """ACQUIRE: whether the run may hold a lock; if not, it is over and comes again."""
    lock, most, handle = connection.binary.read_lock(message.args)
    connection.service.intake.check_name(lock)
    # A worker with a copy of the job has no run that could hold a lock, or end for it.
    runs = connection.worker.runs
    job = runs.own_job_of(runs.held.get(handle))
    is_held = job is not None and _lock(connection, job, lock, most, now)
    if not is_held:
        runs.take(handle)
        connection.worker.on_run_over(now)
    connection.link.write_after_commit(connection.binary.acquired(message.id, is_held))


def _lock(connection: PeriodicConversation, job: Job, lock: str, most: int, now: Millis) -> bool:
    """Whether a run may hold a lock. If not, it is over."""
    broker, holder = connection.broker, connection.session.holder
    locks = broker.locks.of_job.get(job.id, {})
    try:
        if len(locks) >= LOCKS_MAX and lock not in locks:
            raise TooMuch(f"no more than {LOCKS_MAX} locks of one run")
        return broker.lock(job, holder, lock, most, now)
    except TooMuch as refusal:
        # A worker that has no lock drops the job without a word, whatever the reason is.
        connection.link.note(str(refusal))
        broker.release(job, holder, broker.wall(now) + LOCK_AGAIN_MS, now)
        return False


def on_release(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """RELEASE: the lock is for the next."""
    lock, handle = connection.binary.read_unlock(message.args)
    job = connection.worker.runs.own_job_of(connection.worker.runs.held.get(handle))
    if job is not None:
        connection.broker.unlock(job, connection.session.holder, lock, now)
    connection.handshake.confirm(message.id)
