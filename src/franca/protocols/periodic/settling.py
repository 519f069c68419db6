"""What workers say of the jobs they were given: what became of them, and which locks they need.

A worker speaks of a job by a handle, and only the holder's word about a run counts: a word about a
run that is over changes nothing and is confirmed all the same.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.core.errors import NotHeld, TooMuch
from franca.core.model import Failure, Job, JobId, Millis
from franca.protocols.bodies import BYTES
from franca.protocols.periodic.asking import DATA_KIND, LEASED, Asking
from franca.protocols.periodic.jobs import (
    AT_MAX_S,
    assignment,
    is_in_json,
    later,
    name_apart,
    workload_of,
)
from franca.protocols.periodic.room import Share
from franca.protocols.periodic.shared import BULK_BYTES, SHARED_BYTES
from franca.protocols.periodic.talk import NotNow

RUNS_MAX: Final = 4_096
"""Jobs that one connection may run at once; for more it waits until one has ended."""
OVERHEARD_FREE: Final = 8
"""Jobs given to another that each worker may have too, whatever all the others have."""
LOCKS_MAX: Final = 64
"""Locks that one run may hold."""
LOCK_AGAIN_MS: Final = 60_000
"""When a job is run again that could not have its lock, if that lock is not open earlier."""
FAILED_RUN: Final = Failure("WorkFail", "the worker reported a failure")
TOO_LARGE: Final = Failure("TooLarge", "its result was larger than results may be")
RUNS_AT_ONCE: Final = 64
"""Runs looked at in about the time that any other message takes."""
FEEDING_BYTES: Final = 8 * 1024
"""Of smaller jobs a turn's share is not much, whoever is given them."""
WRITE_AGAIN_MS: Final = 50
"""When a worker asks again for whom too much was to be written: in the next tick."""
NOBODYS: Final = ("", "")
"""The job that a message is about which waits for nothing but the next tick."""
_SPARE_IDS: Final = 1_000


class Run(Struct, gc=False, eq=False):
    """A job in this worker's hands: since which of its runs, and by which GRAB_JOB.

    Not the job itself: it may be large, and end elsewhere.
    """

    job_id: JobId
    attempt: int
    holder: str
    msgid: bytes
    is_overheard: bool = False


class Settling(Asking):
    """The verbs of workers that have jobs."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self._held: dict[bytes, Run] = {}
        self._held_max = RUNS_MAX
        self._overheard = Share(self.service.overheard, OVERHEARD_FREE)
        self._is_fed = False
        """Whether it was given as much as it may be before it has taken some of it."""
        self._by_id: dict[bytes, bytes] | None = None
        """Handles by the id of the GRAB_JOB, from when one is first asked for."""

    # -- runs -------------------------------------------------------------------------------------

    def _hand(self, job: Job, msgid: bytes, *, for_all: bool, is_overheard: bool = False) -> bool:
        """Give the worker a job, unless it is too large for its dialect."""
        if self.is_undecided:
            self.decide_by_job(is_in_json(job))
        workload = job.body
        if job.media != BYTES:
            workload = self.service.workload_for_all(job) if for_all else workload_of(job)
        shown = assignment(job, workload, self.speech, self.broker)
        size = len(shown.workload)
        if size > self.speech.workload_max:
            return False
        other = self._held.get(shown.handle)
        if other is not None and other.job_id != job.id and self._is_running(other.job_id):
            name_apart(shown, self.speech)
        self._hold(shown.handle, Run(job.id, job.attempts, job.holder, msgid, is_overheard))
        if size < SHARED_BYTES or (size < BULK_BYTES and not for_all):
            self.link.write_after_commit(self.speech.assign(msgid, shown))
        else:
            shared = self.service.share(shown.workload)
            front, *rest = self.speech.assign_in_pieces(msgid, shown, shared)
            self.link.write_after_commit(front)
            self.link.write_bulk(*rest)
        if size >= FEEDING_BYTES:
            self._feed()
        return True

    def _feed(self) -> None:
        """A job was written that is not short."""
        link = self.link
        if self.speech.writes_anew:
            self.service.written += len(link.out[-1])
        if link.is_full():
            self._is_fed = True
            self.spent += self._share

    def _must_not_write(self) -> bool:
        """Whether a job would have to be written anew, and that was done enough for now."""
        return self.speech.writes_anew and not self.service.may_write()

    def _check_writing(self) -> None:
        """`NotNow` if nothing should be written for this worker before the next tick."""
        if self._must_not_write() and not self._is_gone:
            raise NotNow(NOBODYS)

    def _hold(self, handle: bytes, run: Run) -> None:
        """The worker has a job."""
        held = self._held
        if len(held) >= self._held_max:
            self._forget_runs()
        if handle in held:
            self._let_go(handle)
        held[handle] = run
        if self._by_id is not None:
            self._by_id[run.msgid] = handle
            if len(self._by_id) > 2 * len(held) + _SPARE_IDS:
                self._by_id = None

    def _let_go(self, handle: bytes) -> Run | None:
        """The worker has no more to say about a run."""
        run = self._held.pop(handle, None)
        if run is not None and run.is_overheard:
            self._overheard.give_back(1)
        return run

    def _forget_runs(self) -> None:
        """A run that is over may still be reported in time; but not any number of them."""
        for handle in [handle for handle, run in self._held.items() if self._job_of(run) is None]:
            self._let_go(handle)
        self._held_max = max(RUNS_MAX, 2 * len(self._held))

    def is_busy(self) -> bool:
        """Whether the worker runs anything."""
        return any(self._job_of(run) is not None for run in self._held.values())

    def _is_running(self, job_id: JobId) -> bool:
        """Whether anybody runs this job."""
        job = self.broker.jobs.get(job_id)
        return job is not None and job.state is LEASED

    def _job_of(self, run: Run) -> Job | None:
        """The job of a run that is not over yet."""
        job = self.broker.jobs.get(run.job_id)
        goes_on = job is not None and job.state is LEASED and job.attempts == run.attempt
        return job if goes_on else None

    def _own_job_of(self, run: Run | None) -> Job | None:
        """The same, if the run is this worker's and not one that it only overheard."""
        if run is None or run.holder != self.session.holder:
            return None
        return self._job_of(run)

    def _has_room(self, now: Millis) -> None:
        """One of its runs is over."""

    def _given_by(self, msgid: bytes) -> Run | None:
        """Take out the run that the GRAB_JOB of this id has brought."""
        if self._by_id is None:
            self._by_id = {run.msgid: handle for handle, run in self._held.items()}
            self.spent += len(self._held) // RUNS_AT_ONCE
        handle = self._by_id.pop(msgid, b"")
        run = self._held.get(handle)
        if run is None or run.msgid != msgid:
            return None
        return self._let_go(handle)

    def _part(self, now: Millis) -> None:
        self._held.clear()
        self._by_id = None
        self._overheard.clear()
        super()._part(now)

    # -- settling ---------------------------------------------------------------------------------

    def on_work_done(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """WORK_DONE: done, with a result for those who wait."""
        handle, result = self.speech.read_handle(args)
        run = self._let_go(handle)
        if run is not None:
            self._finish(run, result, now)
            self._has_room(now)
        self.confirm(msgid)

    def _finish(self, run: Run, result: bytes, now: Millis) -> None:
        job = self.broker.jobs.get(run.job_id)
        if job is None or job.attempts != run.attempt:
            return
        if job.state is LEASED:
            most = self.service.limits.body_bytes_max
            if len(result) > most:
                self.link.note(f"a result of {len(result)} bytes, at most {most}")
                if self.broker.watchers_of(job.id):
                    self.broker.fail(job, run.holder, TOO_LARGE, now)
                    return
                result = b""
            self.broker.finish(job, run.holder, result, now)
        else:
            # Its time ran out, but nobody was given it since: the work counts.
            try:
                self.broker.finish_late(job, run.holder, result, now)
            except NotHeld:
                pass

    def on_work_fail(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """WORK_FAIL: run again in a second; what comes of it is for who waits to hear."""
        job = self._own_job_of(self._let_go(self.speech.read_handle(args)[0]))
        if job is not None:
            self.broker.fail(job, self.session.holder, FAILED_RUN, now)
            self._has_room(now)
        self.confirm(msgid)

    def on_sched_later(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """SCHED_LATER: run again after a while, its counter moved."""
        handle, delay_s, step = self.speech.read_later(args)
        job = self._own_job_of(self._let_go(handle))
        if job is not None:
            delay_s = max(0, min(delay_s, AT_MAX_S))
            at = min(self.broker.wall(now) + 1000 * delay_s, 1000 * AT_MAX_S)
            self.broker.release(job, self.session.holder, at, now, later(job, step))
            self._has_room(now)
        self.confirm(msgid)

    def on_work_data(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """WORK_DATA: a piece for those who follow the job."""
        handle, data = self.speech.read_handle(args)
        run = self._held.get(handle)
        job = None if run is None else self._job_of(run)
        if run is not None and job is not None:
            name = (job.queue, job.key)
            if self.service.may_tell(name):
                self.broker.report(job, run.holder, DATA_KIND, data, keep=False)
            elif not self._is_gone:
                raise NotNow(name)
        self.confirm(msgid)

    # -- locks ------------------------------------------------------------------------------------

    def on_acquire(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """ACQUIRE: whether the run may hold a lock; if not, it is over and comes again."""
        lock, most, handle = self.binary.read_lock(args)
        self.service.intake.check_name(lock)
        # A worker that only overheard the job has no run that could hold a lock, or end for it.
        job = self._own_job_of(self._held.get(handle))
        is_held = job is not None and self._lock(job, lock, most, now)
        if not is_held:
            self._let_go(handle)
            self._has_room(now)
        self.say_after_commit(self.binary.acquired(msgid, is_held))

    def _lock(self, job: Job, lock: str, most: int, now: Millis) -> bool:
        """Whether a run may hold a lock. If not, it is over."""
        holder = self.session.holder
        locks = self.broker.locks.of_job.get(job.id, {})
        try:
            if len(locks) >= LOCKS_MAX and lock not in locks:
                raise TooMuch(f"no more than {LOCKS_MAX} locks of one run")
            return self.broker.lock(job, holder, lock, most, now)
        except TooMuch as refusal:
            # A worker that has no lock drops the job without a word, whatever the reason is.
            self.service.refused += 1
            self.link.note(str(refusal))
            again_at = self.broker.wall(now) + LOCK_AGAIN_MS
            self.broker.release(job, holder, again_at, now)
            return False

    def on_release(self, msgid: bytes, args: bytes, now: Millis) -> None:
        """RELEASE: the lock is for the next."""
        lock, handle = self.binary.read_unlock(args)
        job = self._own_job_of(self._held.get(handle))
        if job is not None:
            self.broker.unlock(job, self.session.holder, lock, now)
        self.confirm(msgid)
