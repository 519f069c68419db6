"""Who hears what of which job: its end, what its holder reports, and that it was begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from franca.core.events import Begun, Event, Finished, Progressed
from franca.core.limits import Limits
from franca.core.model import Failure, Job, JobId, Session, State
from franca.core.multimaps import discard
from franca.core.stubs import Stub

READY = State.READY
LEASED = State.LEASED


class WatchedInStore:
    """Watched jobs that only the store has: who empties a backlog unseen must tell of these.

    Of some only the id is known, until a stub of them is come across: whoever watches a job names
    its id, and an index of all stubs by id would cost as much as those by key and by name. Ready
    ones are found by their queue, too: they may all go at once.
    """

    def __init__(self) -> None:
        self._stubs: dict[JobId, Stub] = {}
        self._ready: dict[str, dict[JobId, Stub]] = {}
        self._ids_only: dict[JobId, None] = {}

    def __iter__(self) -> Iterator[JobId]:
        yield from self._stubs
        yield from self._ids_only

    def __bool__(self) -> bool:
        return bool(self._stubs or self._ids_only)

    def add(self, stub: Stub) -> None:
        """A job that is watched goes into the backlog, or is watched there."""
        self.drop(stub.id)
        self._stubs[stub.id] = stub
        if stub.state is READY:
            self._ready.setdefault(stub.queue, {})[stub.id] = stub

    def add_id(self, job_id: JobId) -> None:
        """The same of a job that nothing but its id is known of here."""
        if job_id not in self._stubs:
            self._ids_only[job_id] = None

    def learn_from(self, found: Iterable[Job | Stub]) -> None:
        """Look among these for jobs that only their ids were known of."""
        if self._ids_only:
            for stub in found:
                if stub.id in self._ids_only and isinstance(stub, Stub):
                    self.add(stub)

    def drop(self, job_id: JobId) -> None:
        """A job has left the backlog, or is watched no more."""
        stub = self._stubs.pop(job_id, None)
        if stub is None:
            self._ids_only.pop(job_id, None)
        elif stub.state is READY:
            discard(self._ready, stub.queue, job_id)

    def take_ready(self, queue: str) -> dict[JobId, Stub]:
        """Forget the ready jobs of one queue of which more than the id is known; returns them."""
        taken = self._ready.pop(queue, {})
        for job_id in taken:
            del self._stubs[job_id]
        return taken

    def take_all(self) -> dict[JobId, Stub]:
        """Forget all of them; returns those of which more than the id is known."""
        taken, self._stubs = self._stubs, {}
        self._ready.clear()
        self._ids_only.clear()
        return taken


class Watches:
    """Sessions by the jobs that they watch, with how often each does; `count` is without that.

    `begins` has the sessions that want to hear that a job is begun. `listeners` hear the end of
    every job of their origin whose policy says so, watched or not.
    """

    def __init__(self, limits: Limits, events: list[tuple[Session, Event]]) -> None:
        self.by_job: dict[JobId, dict[Session, int]] = {}
        self.count = 0
        self.in_store = WatchedInStore()
        self.begins: dict[JobId, Session] = {}
        self.listeners: dict[str, Session] = {}
        self._limits = limits
        self._events = events

    def add(self, job_id: JobId, session: Session) -> None:
        """Let a session hear what becomes of a job, once more if it does already."""
        watchers = self.by_job.get(job_id)
        if watchers is None:
            self.by_job[job_id] = {session: 1}
            self.count += 1
        else:
            self.count += session not in watchers
            watchers[session] = watchers.get(session, 0) + 1
        session.watches[job_id] = None

    def remove(self, job_id: JobId, session: Session) -> bool:
        """Let a session hear no more of a job; True if it was the last one that did."""
        watchers = self.by_job.get(job_id)
        if watchers is None or watchers.pop(session, None) is None:
            return False
        self.count -= 1
        session.watches.pop(job_id, None)
        if watchers:
            return False
        del self.by_job[job_id]
        self.in_store.drop(job_id)
        return True

    def of(self, job_id: JobId) -> int:
        """How many watches there are on a job."""
        watchers = self.by_job.get(job_id)
        return sum(watchers.values()) if watchers else 0

    def hand_over(self, old_id: JobId, new_id: JobId) -> None:
        """Those who watched a job watch the one that takes its place."""
        watchers = self.by_job.pop(old_id, None)
        if watchers:
            mine = self.by_job.setdefault(new_id, {})
            self.count -= len(watchers.keys() & mine.keys())
            for session, times in watchers.items():
                mine[session] = mine.get(session, 0) + times
                session.watches.pop(old_id, None)
                session.watches[new_id] = None

    def tell_report(self, event: Progressed) -> None:
        """Tell all who watch a job what its holder reports."""
        for session, times in self.by_job.get(event.job.id, {}).items():
            if session.open:
                self._events += [(session, event)] * times

    def wants_end(self, job: Job) -> bool:
        """Whether anybody is to be told when a job ends."""
        return job.policy.tells_end or job.id in self.by_job or job.id in self.begins

    def tell_end(self, job: Job, failure: Failure, result: bytes = b"") -> None:
        """Tell all who wait for a job that it has ended, once for each watch."""
        events = self._events
        event = Finished(job, job.state, result, failure)
        if job.policy.tells_end and job.origin in self.listeners:
            events.append((self.listeners[job.origin], event))
        if self.begins and (awaiting := self.await_no_more(job.id)) is not None:
            events.append((awaiting, event))
        watchers = self.by_job.pop(job.id, None)
        if watchers is None:
            return
        self.count -= len(watchers)
        for session, times in watchers.items():
            session.watches.pop(job.id, None)
            if session.open and times == 1:
                events.append((session, event))
            elif session.open:
                events += [(session, event)] * times

    def await_begin(self, job: Job, session: Session) -> bool:
        """Tell `session`, once, that somebody runs the job, or that it ended before anybody did.

        Unlike of a watch nothing is remembered of it in the backlog, so that nobody hears of a job
        that is purged there. False if too many are awaited already.
        """
        if job.state is LEASED:
            self._events.append((session, Begun(job)))
            return True
        self.await_no_more(job.id)  # whoever asks last is told
        if len(self.begins) >= self._limits.begins_awaited:
            return False
        self.begins[job.id] = session
        session.awaits[job.id] = None
        return True

    def await_no_more(self, job_id: JobId) -> Session | None:
        """Nobody waits for a job to be begun any more; returns whoever did."""
        session = self.begins.pop(job_id, None)
        if session is not None:
            del session.awaits[job_id]
        return session

    def tell_begun(self, job: Job) -> None:
        """Tell whoever waits for it that somebody runs a job."""
        awaiting = self.await_no_more(job.id)
        if awaiting is not None:
            self._events.append((awaiting, Begun(job)))
