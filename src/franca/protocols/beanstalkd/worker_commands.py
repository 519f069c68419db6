"""What workers say: reserve, delete, release, bury, touch; and which tubes they watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import NEVER, PAST, Choice, Demand, Failure, Job, Millis, Shelf, State
from franca.protocols.beanstalkd.jobs import body_of, counted, counts_of, find
from franca.protocols.beanstalkd.messages import (
    Bury,
    Delete,
    Ignore,
    Release,
    Reserve,
    ReserveJob,
    ReserveWithTimeout,
    Touch,
    Watch,
)
from franca.protocols.beanstalkd.wire import NOT_FOUND, OUT_OF_MEMORY, job_reply
from franca.protocols.conversation import Task

if TYPE_CHECKING:
    from franca.protocols.beanstalkd.conversation import BeanstalkdConversation

SEARCHED_AT_ONCE: Final = 64
"""So many tubes, or connections, are looked at in about the time that a command takes."""
MARGIN_MS: Final = 1_000
"""In the last second of a job's time to run its worker is not made to wait for another."""
_OLDEST: Final = Choice.OLDEST
_LISTED: Final = Choice.LISTED
_LEASED: Final = State.LEASED
_BURIED: Final = Failure("Buried", "buried by its worker", final=True)
_NOWHERE: Final = Shelf.NOWHERE


# -- reserve --------------------------------------------------------------------------------------


def on_reserve(conversation: BeanstalkdConversation, message: Reserve, now: Millis) -> None:
    """reserve: a job of the watched tubes, when there is one."""
    _reserve(conversation, NEVER, now)


def on_reserve_with_timeout(
    conversation: BeanstalkdConversation, message: ReserveWithTimeout, now: Millis
) -> None:
    """reserve-with-timeout: the same, or TIMED_OUT."""
    seconds = message.timeout_s
    until = NEVER if seconds < 0 else now + 1_000 * seconds if seconds else PAST
    _reserve(conversation, until, now)


def _reserve(conversation: BeanstalkdConversation, until: Millis, now: Millis) -> None:
    conversation.asked_at = now
    watched = conversation.watched if not conversation.service.stopping else {}
    deadline = conversation.next_deadline()
    if conversation.link.input_ended:
        until = PAST
    elif deadline:
        until = min(until or deadline, max(deadline - MARGIN_MS, PAST))
    # With one tube there is nothing to choose, and looking at it costs half as much.
    choice = _LISTED if len(watched) == 1 else _OLDEST
    demand = Demand(conversation.session, tuple(watched), until, choice)
    try:
        if not conversation.is_worker:
            conversation.service.begin_work(conversation)
        answer = conversation.broker.demand(demand, now)
    except Refused:
        conversation.link.write(OUT_OF_MEMORY)
        return
    if len(watched) >= SEARCHED_AT_ONCE:
        conversation.spent += len(watched) // SEARCHED_AT_ONCE
    if answer is None:
        conversation.demand = demand
        conversation.holding = True
    elif isinstance(answer, Granted):
        reserved(conversation, answer.job)
    else:
        not_reserved(conversation, now)


def reserved(conversation: BeanstalkdConversation, job: Job) -> None:
    """Send a job to the worker that it was given to."""
    conversation.note_deadline(job)
    # Where the store has the job: that somebody runs it need not survive a crash.
    is_new = job.policy.durable and job.shelf is _NOWHERE
    pieces = job_reply(b"RESERVED", job.id, body_of(job))
    conversation.link.write_pieces(pieces, durable=is_new)


def not_reserved(conversation: BeanstalkdConversation, now: Millis) -> None:
    """Tell a worker that no job came: its own job is due soon, or its time to wait is over."""
    deadline = conversation.next_deadline()
    is_due_soon = deadline and deadline - MARGIN_MS <= now
    conversation.link.write(b"DEADLINE_SOON\r\n" if is_due_soon else b"TIMED_OUT\r\n")


def on_reserve_job(conversation: BeanstalkdConversation, message: ReserveJob, now: Millis) -> None:
    """reserve-job: this very job, unless somebody runs it."""
    conversation.begin(_reserve_job(conversation, message), now)


def _reserve_job(conversation: BeanstalkdConversation, message: ReserveJob) -> Task:
    yield
    job = yield from find(conversation, message.id)
    if job is None or job.state is _LEASED or conversation.service.stopping:
        return NOT_FOUND
    if not conversation.is_worker:
        conversation.service.begin_work(conversation)
    conversation.broker.lease(job, conversation.session, conversation.now)
    reserved(conversation, job)
    return b""


# -- what becomes of a job ------------------------------------------------------------------------


def on_delete(conversation: BeanstalkdConversation, message: Delete, now: Millis) -> None:
    """delete: the job that the worker runs is done; any other that nobody runs is gone."""
    job = conversation.session.leases.get(message.id)
    if job is None:
        conversation.begin(_delete(conversation, message), now)
        return
    conversation.broker.finish(job, job.holder, b"", now)
    conversation.service.counts(job.queue).deletes += 1
    conversation.link.write_after_commit(b"DELETED\r\n")


def _delete(conversation: BeanstalkdConversation, message: Delete) -> Task:
    yield
    job = yield from find(conversation, message.id)
    if job is None or job.state is _LEASED:
        return NOT_FOUND
    conversation.broker.cancel(job, conversation.now)
    conversation.service.counts(job.queue).deletes += 1
    return b"DELETED\r\n"


def on_release(conversation: BeanstalkdConversation, message: Release, now: Millis) -> None:
    """release: the job may be run by anybody, now or later."""
    job = conversation.session.leases.get(message.id)
    if job is None:
        conversation.link.write(NOT_FOUND)
        return
    broker = conversation.broker
    counts = counts_of(job)
    counts = counts._replace(delay_s=message.delay_s, releases=counts.releases + 1)
    run_at = broker.wall(now) + 1_000 * message.delay_s if message.delay_s else NEVER
    extra = counted(job, counts)
    broker.release(job, job.holder, run_at, now, extra=extra, priority=message.priority)
    conversation.link.write_after_commit(b"RELEASED\r\n")


def on_bury(conversation: BeanstalkdConversation, message: Bury, now: Millis) -> None:
    """bury: the job is put aside until somebody kicks it."""
    job = conversation.session.leases.get(message.id)
    if job is None:
        conversation.link.write(NOT_FOUND)
        return
    conversation.broker.fail(job, job.holder, _BURIED, now, priority=message.priority)
    conversation.link.write_after_commit(b"BURIED\r\n")


def on_touch(conversation: BeanstalkdConversation, message: Touch, now: Millis) -> None:
    """touch: the time to run begins anew."""
    job = conversation.session.leases.get(message.id)
    if job is None:
        conversation.link.write(NOT_FOUND)
        return
    conversation.broker.extend(job, job.holder, now + job.policy.lease_ms)
    conversation.note_deadline(job)
    conversation.link.write(b"TOUCHED\r\n")


# -- tubes ----------------------------------------------------------------------------------------


def on_watch(conversation: BeanstalkdConversation, message: Watch, now: Millis) -> None:
    """watch: reserve jobs of this tube too."""
    watched = conversation.watched
    if message.tube in watched or conversation.service.watch(conversation, message.tube):
        conversation.link.write(b"WATCHING %d\r\n" % len(watched))
    else:
        conversation.link.write(OUT_OF_MEMORY)


def on_ignore(conversation: BeanstalkdConversation, message: Ignore, now: Millis) -> None:
    """ignore: reserve no more jobs of this tube. One tube is always watched."""
    watched = conversation.watched
    if message.tube in watched:
        if len(watched) == 1:
            conversation.link.write(b"NOT_IGNORED\r\n")
            return
        conversation.service.unwatch(conversation, message.tube)
    conversation.link.write(b"WATCHING %d\r\n" % len(watched))
