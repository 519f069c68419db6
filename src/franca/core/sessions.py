"""Sessions: who there is, what each can run and waits to hear of, and how it leaves."""

from __future__ import annotations

from collections import deque
from itertools import islice

from franca.core.changelog import LEASED
from franca.core.dispatch import ENDED_AT_ONCE, Dispatch
from franca.core.index import READY
from franca.core.leases import KEEP, Leases
from franca.core.lifecycle import Lifecycle
from franca.core.model import EventSink, JobId, Millis, OnHangUp, Outcome, Session, SessionId
from franca.core.reasons import UNWATCHED
from franca.core.shared import Part, Shared
from franca.core.stubs import stub_of


class Sessions(Part):
    """All open sessions. Of those in `_leaving`, which are closed, much is still to be ended."""

    def __init__(
        self, shared: Shared, leases: Leases, dispatch: Dispatch, lifecycle: Lifecycle
    ) -> None:
        super().__init__(shared)
        self.open: dict[SessionId, Session] = {}
        self._last_id = 0
        self._leaving: deque[Session] = deque()
        self._leases = leases
        self._dispatch = dispatch
        self._lifecycle = lifecycle

    def open_session(
        self, holder: str, on_hang_up: OnHangUp, owner: EventSink | None, by: int = 0
    ) -> Session:
        """A new party. `holder` must be its alone, over restarts too, unless leases outlive it."""
        self._last_id += 1
        session = Session(self._last_id, holder, on_hang_up, owner, by=by)
        self.open[session.id] = session
        if on_hang_up is not KEEP:
            self._leases.holders[holder] = session
        return session

    def sessions_of(self, owner: object) -> list[Session]:
        """The open sessions for which `owner` speaks. Looks at all that are open."""
        return [session for session in self.open.values() if session.owner is owner]

    def close_session(self, session: Session, now: Millis) -> None:
        """The party is gone: it wants nothing more, and its leases end as it said they would."""
        if not session.open:
            return
        session.open = False
        del self.open[session.id]
        for demand in list(session.demands):
            self._dispatch.withdraw(demand)
        self.serve_nothing(session)
        for job_id in list(session.awaits):
            self._watches.await_no_more(job_id)
        if self._leases.holders.get(session.holder) is session:
            del self._leases.holders[session.holder]
        self._dispatch.wake_another(session)
        self._leave(session, now)

    def _leave(self, session: Session, now: Millis) -> None:
        """End some of what a closed session watched and ran; of what is left, in later ticks."""
        for job_id in list(islice(session.watches, ENDED_AT_ONCE)):
            self.unwatch(job_id, session, now)
        as_failure = session.on_hang_up is OnHangUp.FAIL
        for job in list(islice(session.leases.values(), ENDED_AT_ONCE)):
            del session.leases[job.id]
            if job.state is LEASED and job.holder == session.holder:
                self._lifecycle.lose(job, Outcome.LOST, now, as_failure=as_failure)
        if session.watches or session.leases:
            self._leaving.append(session)

    def tick(self, now: Millis) -> None:
        """Go on ending what a closed session left."""
        if self._leaving:
            self._leave(self._leaving.popleft(), now)

    # -- what a session can run ---------------------------------------------------------------

    def serve(self, session: Session, queue_name: str) -> None:
        """The session can run jobs of this queue. Saying it twice changes nothing.

        `TooMuch` if there are too many queues.
        """
        if queue_name not in session.serves:
            self._queues.check_no_new((queue_name,))
            session.serves[queue_name] = None
            self._queues.get_or_make(queue_name).servers += 1

    def unserve(self, session: Session, queue_name: str) -> None:
        """The session takes no more jobs of this queue; what it holds it keeps."""
        if queue_name in session.serves:
            del session.serves[queue_name]
            queue = self._queues.by_name[queue_name]
            queue.servers -= 1
            self._queues.drop_if_unused(queue)

    def serve_nothing(self, session: Session) -> None:
        """The session takes no more jobs of any queue."""
        for queue_name in list(session.serves):
            self.unserve(session, queue_name)

    def serves(self, queue_name: str) -> bool:
        """Whether any session can run jobs of this queue."""
        queue = self._queues.by_name.get(queue_name)
        return queue is not None and queue.servers > 0

    # -- watches --------------------------------------------------------------------------

    def watch(self, job_id: JobId, session: Session) -> None:
        """Tell `session` what becomes of the job; watching twice is hearing it twice."""
        self._watches.add(job_id, session)
        if job_id not in self._jobs:
            unwritten = self._dirty.get(job_id)
            if unwritten is None:
                self._watches.in_store.add_id(job_id)
            elif unwritten.state <= READY:
                self._watches.in_store.add(stub_of(unwritten))

    def unwatch(self, job_id: JobId, session: Session, now: Millis) -> None:
        """Tell `session` no more; a job that lives for its watchers ends with the last."""
        if not self._watches.remove(job_id, session):
            return
        job = self._jobs.get(job_id)
        if job is not None and job.policy.dies_unwatched and job.state is not LEASED:
            self._lifecycle.cancel(job, UNWATCHED, now)
