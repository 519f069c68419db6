"""Sessions: who there is, what each can run and waits to hear of, and how it leaves."""

from __future__ import annotations

from collections import deque
from itertools import islice
from random import Random

from franca.core.changes import Totals
from franca.core.known import known_of
from franca.core.ledger import LEASED, READY
from franca.core.life import CANCELLED
from franca.core.limits import Limits
from franca.core.lines import KEEP
from franca.core.model import Failure, JobId, Millis, OnHangUp, Session, SessionId
from franca.core.reasons import LOST
from franca.core.steering import Steering

ENDED_AT_ONCE = 1_000
"""Leases, watches and demands that end in one tick; the next one goes on."""


class Sessions(Steering):
    """The parties, and their watches. `_leaving` has those that are gone with much to be ended."""

    __slots__ = ("_leaving", "_open", "_sessions")

    def __init__(self, limits: Limits, rng: Random, totals: Totals) -> None:
        super().__init__(limits, rng, totals)
        self._sessions = 0
        self._open: dict[SessionId, Session] = {}
        self._leaving: deque[Session] = deque()

    # -- sessions -------------------------------------------------------------------------

    def open_session(self, holder: str, on_hang_up: OnHangUp, owner: object) -> Session:
        """A new party. `holder` must be its alone, over restarts too, unless leases outlive it."""
        self._sessions += 1
        session = self._open[self._sessions] = Session(self._sessions, holder, on_hang_up, owner)
        if on_hang_up is not KEEP:
            self._holders[holder] = session
        return session

    def sessions_of(self, owner: object) -> list[Session]:
        """The open sessions for which `owner` speaks. Looks at all that are open."""
        return [session for session in self._open.values() if session.owner is owner]

    def close_session(self, session: Session, now: Millis) -> None:
        """The party is gone: it wants nothing more, and its leases end as it said they would."""
        if not session.open:
            return
        session.open = False
        del self._open[session.id]
        for demand in list(session.demands):
            self.withdraw(demand)
        self.serve_nothing(session)
        for job_id in list(session.awaits):
            self._await_no_more(job_id)
        if self._holders.get(session.holder) is session:
            del self._holders[session.holder]
        if session.woken:
            self._wake_enough(self._heard(session))
        if session.watches or session.leases:
            self._leave(session, now)

    def _leave(self, session: Session, now: Millis) -> None:
        """End some of what a closed session watched and ran; of what is left, in later ticks."""
        for job_id in list(islice(session.watches, ENDED_AT_ONCE)):
            self.unwatch(job_id, session, now)
        as_failure = session.on_hang_up is OnHangUp.FAIL
        for job in list(islice(session.leases.values(), ENDED_AT_ONCE)):
            del session.leases[job.id]
            if job.state is LEASED and job.holder == session.holder:
                self._lose(job, LOST, now, as_failure=as_failure)
        if session.watches or session.leases:
            self._leaving.append(session)

    def serve(self, session: Session, queue_name: str) -> None:
        """The session can run jobs of this queue. Saying it twice changes nothing.

        `TooMuch` if there are too many queues.
        """
        if queue_name not in session.serves:
            self._check_no_new((queue_name,))
            session.serves[queue_name] = None
            self._line_of(queue_name).servers += 1

    def unserve(self, session: Session, queue_name: str) -> None:
        """The session takes no more jobs of this queue; what it holds it keeps."""
        if queue_name in session.serves:
            del session.serves[queue_name]
            queue = self.queues[queue_name]
            queue.servers -= 1
            self._drop_if_unused(queue)

    def serve_nothing(self, session: Session) -> None:
        """The session takes no more jobs of any queue."""
        for queue_name in list(session.serves):
            self.unserve(session, queue_name)

    def serves(self, queue_name: str) -> bool:
        """Whether any session can run jobs of this queue."""
        queue = self.queues.get(queue_name)
        return queue is not None and queue.servers > 0

    # -- watches --------------------------------------------------------------------------

    def watch(self, job_id: JobId, session: Session) -> None:
        """Tell `session` what becomes of the job; watching twice is hearing it twice."""
        self._add_watch(job_id, session)
        if job_id not in self.jobs:
            unwritten = self._dirty.get(job_id)
            if unwritten is None:
                self._waited_for.note_unseen(job_id)
            elif unwritten.state <= READY:
                self._waited_for.note(known_of(unwritten))

    def _add_watch(self, job_id: JobId, session: Session) -> None:
        watchers = self._watchers.setdefault(job_id, {})
        times = watchers.get(session, 0)
        if not times:
            self.watches += 1
        watchers[session] = times + 1
        session.watches[job_id] = None

    def unwatch(self, job_id: JobId, session: Session, now: Millis) -> None:
        """Tell `session` no more; a job that lives for its watchers ends with the last."""
        watchers = self._watchers.get(job_id)
        if watchers is None or watchers.pop(session, None) is None:
            return
        self.watches -= 1
        session.watches.pop(job_id, None)
        if watchers:
            return
        del self._watchers[job_id]
        self._waited_for.drop(job_id)
        job = self.jobs.get(job_id)
        if job is not None and job.policy.dies_unwatched and job.state is not LEASED:
            self._take_out(job, now)
            self._end(job, CANCELLED, b"", Failure("Unwatched", "nobody waits for it"), now)

    def watchers_of(self, job_id: JobId) -> int:
        """How many watches there are on a job."""
        return sum(self._watchers.get(job_id, {}).values())
