"""The life of a job: held, settled, failed, lost, given up; and who hears of it.

What a holder says is a fact; what follows is decided by the policy in the job. Every verb of a
holder is fenced: it names itself, and a holder that is no longer one changes nothing.
"""

from __future__ import annotations

from random import Random

from franca.core.changes import Totals
from franca.core.errors import NotHeld, TooMuch
from franca.core.events import Finished, LeaseLost, Progressed
from franca.core.heirs import Heirs
from franca.core.ledger import LEASED, READY, WAITING
from franca.core.limits import Limits
from franca.core.lines import LEASE_TICK_MS
from franca.core.model import (
    HISTORY_RESULT_BYTES,
    NEVER,
    Failure,
    Job,
    Millis,
    Session,
    State,
    bare_weight,
)
from franca.core.reasons import EXPIRED, FAILURES, NO_FAILURE, RELEASED, REPLACED
from franca.core.retry import delay_ms

DONE = State.DONE
DEAD = State.DEAD
CANCELLED = State.CANCELLED
LOCK_AGAIN_MS = 60_000
"""A job that waits for a lock tries again after this, in case that it was forgotten."""
FLEETING_JOB_BYTES = 1024
"""What a job in memory costs besides its body, roughly."""
SMALL_RESULT_BYTES = 1024
"""Results up to this are not counted: `limits.pending_jobs` bounds how many wait for the disk."""


class Life(Heirs):
    """Leases and their ends, watches, and the way out of every place a job can be in.

    `listeners` hear the end of every job of their origin whose policy says so, watched or not.
    """

    __slots__ = (
        "_holders",
        "_rng",
        "fleeting_bytes",
        "listeners",
    )

    def __init__(self, limits: Limits, rng: Random, totals: Totals) -> None:
        super().__init__(limits, totals)
        self.fleeting_bytes = 0
        self.listeners: dict[str, Session] = {}
        self._rng = rng
        self._holders: dict[str, Session] = {}

    # -- leases ---------------------------------------------------------------------------

    def _unlease(self, job: Job, now: Millis) -> None:
        queue = self.queues[job.queue]
        queue.leased -= 1
        self.leased -= 1
        self.leased_bytes -= self._leased_weight(job)
        if self._shared:
            self._runs_no_more(job)
        if job.timed:
            job.timed = False
            self._lease_ends.discard(job, job.until // LEASE_TICK_MS)
        if job.bound:
            job.bound = False
            session = self._holders.get(job.holder)
            if session is not None:
                session.leases.pop(job.id, None)
        if self.locks.of_job:
            for name in self.locks.let_go(job.id):
                self._pass_lock_on(name, now)

    def _check_held(self, job: Job, holder: str) -> None:
        if job.state is not LEASED or job.holder != holder:
            raise NotHeld(f"job {job.id} is not held by {holder!r}")

    def finish(self, job: Job, holder: str, result: bytes, now: Millis) -> None:
        """Settle a leased job as done. `NotHeld`, and nothing changed, if another holds it."""
        if job.state is not LEASED or job.holder != holder:
            raise NotHeld(f"job {job.id} is not held by {holder!r}")
        self._unlease(job, now)
        self.totals.processed += 1
        self._end(job, DONE, result, NO_FAILURE, now)

    def finish_late(self, job: Job, holder: str, result: bytes, now: Millis) -> None:
        """Settle a job whose lease is over, while nobody else has been given it since.

        Not one that has left memory meanwhile: what is known of it here may be long untrue.
        """
        is_here = self.jobs.get(job.id) is job
        if not is_here or job.holder != holder or job.state not in (READY, WAITING):
            raise NotHeld(f"job {job.id} is not held by {holder!r}")
        self._take_out(job, now)
        self._end(job, DONE, result, NO_FAILURE, now)

    def fail(self, job: Job, holder: str, failure: Failure, now: Millis) -> None:
        """A run failed: another try later, or the end, as the job's policy says."""
        self._check_held(job, holder)
        self._unlease(job, now)
        self.totals.processed += 1
        self.totals.failures += 1
        self._failed(job, failure, "failed", now)

    def release(
        self, job: Job, holder: str, run_at: Millis, now: Millis, extra: bytes | None = None
    ) -> None:
        """Hand a leased job back, to be run at `run_at` or at once. Not a failure.

        But the end of a job whose watchers wait for this run alone. `extra` is what the
        submitter's protocol wants to remember of it from now on.
        """
        self._check_held(job, holder)
        self._unlease(job, now)
        if extra is not None:
            job.extra = extra
        self._note_attempt(job, "released", NO_FAILURE, now)
        if job.policy.fails_watched and job.id in self._watchers:
            self._end(job, CANCELLED, b"", RELEASED, now)
        else:
            self._put_back(job, run_at, now)

    def _put_back(self, job: Job, run_at: Millis, now: Millis) -> None:
        if not self._comes_back(job, NO_FAILURE, now):
            return
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
        self._unlease(job, now)
        job.attempts -= 1
        job.holder = ""
        if not self._comes_back(job, NO_FAILURE, now):
            return
        self._offer(job, self.queues[job.queue], now)

    def lock(self, job: Job, holder: str, name: str, most: int, now: Millis) -> bool:
        """Let a run hold a lock that up to `most` may hold, until it is over or unlocks it.

        False if the lock is taken: the run is over, and the job is run again when the lock is
        open, ahead of all who ask for it later.
        """
        self._check_held(job, holder)
        if self.locks.count >= self.limits.locks_max:
            raise TooMuch("too many locks are held")
        if self.locks.acquire(name, most, job.id):
            return True
        self._unlease(job, now)
        self._note_attempt(job, "locked out", NO_FAILURE, now)
        self._put_back(job, self.wall(now) + LOCK_AGAIN_MS, now)
        # One that had to leave memory, or for which the line is too long, tries again in time.
        waits = job.state is WAITING and job.id in self.jobs
        if waits and len(self.locks.waits_for) < self.limits.locks_max:
            self.locks.wait(name, job.id)
        return False

    def unlock(self, job: Job, holder: str, name: str, now: Millis) -> None:
        """A run holds a lock no more. Nothing happens if it did not."""
        self._check_held(job, holder)
        if self.locks.release(name, job.id):
            self._pass_lock_on(name, now)

    def _pass_lock_on(self, name: str, now: Millis) -> None:
        """A lock is open to one more: whoever waited longest for it is run again."""
        job_id = self.locks.first_waiting(name)
        if job_id is not None:
            job = self.jobs[job_id]
            self._take_out(job, now)
            self._enqueue(job, self.queue(job.queue), now)

    def extend(self, job: Job, holder: str, until: Millis) -> None:
        """Let a lease end later; it never ends earlier by this."""
        self._check_held(job, holder)
        if job.until and until > job.until:
            if job.timed:
                self._lease_ends.discard(job, job.until // LEASE_TICK_MS)
                self._lease_ends.add(job, until)
            job.until = until
            self._touch(job)

    def report(self, job: Job, holder: str, kind: str, data: bytes, *, keep: bool = True) -> None:
        """Pass the holder's word on to all who watch; the last one to `keep` stays with the job."""
        self._check_held(job, holder)
        if keep:
            job.progress = data
        event = Progressed(job, kind, data)
        for session, times in self._watchers.get(job.id, {}).items():
            if session.open:
                self.events += [(session, event)] * times

    def _lose(self, job: Job, how: str, now: Millis, *, as_failure: bool) -> None:
        """A lease ended without a word from its holder."""
        self._unlease(job, now)
        job.losses += 1
        policy = job.policy
        # The server's limit holds only where the submitter's protocol says nothing.
        limit = policy.losses if policy.losses >= 0 else self.limits.losses_max - 1
        spent = job.losses > limit and not policy.never_given_up
        failure = FAILURES[how]
        if policy.loss_is_failure or (policy.expiry_is_failure and how == EXPIRED):
            as_failure = True
        if self._ends_unwatched(job, failure, now):
            return
        if spent:
            self.totals.processed += 1
            self.totals.failures += 1
            if as_failure:
                self._count_failure(job, now)
            self._note_attempt(job, how, failure, now)
            self._bury(job, failure, now)
        elif as_failure:
            self.totals.processed += 1
            self.totals.failures += 1
            self._failed(job, failure, how, now)
        else:
            self._note_attempt(job, how, failure, now)
            if not self._comes_back(job, failure, now):
                return
            job.progress = b""
            self._offer(job, self.queues[job.queue], now)

    def _failed(self, job: Job, failure: Failure, how: str, now: Millis) -> None:
        self._count_failure(job, now)
        self._note_attempt(job, how, failure, now)
        policy = job.policy
        if policy.fails_watched and job.id in self._watchers:
            self._end(job, CANCELLED, b"", failure, now)
        elif not failure.final and (policy.failures < 0 or job.failures <= policy.failures):
            if not self._comes_back(job, failure, now):
                return
            self._forget_run(job)
            job.run_at = self.wall(now) + delay_ms(policy, job.failures, self._rng)
            self._park(job, self.queues[job.queue])
        else:
            self._bury(job, failure, now)

    def _comes_back(self, job: Job, failure: Failure, now: Millis) -> bool:
        """Whether a job whose run is over is run again: asked by all that would put it back.

        Else it has ended: nobody waits for it, or a newer one does in its place.
        """
        if self._ends_unwatched(job, failure, now):
            return False
        return not (self._heirs and self._gives_way(job, now))

    def _ends_unwatched(self, job: Job, failure: Failure, now: Millis) -> bool:
        """End a job that lives for those who watch it if nobody does."""
        if not job.policy.dies_unwatched or job.id in self._watchers:
            return False
        self._end(job, CANCELLED, b"", failure, now)
        return True

    def _count_failure(self, job: Job, now: Millis) -> None:
        job.failures += 1
        if not job.failed_at:
            job.failed_at = now

    def _forget_run(self, job: Job) -> None:
        job.until = NEVER
        job.progress = b""

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
        if self._large:
            self._drop_large(job)
        if job.policy.durable:
            self._dirty[job.id] = job
            if state is not DEAD:
                self._ended.append(job)
                if len(result) > SMALL_RESULT_BYTES:
                    # Whoever waits for it is told all of it; only the history is still to come.
                    job.result = result[:HISTORY_RESULT_BYTES]
                    self.pending_bytes += len(job.result)
        else:
            self._settle_fleeting(job)
        if job.policy.tells_end or job.id in self._watchers or job.id in self._awaited:
            self._tell_end(job, failure, result)
        if self._heirs and job.id in self._heirs:
            self._succeed(job.id, now)

    def _settle_fleeting(self, job: Job) -> None:
        """A job that only memory has is gone, or the store has it from now on."""
        self.fleeting_bytes -= bare_weight(job) + FLEETING_JOB_BYTES

    def _tell_end(self, job: Job, failure: Failure, result: bytes = b"") -> None:
        """Tell all who wait for a job that it has ended, once for each watch."""
        event = Finished(job, job.state, result, failure)
        if job.policy.tells_end and job.origin in self.listeners:
            self.events.append((self.listeners[job.origin], event))
        awaiting = self._await_no_more(job.id) if self._awaited else None
        if awaiting is not None:
            self.events.append((awaiting, event))
        watchers = self._watchers.pop(job.id, None)
        if watchers is None:
            return
        self.watches -= len(watchers)
        for session, times in watchers.items():
            session.watches.pop(job.id, None)
            if session.open:
                told = (session, event)
                self.events += (told,) if times == 1 else [told] * times

    # -- what takes its place ------------------------------------------------------------

    def _gives_way(self, job: Job, now: Millis) -> bool:
        """End a job that would be run again if a newer one waits behind it."""
        heir = self._heirs.get(job.id)
        if heir is None:
            return False
        self._hand_over(self._watchers.pop(job.id, {}), job.id, heir.id)
        self._end(job, CANCELLED, b"", REPLACED, now)
        return True

    # -- taking a job out of wherever it is -------------------------------------------------

    def _take_out(self, job: Job, now: Millis) -> None:
        """Remove a live or dead job from the place where it waits; its end is the caller's."""
        queue = self.queue(job.queue)
        held = job.id in self.jobs
        if job.state is LEASED:
            session = self._holders.get(job.holder)
            self._unlease(job, now)
            if session is not None:
                self.events.append((session, LeaseLost(job)))
        elif job.state is READY:
            if held:
                queue.remove(job)
            else:
                self._shrink_tail(queue, job.priority)
        elif job.state is WAITING:
            self._count_waiting(queue, job, -1)
            if self.locks.waits_for:
                self.locks.wait_no_more(job.id)
            if job.id in self._ahead:
                self._waits_behind_none(job)
            elif held:
                self.waiting.remove(job)
            else:
                self._shrink_waiting()
        elif job.state is DEAD:
            queue.dead -= 1
        if not held:
            self._unknow(job)
