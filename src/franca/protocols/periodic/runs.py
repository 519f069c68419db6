"""The jobs that one worker runs, by the handles that it calls them by.

Only the holder's word about a run counts: what is said of a run that is over changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.model import Job, JobId
from franca.protocols.budget import Share
from franca.protocols.periodic.client_commands import LEASED

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

RUNS_MAX: Final = 4_096
"""Jobs that one connection may run at once; for more it waits until one has ended."""
COPIES_FREE: Final = 8
"""Jobs given to another that each worker may have too, whatever all the others have."""


class Run(Struct, gc=False, eq=False):
    """A job that a worker was given: which of its runs, and the id of the GRAB_JOB.

    Not the job itself: it may be large, and end elsewhere. A `copy` was given to all workers, and
    another one holds it.
    """

    job_id: JobId
    attempt: int
    holder: str
    msgid: bytes
    is_copy: bool = False


class Runs:
    """The runs of one connection."""

    __slots__ = ("_broker", "_connection", "_held_max", "by_grab", "copies", "held")

    def __init__(self, connection: PeriodicConversation) -> None:
        self.copies = Share(connection.service.copies, COPIES_FREE)
        self._connection = connection
        self._broker = connection.broker
        self._held_max = RUNS_MAX
        self.clear()

    def clear(self) -> None:
        """The connection is gone, or new."""
        self.held: dict[bytes, Run] = {}
        self.by_grab: dict[bytes, bytes] = {}
        """Handles by the id of the GRAB_JOB, of which the last is meant if one was used again."""
        self.copies.clear()

    def add(self, handle: bytes, run: Run) -> None:
        """The worker was given a job."""
        held = self.held
        if len(held) >= self._held_max:
            self._forget_ended()
        if handle in held:
            self.take(handle)
        held[handle] = run
        self.by_grab[run.msgid] = handle

    def take(self, handle: bytes) -> Run | None:
        """The worker has nothing more to say about a run."""
        run = self.held.pop(handle, None)
        if run is not None:
            if run.is_copy:
                self.copies.give_back(1)
            if self.by_grab.get(run.msgid) == handle:
                del self.by_grab[run.msgid]
        return run

    def _forget_ended(self) -> None:
        """A run that is over may still be reported in time; but not any number of them."""
        for handle in [handle for handle, run in self.held.items() if self.job_of(run) is None]:
            self.take(handle)
        self._held_max = max(RUNS_MAX, 2 * len(self.held))

    def is_busy(self) -> bool:
        """Whether any of these jobs runs."""
        return any(self.job_of(run) is not None for run in self.held.values())

    def is_taken(self, handle: bytes, job_id: JobId) -> bool:
        """Whether a handle that is here is that of another job, which somebody runs."""
        other = self.held[handle]
        job = None if other.job_id == job_id else self._broker.jobs.get(other.job_id)
        return job is not None and job.state is LEASED

    def job_of(self, run: Run | None) -> Job | None:
        """The job of a run that is not over yet."""
        job = None if run is None else self._broker.jobs.get(run.job_id)
        if run is None or job is None or job.state is not LEASED:
            return None
        return job if job.attempts == run.attempt else None

    def own_job_of(self, run: Run | None) -> Job | None:
        """The same, if this worker holds it and has not only a copy."""
        is_own = run is not None and run.holder == self._connection.session.holder
        return self.job_of(run) if is_own else None
