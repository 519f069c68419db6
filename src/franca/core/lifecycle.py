"""What follows when a run is over: the job is run again, dead, or has ended.

What a holder says is a fact; what follows is decided by the policy in the job. Every verb of a
holder is fenced: it names itself, and a holder that is no longer one changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

from franca.core import model
from franca.core.backlog import Backlog
from franca.core.changelog import DEAD, LEASED
from franca.core.dispatch import DEMAND_TICK_MS, Dispatch
from franca.core.errors import NotHeld, TooMuch
from franca.core.events import LeaseLost
from franca.core.index import READY, WAITING
from franca.core.leases import Leases
from franca.core.model import KEPT_MS, NEVER, Failure, Job, JobId, Millis, Outcome, State
from franca.core.queues import Queue
from franca.core.reasons import FAILURES, NO_FAILURE, RELEASED, REPLACED, note_attempt
from franca.core.retry import delay_ms
from franca.core.shared import Part, Shared
from franca.core.successors import Successors
from franca.core.timers import Buckets

DONE, CANCELLED = State.DONE, State.CANCELLED
LOCK_AGAIN_MS = 60_000
"""A job that waits for a lock tries again after this, in case that it was forgotten."""
SMALL_RESULT_BYTES = 1024
"""Results up to this are not counted: `limits.pending_jobs` bounds how many wait for the disk."""


class Lifecycle(Part):
    """The way of a job from one place to the next, and out of every place that it can be in.

    `start_ends` has jobs that must be begun by a certain time. The wall clock is `wall_ahead_ms`
    ahead of `now`. `crossings` counts jobs that were done, by their worker's protocol and origin.
    """

    def __init__(
        self, shared: Shared, backlog: Backlog, leases: Leases, dispatch: Dispatch, rng: Random
    ) -> None:
        super().__init__(shared)
        self.successors = Successors(shared.limits, leases)
        self.wall_ahead_ms = 0
        self.start_ends: Buckets[JobId] = Buckets(DEMAND_TICK_MS)
        self.crossings: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._rng = rng
        self._made_by_rules = shared.schedules.by_job
        self._backlog = backlog
        self._large = backlog.large
        self._large_jobs = backlog.large.jobs
        self._succeeded = self.successors.by_job
        self._watched = shared.watches.by_job
        self._begins = shared.watches.begins
        self._leases = leases
        self._dispatch = dispatch

    def wall(self, now: Millis) -> Millis:
        """The time on the wall at `now`: what `at` and cron mean, and what people may set."""
        return now + self.wall_ahead_ms

    # -- a job begins to wait ---------------------------------------------------------------

    def settle_in(self, job: Job, queue: Queue, now: Millis) -> None:
        """Let a job wait for its time, or for whoever runs it."""
        if job.run_at and job.run_at > now + self.wall_ahead_ms:
            if job.policy.keeps_place:
                self._dispatch.take_place(job)
            self._backlog.park(job, queue)
        else:
            self._dispatch.enqueue(job, queue, now)
            if job.start_by and job.state is READY:
                self.start_ends.add(job.id, job.start_by)

    def put_behind(self, successor: Job, job: Job) -> None:
        """Keep a newer job with the same key until this one's run is over."""
        successor.state = WAITING
        self._queues.listed(successor.queue).count_waiting(successor, +1)
        self._index.hold(successor)
        self._index.keys.put(job)
        self._changelog.touch(successor)
        if len(successor.body) > self._limits.large_body_bytes:
            self._backlog.large.add(successor)
        self.successors.add(successor, job)

    # -- what a holder says -----------------------------------------------------------------

    def finish(self, job: Job, holder: str, result: bytes, now: Millis) -> None:
        """Settle a leased job as done. `NotHeld`, and nothing changed, if another holds it."""
        if job.state is not LEASED or job.holder != holder:
            raise NotHeld(f"job {job.id} is not held by {holder!r}")
        self._leases.end(job).done += 1
        if self._locks.of_job:
            self._release_locks(job, now)
        self._totals.processed += 1
        self.crossings[job.by][job.origin] += 1
        self.end(job, DONE, result, NO_FAILURE, now)

    def finish_late(self, job: Job, holder: str, result: bytes, now: Millis) -> None:
        """Settle a job whose lease is over, while nobody else has been given it since.

        Not one that has left memory meanwhile: what is known of it here may be long untrue.
        """
        is_here = self._index.jobs.get(job.id) is job
        if not is_here or job.holder != holder or job.state not in (READY, WAITING):
            raise NotHeld(f"job {job.id} is not held by {holder!r}")
        self.take_out(job, now)
        self._by_name[job.queue].done += 1
        self.crossings[job.by][job.origin] += 1
        self.end(job, DONE, result, NO_FAILURE, now)

    def fail(
        self, job: Job, holder: str, failure: Failure, now: Millis, priority: int | None = None
    ) -> None:
        """A run failed: another try later, or the end, as the job's policy says.

        Given a `priority`, the job has it from now on, here and in other verbs.
        """
        self._end_run(job, holder, now)
        if priority is not None:
            job.priority = priority
        self._failed(job, failure, Outcome.FAILED, now)

    def release(
        self,
        job: Job,
        holder: str,
        run_at: Millis,
        now: Millis,
        extra: bytes | None = None,
        priority: int | None = None,
    ) -> None:
        """Hand a leased job back, to be run at `run_at` or at once. Not a failure.

        But the end of a job whose watchers wait for this run alone. `extra` is what the
        submitter's protocol wants to remember of it from now on.
        """
        self._end_run(job, holder, now)
        if extra is not None:
            job.extra = extra
        if priority is not None:
            job.priority = priority
        self._note_attempt(job, Outcome.RELEASED, NO_FAILURE, now)
        if job.policy.no_retry_if_watched and job.id in self._watches.by_job:
            self.end(job, CANCELLED, b"", RELEASED, now)
        else:
            self._put_back(job, run_at, now)

    def give_back(self, job: Job, holder: str, now: Millis) -> None:
        """Undo a lease whose grant never reached its holder: as if it had not been made."""
        self._end_run(job, holder, now)
        job.attempts -= 1
        job.holder = ""
        job.by = 0
        self._put_back(job, NEVER, now)

    def lock(self, job: Job, holder: str, name: str, most: int, now: Millis) -> bool:
        """Let a run hold a lock that up to `most` may hold, until it is over or unlocks it.

        False if the lock is taken: the run is over, and the job is run again when the lock is
        open, ahead of all who ask for it later.
        """
        self._leases.check(job, holder)
        locks = self._locks
        if locks.count >= self._limits.locks_max:
            raise TooMuch("too many locks are held")
        if locks.acquire(name, most, job.id):
            return True
        self._end_run(job, holder, now)
        self._note_attempt(job, Outcome.LOCKED_OUT, NO_FAILURE, now)
        self._put_back(job, self.wall(now) + LOCK_AGAIN_MS, now)
        # One that had to leave memory, or for which the line is too long, tries again in time.
        waits = job.state is WAITING and job.id in self._index.jobs
        if waits and len(locks.waits_for) < self._limits.locks_max:
            locks.wait(name, job.id)
        return False

    def unlock(self, job: Job, holder: str, name: str, now: Millis) -> None:
        """A run holds a lock no more. Nothing happens if it did not."""
        self._leases.check(job, holder)
        if self._locks.release(name, job.id):
            self._pass_lock_on(name, now)

    def _end_run(self, job: Job, holder: str, now: Millis) -> None:
        """The holder lets go of a job, and of the locks that it took for it."""
        self._leases.check(job, holder)
        self._leases.end(job)
        if self._locks.of_job:
            self._release_locks(job, now)

    def _release_locks(self, job: Job, now: Millis) -> None:
        for name in self._locks.let_go(job.id):
            self._pass_lock_on(name, now)

    def _pass_lock_on(self, name: str, now: Millis) -> None:
        """A lock is open to one more: whoever waited longest for it is run again."""
        job_id = self._locks.first_waiting(name)
        if job_id is not None:
            job = self._index.jobs[job_id]
            self.take_out(job, now)
            self._dispatch.enqueue(job, self._queues.listed(job.queue), now)

    # -- a run is over, and its job is not ----------------------------------------------------

    def lose(self, job: Job, outcome: Outcome, now: Millis, *, as_failure: bool) -> None:
        """A lease ended without a word from its holder."""
        self._end_run(job, job.holder, now)
        job.losses += 1
        job.expiries += outcome is Outcome.EXPIRED
        policy = job.policy
        # The server's limit holds only where the submitter's protocol says nothing.
        limit = policy.max_losses if policy.max_losses >= 0 else self._limits.losses_max - 1
        spent = job.losses > limit and not policy.never_given_up
        failure = FAILURES[outcome]
        if policy.loss_is_failure or (policy.expiry_is_failure and outcome is Outcome.EXPIRED):
            as_failure = True
        if self._ends_unwatched(job, failure, now):
            return
        if as_failure and not spent:
            self._failed(job, failure, outcome, now)
            return
        self._note_attempt(job, outcome, failure, now)
        if spent:
            self._count_failed_run(job, now)
            if as_failure:
                self._count_failure(job, now)
            self.bury(job, failure, now)
        elif self.comes_back(job, failure, now):
            job.reported = None
            self._dispatch.offer(job, self._by_name[job.queue], now)

    def _failed(self, job: Job, failure: Failure, outcome: Outcome, now: Millis) -> None:
        self._count_failed_run(job, now)
        self._count_failure(job, now)
        self._note_attempt(job, outcome, failure, now)
        policy = job.policy
        if policy.no_retry_if_watched and job.id in self._watches.by_job:
            self.end(job, CANCELLED, b"", failure, now)
        elif failure.final or 0 <= policy.max_failures < job.failures:
            self.bury(job, failure, now)
        elif self.comes_back(job, failure, now):
            self._park(job, self.wall(now) + delay_ms(policy, job.failures, self._rng))

    def _put_back(self, job: Job, run_at: Millis, now: Millis) -> None:
        if self.comes_back(job, NO_FAILURE, now):
            if run_at > self.wall(now):
                self._park(job, run_at)
            else:
                job.reported = None
                self._dispatch.offer(job, self._by_name[job.queue], now)

    def _park(self, job: Job, run_at: Millis) -> None:
        job.until = NEVER
        job.reported = None
        job.run_at = run_at
        self._backlog.park(job, self._by_name[job.queue])

    def comes_back(self, job: Job, failure: Failure, now: Millis) -> bool:
        """Whether a job whose run is over is run again: asked by all that would put it back.

        Else it has ended: nobody waits for it, or a newer one does in its place.
        """
        if self._ends_unwatched(job, failure, now):
            return False
        return not (self.successors.by_job and self.gives_way(job, now))

    def _ends_unwatched(self, job: Job, failure: Failure, now: Millis) -> bool:
        """End a job that lives for those who watch it if nobody does."""
        if not job.policy.dies_unwatched or job.id in self._watches.by_job:
            return False
        self.end(job, CANCELLED, b"", failure, now)
        return True

    def gives_way(self, job: Job, now: Millis) -> bool:
        """End a job that would be run again if a newer one waits behind it."""
        successor = self.successors.by_job.get(job.id)
        if successor is None:
            return False
        self._watches.hand_over(job.id, successor.id)
        self.end(job, CANCELLED, b"", REPLACED, now)
        return True

    def _count_failed_run(self, job: Job, now: Millis) -> None:
        self._totals.processed += 1
        self._totals.failures += 1
        self._by_name[job.queue].failed += 1
        if job.policy.durable:
            self._changelog.failed.append((job.queue, job.kind, now))

    def _count_failure(self, job: Job, now: Millis) -> None:
        job.failures += 1
        job.failed_at = job.failed_at or now

    def _note_attempt(self, job: Job, outcome: Outcome, failure: Failure, now: Millis) -> None:
        size = note_attempt(job, outcome, failure, now, self._limits)
        self._runs_over += (job.attempt_log or ())[-1:]
        if job.policy.durable:
            self._changelog.pending_bytes += size

    def take_away(self, job: Job, now: Millis) -> None:
        """Take a job out of where it is, to live on; who held it is remembered with it."""
        was_leased = job.state is LEASED
        self.take_out(job, now)
        if was_leased:
            self._note_attempt(job, Outcome.TAKEN_AWAY, NO_FAILURE, now)

    # -- ends -----------------------------------------------------------------------------

    def bury(self, job: Job, failure: Failure, now: Millis) -> None:
        """Give a job up: into the dead set if its policy keeps such jobs, else gone."""
        queue = self._by_name[job.queue]
        queue.died += 1
        if job.policy.bury and job.policy.durable:
            job.run_at = now
            queue.dead += 1
            if job.policy.keep_dead:
                job.run_at += KEPT_MS
                self._backlog.kept_dead += 1
            self._changelog.died.append((job.queue, job.kind, now))
        self.end(job, DEAD, b"", failure, now)

    def cancel(self, job: Job, failure: Failure, now: Millis) -> None:
        """End a job without a run, wherever it is."""
        self.take_out(job, now)
        self.end(job, CANCELLED, b"", failure, now)

    def end(self, job: Job, state: State, result: bytes, failure: Failure, now: Millis) -> None:
        """A job has ended, as every job does here but for those that end with many others."""
        job_id, policy = job.id, job.policy
        job.state = state
        job.ended_at = now
        if result:  # to set a field takes longer than to look
            job.result = result
        if state is DEAD:  # others are gone
            job.until = NEVER
        self._index.forget(job)
        if self._large_jobs:
            self._large.drop(job)
        if policy.durable:
            self._dirty[job_id] = job
            if state is not DEAD:
                self._changelog.ended.append(job)
                if len(result) > SMALL_RESULT_BYTES:
                    # Whoever waits for it is told all of it; only the history is still to come.
                    job.result = result[: model.HISTORY_RESULT_BYTES]
                    self._changelog.pending_bytes += len(job.result)
        else:
            self._volatile.remove(job)
        if policy.tells_end or job_id in self._watched or job_id in self._begins:
            self._watches.tell_end(job, failure, result)
        if self._made_by_rules and job_id in self._made_by_rules:
            self._schedules.note_end(job)
        if self._succeeded and job_id in self._succeeded:
            self._succeed(job_id, now)

    def _succeed(self, job_id: JobId, now: Millis) -> None:
        """A run is over and its job gone: what waited behind it takes its place."""
        successor = self.successors.by_job[job_id]
        self.successors.remove(successor)
        queue = self._queues.listed(successor.queue)
        queue.count_waiting(successor, -1)
        self._index.hold(successor)
        self.settle_in(successor, queue, now)

    def take_out(self, job: Job, now: Millis) -> None:
        """Remove a live or dead job from the place where it waits; its end is the caller's."""
        queue = self._queues.listed(job.queue)
        held = job.id in self._index.jobs
        if job.state is LEASED:
            session = self._leases.holders.get(job.holder)
            self._end_run(job, job.holder, now)
            if session is not None:
                self._events.append((session, LeaseLost(job)))
        elif job.state is WAITING:
            queue.count_waiting(job, -1)
            if self._locks.waits_for:
                self._locks.wait_no_more(job.id)
            if job.id in self.successors.ahead:
                self.successors.remove(job)
            elif held:
                self._backlog.waiting.remove(job)
        elif job.state is READY and held:
            queue.remove(job)
        elif job.state is DEAD:
            queue.dead -= 1
            if job.policy.keep_dead:
                job.run_at -= KEPT_MS
                self._backlog.kept_dead -= 1
        if not held:
            self._backlog.remove(job, queue)
            self._backlog.drop_stub(job)

    def clear(self) -> None:
        """There are no jobs any more."""
        self.successors.clear()
        self.start_ends.clear()
