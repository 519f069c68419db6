"""What clients send, SUBMIT_JOB, RUN_JOB, REMOVE_JOB, RECV_DATA and PING; and what they wait for.

Whoever waits for a job waits for its function and its name, whatever job has them: a submit under
the same name is what it waits for from then on. A connection watches each such job once and
answers all who wait for it on that connection.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.errors import Refused, TooMuch
from franca.core.events import Finished, Progressed
from franca.core.model import Job, Millis, NewJob, State
from franca.core.stubs import Stub
from franca.protocols.budget import Share
from franca.protocols.periodic import messages
from franca.protocols.periodic.alarms import Alarm
from franca.protocols.periodic.auth import CLIENT
from franca.protocols.periodic.crc import BULK_BYTES
from franca.protocols.periodic.jobs import KEY
from franca.protocols.periodic.messages import Message, WireJob

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

WAIT_S: Final = 60
"""How long a RUN_JOB waits whose job has no timeout."""
LEASED: Final = State.LEASED
DONE: Final = State.DONE
WAITS_MAX: Final = 10_000
"""Answers that one connection may wait for."""
NAMESAKES_MAX: Final = 64
"""And those for one and the same job: all of them are sent in one turn."""
WAIT_BYTES: Final = 1_000
"""What one takes beside its name, here and in the broker, roughly."""
WAITS_BYTES_MAX: Final = 16 * 1024 * 1024
"""What the waits of all connections take together."""
WAITS_BYTES_FREE: Final = 4 * 1024
"""But for the first few of each connection."""
SENT_AT_ONCE: Final = 16
"""How many answers are sent in about the time that any other message takes."""
DATA_KIND: Final = "data"
"""What a piece of a stream is called among the reports of workers."""

Name = tuple[str, str]
"""A function, and the key of a job in it."""


def on_ping(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """PING: PONG."""
    connection.answer(message.id, messages.PONG)


def on_submit_job(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """SUBMIT_JOB: kept, in place of a job of the same name."""
    wire_job = connection.dialect.read_job(message.args)
    if connection.service.rules is not None:
        connection.check_may(CLIENT, wire_job.func)
    submit(connection, wire_job, now)
    connection.link.write_after_commit(connection.dialect.bare(message.id, messages.SUCCESS))


def submit(connection: PeriodicConversation, wire_job: WireJob, now: Millis) -> None:
    """Keep a job. What is dropped because it runs already was answered all the same."""
    service, broker = connection.service, connection.broker
    new = service.intake.new_job(wire_job, now, limits_runs=connection.dialect.limits_runs)
    if service.drops_running:
        taken = broker.keyed(new.queue, new.key)
        if taken is not None and taken.state is LEASED:
            return
    job = broker.submit(new, now)  # as `_take_in`, without a call: every job comes here
    if service.streams:
        _tell_followers(connection, job)


def _take_in(connection: PeriodicConversation, new: NewJob, now: Millis) -> Job:
    job = connection.broker.submit(new, now)
    if connection.service.streams:
        _tell_followers(connection, job)
    return job


def _tell_followers(connection: PeriodicConversation, job: Job) -> None:
    for waits in list(connection.service.streams.get((job.queue, job.key), ())):
        waits.watch(job)


def on_run_job(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """RUN_JOB: the answer is the result; or at once that nobody runs such jobs."""
    wire_job = connection.dialect.read_job(message.args)
    connection.check_may(CLIENT, wire_job.func)
    if not connection.broker.serves(wire_job.func):
        connection.answer(message.id, messages.NO_WORKER)
        return
    limits_runs = connection.dialect.limits_runs
    new = connection.service.intake.new_job(wire_job, now, limits_runs=limits_runs, waited_for=True)
    seconds = wire_job.timeout if wire_job.timeout > 0 else WAIT_S
    name = (new.queue, new.key)
    wait = connection.waits.add(name, message.id, is_stream=False)
    try:
        # Of a job that runs already under its name, the result of that run is waited for.
        taken = connection.broker.keyed(*name)
        runs = isinstance(taken, Job) and taken.state is LEASED
        job = taken if taken is not None and runs else _take_in(connection, new, now)
        connection.waits.watch(job)
    except Refused:
        connection.waits.remove(name, wait)
        raise
    connection.waits.expire_at(name, wait, now + 1000 * seconds)


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
        connection.answer(message.id, messages.NO_WORKER)
        return
    name = (wire_job.func, KEY + wire_job.name)
    waits.add(name, message.id, is_stream=True)
    service.streams.setdefault(name, {})[waits] = None
    taken = broker.keyed(*name)
    if taken is not None:
        waits.watch(taken)
    connection.answer(message.id, messages.SUCCESS)


# -- what is waited for ------------------------------------------------------------------------


class Wait(Struct, eq=False):
    """An answer that is owed: the result of a job, until an alarm rings; or its stream.

    A peer may use one id many times, so each is only equal to itself.
    """

    msgid: bytes
    is_stream: bool
    alarm: Alarm | None = None


class Waits:
    """All that one connection waits for, by name."""

    def __init__(self, connection: PeriodicConversation) -> None:
        self.was_waited_for = False
        """Whether workers were held back for this client once, and it did not read all the same."""
        self._connection = connection
        self.link = connection.link
        self._service = connection.service
        self._share = Share(connection.service.waits, WAITS_BYTES_FREE)
        self._by_name: dict[Name, list[Wait]] = {}
        self._count = 0

    def add(self, name: Name, msgid: bytes, *, is_stream: bool) -> Wait:
        """Wait for this too; `TooMuch` if that would be one too many."""
        waits = self._by_name.get(name, [])
        if self._count >= WAITS_MAX or len(waits) >= NAMESAKES_MAX:
            most = WAITS_MAX if self._count >= WAITS_MAX else NAMESAKES_MAX
            raise TooMuch(f"no more than {most} answers can be waited for")
        self._share.take(_size_of(name))
        self._count += 1
        wait = Wait(msgid, is_stream)
        self._by_name[name] = waits
        waits.append(wait)
        return wait

    def expire_at(self, name: Name, wait: Wait, at: Millis) -> None:
        """Answer at this moment that the time is over."""
        ring = partial(self._on_expired, name, wait)
        wait.alarm = self._service.alarms.set(self.link, at, ring)

    def remove(self, name: Name, wait: Wait) -> bool:
        """One waits no more; True if it was the last that waited for this."""
        waits = self._by_name[name]
        waits.remove(wait)
        if not waits:
            del self._by_name[name]
        self._drop(name, [wait])
        return not waits

    def _take(self, name: Name) -> list[Wait]:
        """All who wait for this are about to be answered."""
        waits = self._by_name.pop(name, [])
        self._drop(name, waits)
        return waits

    def _drop(self, name: Name, waits: list[Wait]) -> None:
        for wait in waits:
            self._service.alarms.cancel(wait.alarm)
        self._share.give_back(len(waits) * _size_of(name))
        self._count -= len(waits)

    def watch(self, job: Job | Stub) -> None:
        """Hear what becomes of a job, once."""
        session = self._connection.session
        if job.id not in session.watches:
            self._connection.broker.watch(job.id, session)

    def _unwatch(self, name: Name, now: Millis) -> None:
        """Nobody here waits for that name any more."""
        broker = self._connection.broker
        taken = broker.keyed(*name)
        if taken is not None:
            broker.unwatch(taken.id, self._connection.session, now)

    # -- events -----------------------------------------------------------------------------------

    def on_progressed(self, event: Progressed, now: Millis) -> None:
        """A worker sent a piece of a stream."""
        name = (event.job.queue, event.job.key)
        waits = self._by_name.get(name)
        if event.kind != DATA_KIND or not waits:
            return
        self._answer([(wait, event.data) for wait in waits if wait.is_stream], now)
        if self.link.full and not self.was_waited_for:
            self._service.slow.setdefault(name, (self, now))

    def on_finished(self, event: Finished, now: Millis) -> None:
        """A job that is waited for has ended: everybody is answered."""
        name = (event.job.queue, event.job.key)
        waits = self._take(name)
        if waits:
            result = event.result
            if event.state is not DONE:
                result = messages.REMOVED if event.failure.kind == "Cancelled" else messages.FAILED
            answers = [(wait, messages.EOF if wait.is_stream else result) for wait in waits]
            self._answer(answers, now, after_commit=True)
        if self._service.streams:
            self._service.unfollow(name, self)

    def _answer(
        self, answers: list[tuple[Wait, bytes]], now: Millis, *, after_commit: bool = False
    ) -> None:
        """Answer all. More than may ever wait unsent is not written, but for one answer."""
        self._service.sent += len(answers)
        if self._service.reporter is not None:  # it counts as that worker's work
            self._service.reporter.spent += len(answers) // SENT_AT_ONCE
        most = room = self._service.limits.output_hard_bytes
        if len(answers) > 1 and max(len(data) for _, data in answers) >= BULK_BYTES:
            room -= sum(map(len, self.link.out))
        written = 0
        for wait, data in answers:
            if written and written + len(data) > room:
                self._connection.drop(now, f"more than {most} bytes to be said to it at once")
                return
            written += len(data)
            self._connection.answer_data(wait.msgid, data, after_commit=after_commit)

    def _on_expired(self, name: Name, wait: Wait, now: Millis) -> None:
        if self.remove(name, wait):
            self._unwatch(name, now)
        self.link.write(self._connection.dialect.data(wait.msgid, messages.EXPIRED))

    def on_rules(self, now: Millis) -> None:
        """Rights have changed: wait no more for functions that the peer may not use any more."""
        for name in list(self._by_name):
            if not self._connection.may(CLIENT, name[0]):
                for wait in self._take(name):
                    self._connection.answer(wait.msgid, messages.NO_WORKER)
                self._service.unfollow(name, self)
                self._unwatch(name, now)

    def leave(self) -> None:
        """The connection is gone: nothing is waited for any more."""
        for name in list(self._by_name):
            self._service.unfollow(name, self)
            self._take(name)


def _size_of(name: Name) -> int:
    return WAIT_BYTES + 2 * (len(name[0]) + len(name[1]))
