"""What clients send: SUBMIT_JOB, RUN_JOB, REMOVE_JOB, RECV_DATA; and PING, as anybody may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import Job, Millis, NewJob, State
from franca.protocols.periodic.auth import CLIENT
from franca.protocols.periodic.jobs import KEY
from franca.protocols.periodic.messages import NO_WORKER, PONG, SUCCESS, Message, WireJob

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

WAIT_S: Final = 60
"""How long a RUN_JOB waits whose job has no timeout."""
LEASED: Final = State.LEASED


def on_ping(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """PING: PONG."""
    connection.answer(message.id, PONG)


def on_submit_job(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """SUBMIT_JOB: kept, in place of a job of the same name."""
    wire_job = connection.dialect.read_job(message.args)
    if connection.service.rules is not None:
        connection.check_may(CLIENT, wire_job.func)
    submit(connection, wire_job, now)
    connection.link.write_after_commit(connection.dialect.bare(message.id, SUCCESS))


def submit(connection: PeriodicConversation, wire_job: WireJob, now: Millis) -> None:
    """Keep a job. What is dropped because it runs already was answered all the same."""
    service, broker = connection.service, connection.broker
    new = service.intake.new_job(wire_job, now, limits_runs=connection.dialect.limits_runs)
    if service.drops_running:
        taken = broker.keyed(new.queue, new.key)
        if taken is not None and taken.state is LEASED:
            return
    job = broker.submit(new, now)
    if service.streams:
        service.follow(job)


def on_run_job(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """RUN_JOB: the answer is the result; or at once that nobody runs such jobs."""
    wire_job = connection.dialect.read_job(message.args)
    connection.check_may(CLIENT, wire_job.func)
    if not connection.broker.serves(wire_job.func):
        connection.answer(message.id, NO_WORKER)
        return
    limits_runs = connection.dialect.limits_runs
    intake = connection.service.intake
    new = intake.new_job(wire_job, now, limits_runs=limits_runs, waited_for=True)
    seconds = wire_job.timeout if wire_job.timeout > 0 else WAIT_S
    name = (new.queue, new.key)
    wait = connection.waits.add(name, message.id, is_stream=False)
    try:
        connection.waits.watch(_run(connection, new, now))
    except Refused:
        connection.waits.remove(name, wait)
        raise
    connection.waits.expire_at(name, wait, now + 1000 * seconds)


def _run(connection: PeriodicConversation, new: NewJob, now: Millis) -> Job:
    """Have a job run, or wait for the run that goes on under its name."""
    taken = connection.broker.keyed(new.queue, new.key)
    if isinstance(taken, Job) and taken.state is LEASED:
        return taken
    job = connection.broker.submit(new, now)
    if connection.service.streams:
        connection.service.follow(job)
    return job


def on_remove_job(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """REMOVE_JOB: gone, running or not; SUCCESS also where there was none."""
    func, name = connection.dialect.read_removal(message.args)
    connection.check_may(CLIENT, func)
    connection.broker.remove(func, KEY + name, now)
    connection.succeed(message.id)


def on_recv_data(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """RECV_DATA: what the job's worker sends, piece by piece, then an end.

    One client sends this beside RUN_JOB, in either order: the job need not be there yet.
    """
    wire_job = connection.dialect.read_job(message.args)
    connection.check_may(CLIENT, wire_job.func)
    service, broker, waits = connection.service, connection.broker, connection.waits
    service.intake.check_name(wire_job.func)
    if not broker.serves(wire_job.func):
        connection.answer(message.id, NO_WORKER)
        return
    name = (wire_job.func, KEY + wire_job.name)
    waits.add(name, message.id, is_stream=True)
    service.streams.setdefault(name, {})[waits] = None
    taken = broker.keyed(*name)
    if taken is not None:
        waits.watch(taken)
    connection.answer(message.id, SUCCESS)
