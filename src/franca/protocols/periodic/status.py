"""STATUS: every function in a line of text, counted from the same source as any other tool's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from franca.core.broker import Broker
from franca.core.model import Millis, State
from franca.core.names import raw_of
from franca.protocols.overview import LONG
from franca.protocols.periodic.speech import FuncStatus

# What would end a line or a column inside a name is written so that it cannot: one function with
# an odd name must not break the listing of all others.
_ODD: Final = ((b"%", b"%25"), (b",", b"%2C"), (b"\n", b"%0A"), (b"\r", b"%0D"))


class WaitingJobs:
    """How many jobs of each function wait for a lock, and when the next falls due, as it was
    `seen_at`. Finding it out takes a look at every job that waits.
    """

    def __init__(self, broker: Broker, now: Millis) -> None:
        self.seen_at = now
        self.locked: dict[str, int] = {}
        for job_id in broker.locks.waits_for:
            job = broker.jobs.get(job_id)
            if job is not None and job.state is State.WAITING:
                self.locked[job.queue] = self.locked.get(job.queue, 0) + 1
        self.next_at = broker.waiting.earliest()
        self.are_many = broker.waiting.size + len(broker.locks.waits_for) > LONG


class Survey:
    """The functions there may be, and the state of each when it is asked for.

    There may be very many: whoever makes a listing of it does so in slices.
    """

    def __init__(
        self, broker: Broker, funcs: Collection[str], waiting: WaitingJobs, now: Millis
    ) -> None:
        self.names = [*broker.queues]
        self.names += [func for func in funcs if func not in broker.queues]
        self._broker = broker
        self._funcs = funcs
        self._wall_s = broker.wall(now) // 1000
        self._locked = waiting.locked
        self._next_at = waiting.next_at

    def is_listed(self, name: str) -> bool:
        """Whether it is a function: a queue with no job yet is one if a worker has named it."""
        queue = self._broker.queues.get(name)
        return name in self._funcs or (queue is not None and (queue.listed or queue.servers > 0))

    def status_of(self, func: str) -> FuncStatus:
        """One function as it is now."""
        status = FuncStatus(func, 0, 0, 0, 0, self._wall_s)
        queue = self._broker.queues.get(func)
        if queue is not None:
            status.workers, status.jobs, status.running = queue.servers, queue.live, queue.leased
            status.locked = self._locked.get(func, 0)
            first = queue.first()
            if first is not None:
                status.sched_at = (first.run_at or self._broker.wall(first.ready_at)) // 1000
            elif func in self._next_at:
                status.sched_at = self._next_at[func] // 1000
        return status


def columns(status: FuncStatus, count: int) -> bytes:
    """The first `count` of: name, workers, jobs, running, locked, and the earliest time.

    With five, the time stands in the fifth: locks were not known yet.
    """
    if count == 6 and not (status.jobs or status.workers):
        # There may be very many of these.
        return b"%b,0,0,0,0,%d" % (_written(status.func), status.sched_at)
    numbers = [status.workers, status.jobs, status.running, status.locked, status.sched_at]
    if count == 5:
        del numbers[3]
    return b",".join([_written(status.func), *(b"%d" % n for n in numbers[: count - 1])])


def _written(func: str) -> bytes:
    name = raw_of(func)
    if b"," in name or b"\n" in name or b"\r" in name:
        for odd, written in _ODD:
            name = name.replace(odd, written)
    return name
