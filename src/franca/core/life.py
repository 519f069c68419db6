"""The life of a job: held, settled, failed, lost, given up; and who hears of it.

What a holder says is a fact; what follows is decided by the policy in the job. Every verb of a
holder is fenced: it names itself, and a holder that is no longer one changes nothing.
"""

from __future__ import annotations

from random import Random

from franca.core.changes import Totals
from franca.core.errors import NotHeld
from franca.core.events import Finished, LeaseLost, Progressed
from franca.core.ledger import LEASED, READY, WAITING
from franca.core.limits import Limits
from franca.core.lines import LEASE_TICK_MS, Lines
from franca.core.locks import Locks
from franca.core.model import (
    NEVER,
    Attempt,
    Failure,
    Job,
    JobId,
    Millis,
    Session,
    State,
)
from franca.core.retry import delay_ms

DONE = State.DONE
DEAD = State.DEAD
CANCELLED = State.CANCELLED
NO_FAILURE = Failure()
EXPIRED = "expired"
LOST = "lost"


class Life(Lines):
    """Leases and their ends, watches, and the way out of every place a job can be in."""

    def __init__(self, limits: Limits, rng: Random, totals: Totals) -> None:
        super().__init__(limits, totals)
        self.wall_ahead_ms = 0
        self.locks = Locks()
        self._rng = rng
        self._holders: dict[str, Session] = {}

    def wall(self, now: Millis) -> Millis:
        """The time on the wall at `now`: what `at` and cron mean, and what people may set."""
        return now + self.wall_ahead_ms

    # -- leases ---------------------------------------------------------------------------

    def _unlease(self, job: Job) -> None:
        queue = self.queues[job.queue]
        queue.leased -= 1
        if job.timed:
            job.timed = False
            self._lease_ends.discard(job, job.until // LEASE_TICK_MS)
        if job.bound:
            job.bound = False
            session = self._holders.get(job.holder)
            if session is not None:
                session.leases.pop(job.id, None)
        if self.locks.of_job:
            self.locks.let_go(job.id)

    def _check_held(self, job: Job, holder: str) -> None:
        if job.state is not LEASED or job.holder != holder:
            raise NotHeld(f"job {job.id} is not held by {holder!r}")

    def finish(self, job: Job, holder: str, result: bytes, now: Millis) -> None:
        """Settle a leased job as done. `NotHeld`, and nothing changed, if another holds it."""
        if job.state is not LEASED or job.holder != holder:
            raise NotHeld(f"job {job.id} is not held by {holder!r}")
        self._unlease(job)
        self.totals.processed += 1
        self._end(job, DONE, result, NO_FAILURE, now)

    def finish_late(self, job: Job, holder: str, result: bytes, now: Millis) -> None:
        """Settle a job whose lease is over, while nobody else has been given it since."""
        if job.holder != holder or job.state not in (READY, WAITING):
            raise NotHeld(f"job {job.id} is not held by {holder!r}")
        self._take_out(job, now)
        self._end(job, DONE, result, NO_FAILURE, now)

    def fail(self, job: Job, holder: str, failure: Failure, now: Millis) -> None:
        """A run failed: another try later, or the end, as the job's policy says."""
        self._check_held(job, holder)
        self._unlease(job)
        self.totals.processed += 1
        self.totals.failures += 1
        self._failed(job, failure, "failed", now)

    def release(self, job: Job, holder: str, run_at: Millis, now: Millis) -> None:
        """Hand a leased job back, to be run at `run_at` or at once. Not a failure."""
        self._check_held(job, holder)
        self._unlease(job)
        self._note_attempt(job, "released", NO_FAILURE, now)
        queue = self.queues[job.queue]
        if run_at > self.wall(now):
            self._forget_run(job)
            job.run_at = run_at
            self._park(job, queue)
        else:
            self._offer(job, queue, now)

    def give_back(self, job: Job, holder: str, now: Millis) -> None:
        """Undo a lease whose grant never reached its holder: as if it had not been made."""
        self._check_held(job, holder)
        self._unlease(job)
        job.attempts -= 1
        job.holder = ""
        self._offer(job, self.queues[job.queue], now)

    def extend(self, job: Job, holder: str, until: Millis) -> None:
        """Let a lease end later; it never ends earlier by this."""
        self._check_held(job, holder)
        if job.until and until > job.until:
            if job.timed:
                self._lease_ends.discard(job, job.until // LEASE_TICK_MS)
                self._lease_ends.add(job, until)
            job.until = until
            self._touch(job)

    def report(self, job: Job, holder: str, kind: str, data: bytes) -> None:
        """Pass the holder's word on to all who watch; the last one is kept with the job."""
        self._check_held(job, holder)
        job.progress = data
        for session in self._watchers.get(job.id, ()):
            self.events.append((session, Progressed(job, kind, data)))

    def _lose(self, job: Job, how: str, now: Millis, *, as_failure: bool) -> None:
        """A lease ended without a word from its holder."""
        self._unlease(job)
        job.losses += 1
        policy = job.policy
        own_limit = policy.losses
        spent = job.losses >= self.limits.losses_max or 0 <= own_limit < job.losses
        if policy.never_given_up:
            spent = False
        failure = Failure("LeaseExpired" if how == EXPIRED else "WorkerLost", _REASONS[how])
        if policy.dies_unwatched and job.id not in self._watchers:
            self._end(job, CANCELLED, b"", failure, now)
        elif spent:
            self.totals.processed += 1
            self.totals.failures += 1
            if as_failure or policy.loss_is_failure:
                self._count_failure(job, now)
            self._note_attempt(job, how, failure, now)
            self._bury(job, failure, now)
        elif as_failure or policy.loss_is_failure:
            self.totals.processed += 1
            self.totals.failures += 1
            self._failed(job, failure, how, now)
        else:
            self._note_attempt(job, how, failure, now)
            self._offer(job, self.queues[job.queue], now)

    def _failed(self, job: Job, failure: Failure, how: str, now: Millis) -> None:
        self._count_failure(job, now)
        self._note_attempt(job, how, failure, now)
        policy = job.policy
        if policy.fails_watched and job.id in self._watchers:
            self._end(job, CANCELLED, b"", failure, now)
        elif policy.failures < 0 or job.failures <= policy.failures:
            self._forget_run(job)
            job.run_at = self.wall(now) + delay_ms(policy, job.failures, self._rng)
            self._park(job, self.queues[job.queue])
        else:
            self._bury(job, failure, now)

    def _count_failure(self, job: Job, now: Millis) -> None:
        job.failures += 1
        if not job.failed_at:
            job.failed_at = now

    def _forget_run(self, job: Job) -> None:
        job.until = NEVER
        job.progress = b""

    def _note_attempt(self, job: Job, how: str, failure: Failure, now: Millis) -> None:
        story = job.story
        if story is None:
            story = job.story = []
        elif story:
            story[-1].trace = []
            del story[: max(0, len(story) - self.limits.story_attempts + 1)]
        story.append(
            Attempt(job.holder, job.started_at, now, how, failure.kind, failure.text, failure.trace)
        )

    # -- ends -----------------------------------------------------------------------------

    def _bury(self, job: Job, failure: Failure, now: Millis) -> None:
        """Give a job up: into the dead set if its policy keeps such jobs, else gone."""
        if job.policy.bury and job.policy.durable:
            job.run_at = now
            self.queues[job.queue].dead += 1
        self._end(job, DEAD, b"", failure, now)

    def _end(self, job: Job, state: State, result: bytes, failure: Failure, now: Millis) -> None:
        job.state = state
        job.ended_at = now
        job.result = result
        job.until = NEVER
        self._forget(job)
        if job.policy.durable:
            self._dirty[job.id] = job
            if state is not DEAD:
                self._ended.append(job)
        if self._watchers and job.id in self._watchers:
            self._tell_end(job, failure)
        if self._awaited:
            self._await_no_more(job.id)

    def _tell_end(self, job: Job, failure: Failure) -> None:
        """Tell those who watch a job that it has ended, once for each watch."""
        for session, times in self._watchers.pop(job.id, {}).items():
            session.watches.pop(job.id, None)
            event = Finished(job, job.state, job.result, failure)
            self.events.extend((session, event) for _ in range(times))

    # -- watches --------------------------------------------------------------------------

    def watch(self, job_id: JobId, session: Session) -> None:
        """Tell `session` what becomes of the job; watching twice is hearing its end twice."""
        watchers = self._watchers.setdefault(job_id, {})
        watchers[session] = watchers.get(session, 0) + 1
        session.watches[job_id] = None

    def unwatch(self, job_id: JobId, session: Session, now: Millis) -> None:
        """Tell `session` no more; a job that lives for its watchers ends with the last."""
        watchers = self._watchers.get(job_id)
        if watchers is None or watchers.pop(session, None) is None:
            return
        session.watches.pop(job_id, None)
        if watchers:
            return
        del self._watchers[job_id]
        job = self.jobs.get(job_id)
        if job is not None and job.policy.dies_unwatched and job.state is not LEASED:
            self._take_out(job, now)
            self._end(job, CANCELLED, b"", Failure("Unwatched", "nobody waits for it"), now)

    def watchers_of(self, job_id: JobId) -> int:
        """How many watches there are on a job."""
        return sum(self._watchers.get(job_id, {}).values())

    # -- taking a job out of wherever it is -------------------------------------------------

    def _take_out(self, job: Job, now: Millis) -> None:
        """Remove a live or dead job from the place where it waits; its end is the caller's."""
        queue = self.queue(job.queue)
        held = job.id in self.jobs
        if job.state is LEASED:
            session = self._holders.get(job.holder)
            self._unlease(job)
            if session is not None:
                self.events.append((session, LeaseLost(job)))
        elif job.state is READY:
            if held:
                queue.remove(job)
            else:
                self._shrink_tail(queue)
        elif job.state is WAITING:
            self._count_waiting(queue, job, -1)
            if held:
                self.waiting.remove(job)
            else:
                self._shrink_waiting()
        elif job.state is DEAD:
            queue.dead -= 1
        if not held:
            self._unknow(job)


_REASONS = {
    EXPIRED: "its lease expired before a worker reported back",
    LOST: "its worker went away without a word",
}
