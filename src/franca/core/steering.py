"""Steering: what operators and clients may do to jobs that they do not hold, queues and rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from random import Random

from msgspec.structs import replace

from franca.core.changes import QueueSetting, Totals
from franca.core.errors import NotFound, NotUnique
from franca.core.known import Known, unseen
from franca.core.ledger import LEASED, READY
from franca.core.life import CANCELLED, DEAD, DONE, Life
from franca.core.limits import Limits
from franca.core.locks import Locks
from franca.core.model import Failure, Job, JobId, Millis, Policy, Schedule, Shelf
from franca.core.reasons import NO_FAILURE
from franca.core.schedules import Schedules

TOLD_AT_ONCE = 1_000
"""Ends of jobs that are told in one turn when many end together, and remembered of those."""
FREED_AT_ONCE = 5_000


class Steering(Life):
    """Schedules, and the verbs that need no lease: cancel, kill, retry, pause, purge, flush.

    What ends many jobs at once ends them all before it returns. Those who wait for them hear of it
    turn by turn, and turn by turn their memory (`_debris`) is given up.
    """

    __slots__ = ("_debris", "_untold", "_untold_unseen", "schedules")

    def __init__(self, limits: Limits, rng: Random, totals: Totals) -> None:
        super().__init__(limits, rng, totals)
        self.schedules = Schedules()
        self._untold: deque[tuple[Job, Failure]] = deque()
        self._untold_unseen: deque[tuple[Iterator[Known], Failure]] = deque()
        self._debris: list[Job | Known] = []

    # -- schedules ------------------------------------------------------------------------

    def put_schedule(self, schedule: Schedule, now: Millis, *, fire_now: bool) -> None:
        """Make jobs by this rule from now on, in place of one with the same id."""
        self.schedules.begin(schedule, self.wall(now), fire_now=fire_now)
        self._schedules_changed[schedule.id] = schedule

    def amend_schedule(self, schedule: Schedule) -> None:
        """Something of a rule that is in force was changed, but not when it fires."""
        assert self.schedules.by_id.get(schedule.id) is schedule, "not in force"
        self.schedules.count(schedule)
        self._schedules_changed[schedule.id] = schedule

    def drop_schedule(self, schedule_id: str) -> bool:
        """Make no more jobs by this rule; False if there was none."""
        if not self.schedules.drop(schedule_id):
            return False
        self._schedules_changed[schedule_id] = None
        return True

    # -- jobs -----------------------------------------------------------------------------

    def cancel(self, job: Job, now: Millis) -> None:
        """End a live or dead job without a run; its watchers hear that it was cancelled."""
        self._check_there(job)
        self._take_out(job, now)
        self._end(job, CANCELLED, b"", Failure("Cancelled", "cancelled by an operator"), now)

    def remove(self, queue_name: str, key: str, now: Millis) -> bool:
        """End the job that has this key, wherever it lies, and what waits behind it, if any."""
        taken = self.keys.get(queue_name, key)
        if taken is None:
            return False
        failure = Failure("Cancelled", "removed by a client")
        if isinstance(taken, Known):
            self._leave_tail(taken)
            self._tell_end(unseen(taken), failure)
            return True
        heir = self._heirs.get(taken.id)
        for job in (heir, taken):
            if job is not None:
                self._take_out(job, now)
                self._end(job, CANCELLED, b"", failure, now)
        return True

    def kill(self, job: Job, now: Millis) -> None:
        """Give a live job up, into the dead set; a dead one starts its time there anew."""
        self._check_there(job)
        self._take_away(job, now)
        if not job.policy.bury:
            job.policy = _burying(job.policy)
        self._bury(job, Failure("Killed", "killed by an operator"), now)

    def retry(self, job: Job, now: Millis) -> None:
        """Make a waiting or dead job ready now, behind all others of its queue.

        Refused with `NotUnique` where another job has taken a dead one's key.
        """
        self._check_there(job)
        taken = self.keys.get(job.queue, job.key) if job.key else None
        if taken is not None and taken.id != job.id:
            raise NotUnique(f"another live job of queue {job.queue!r} has this key")
        self._take_away(job, now)
        if not self._comes_back(job, NO_FAILURE, now):
            return
        job.ended_at = 0
        self._enqueue(job, self.queue(job.queue), now)

    def _take_away(self, job: Job, now: Millis) -> None:
        """Take a job out of where it is, to live on; who held it is remembered with it."""
        was_leased = job.state is LEASED
        self._take_out(job, now)
        if was_leased:
            self._note_attempt(job, "taken away", NO_FAILURE, now)

    def _check_there(self, job: Job) -> None:
        kept_dead = job.state is DEAD and job.policy.bury and job.policy.durable
        if job.state >= DONE and not kept_dead:
            raise NotFound(f"job {job.id} has ended")

    # -- queues ---------------------------------------------------------------------------

    def pause(self, queue_name: str) -> None:
        """Give out no more jobs of this queue until it is resumed."""
        self._set_paused(queue_name, True)

    def resume(self, queue_name: str, now: Millis) -> None:
        """Give out jobs of this queue again."""
        self._set_paused(queue_name, False)
        queue = self.queues.get(queue_name)
        if queue is not None:
            self._match(queue, now)

    def _set_paused(self, queue_name: str, paused: bool) -> None:
        queue = self.queues.get(queue_name)
        if queue is not None and queue.listed and queue.paused is not paused:
            queue.paused = paused
            self._settings[queue_name] = QueueSetting(queue_name, paused)

    def purge(self, queue_name: str, now: Millis) -> int:
        """Cancel every ready job of a queue, the tail unseen; returns how many there were."""
        return self.purge_queues((queue_name,), now)

    def purge_queues(self, queue_names: Iterable[str], now: Millis) -> int:
        """The same for several queues, which costs little more than for one."""
        failure = Failure("Cancelled", "its queue was purged")
        count = 0
        emptied: dict[str, None] = {}
        for name in queue_names:
            queue = self.queues.get(name)
            if queue is not None:
                count += queue.ready
                has_tail = queue.tail > 0
                if self._end_all(queue.take_all(), failure, now) or has_tail:
                    emptied[name] = None
        if emptied:
            self._empty_tails(emptied, failure)
        self._tell_some()
        return count

    def _end_all(self, jobs: list[Job], failure: Failure, now: Millis) -> bool:
        """As `_end` for each of many ready jobs, but the newest alone are remembered.

        True if the tail must be emptied for it: it has rows of some of them.
        """
        watchers, awaited, dirty, gone = self._watchers, self._awaited, self._dirty, self._gone
        in_tail = False
        for job in jobs:
            job.state = CANCELLED
            job.ended_at = now
            self._forget(job)
            if job.id in dirty:
                pass  # what is to be done about its row is found out when it is drained
            elif job.shelf is Shelf.HELD:
                job.shelf = Shelf.NOWHERE
                gone.append(job)
            elif job.shelf is Shelf.TAIL:
                in_tail = True
            else:
                self._settle_fleeting(job)
            if job.policy.tells_end or job.id in watchers or job.id in awaited:
                self._untold.append((job, failure))
        self._ended += [job for job in jobs[-TOLD_AT_ONCE:] if job.policy.durable]
        self._debris += jobs
        return in_tail

    def _tell_some(self) -> None:
        """Tell those who wait for jobs that ended with many others, and let some of these go."""
        del self._debris[-FREED_AT_ONCE:]
        for _ in range(min(len(self._untold), TOLD_AT_ONCE)):
            self._tell_end(*self._untold.popleft())
        if self._untold_unseen:
            knowns, failure = self._untold_unseen[0]
            for known in (some := list(islice(knowns, TOLD_AT_ONCE))):
                if known.id in self._watchers:
                    self._tell_end(unseen(known), failure)
            if len(some) < TOLD_AT_ONCE:
                self._untold_unseen.popleft()

    def _tell_later(self, knowns: dict[JobId, Known], failure: Failure) -> None:
        """Jobs of the tail are gone unseen: those who wait for them are told turn by turn."""
        if knowns:
            self._untold_unseen.append((iter(knowns.values()), failure))

    def _empty_tails(self, queue_names: dict[str, None], failure: Failure) -> None:
        """Every ready job of the queues that only the store has is gone, uncommitted ones too."""
        self._emptied += queue_names
        for job in self._dirty.values():
            if job.queue in queue_names:
                if job.state is READY and job.id not in self.jobs:
                    job.state = CANCELLED
                if job.shelf is Shelf.TAIL:
                    self._spared.append(job.id)
        recent = [known for known in self._recent.values() if known.queue in queue_names]
        self._waited_for.learn_from(recent)
        for known in recent:
            if known.state is READY:
                del self._recent[known.name]
        for name in queue_names:
            self._waited_for.learn_from(self.keys.in_tail(name))
            self._tell_later(self._waited_for.take_ready(name), failure)
            self._debris += self.keys.take_tail(name)

    def remove_queue(self, queue_name: str, now: Millis) -> None:
        """Purge a queue and forget it; a later job makes it anew."""
        self.remove_queues((queue_name,), now)

    def remove_queues(self, queue_names: Collection[str], now: Millis) -> None:
        """The same for several queues, which costs little more than for one."""
        self.purge_queues(queue_names, now)
        for name in queue_names:
            queue = self.queues.get(name)
            if queue is None:
                continue
            queue.paused = False
            if queue.leased or queue.scheduled or queue.retrying or queue.dead:
                self._settings[name] = QueueSetting(name, False)
            else:
                self._unlist(queue)

    def flush(self, now: Millis) -> None:
        """Forget every job, queue, schedule and count; those who wait go on waiting."""
        self._let_all_go(Failure("Cancelled", "everything was flushed"), now)
        self._dirty.clear()
        self._ended.clear()
        self._gone.clear()
        self._emptied.clear()
        self._spared.clear()
        self._settings.clear()
        self._schedules_changed.clear()
        self._recent.clear()
        self.waiting.clear()
        self.schedules = Schedules()
        self._lease_ends.clear()
        self._new_leases.clear()
        self._start_ends.clear()
        self._crowded.clear()
        self._supplied.clear()
        self._large.clear()
        self._large_bytes = self.leased = self.leased_bytes = 0
        self._flushed = True
        totals = self.totals
        totals.pushed = totals.processed = totals.failures = 0
        for queue in list(self.queues.values()):
            queue.forget_all()
            queue.scheduled = queue.retrying = queue.dead = queue.leased = 0
            queue.listed = queue.paused = False
            self._drop_if_unused(queue)
        self._tell_some()

    def _let_all_go(self, failure: Failure, now: Millis) -> None:
        """End every job at once: nothing is left of them but those who wait for their ends."""
        jobs, waited_for = self.jobs, self._watchers | self._awaited
        for job in jobs.values():
            job.state = CANCELLED
            job.ended_at = now
            if job.policy.tells_end or (waited_for and job.id in waited_for):
                self._untold.append((job, failure))
        for session in self._holders.values():
            session.leases.clear()
        taken = self.keys.take_all()
        self._waited_for.learn_from(self._recent.values())
        self._waited_for.learn_from(taken)
        self._tell_later(self._waited_for.take_all(), failure)
        for job_id in [job_id for job_id in self._awaited if job_id not in jobs]:
            self._await_no_more(job_id)
        self._debris += jobs.values()
        self._debris += taken
        self._heirs.clear()
        self._ahead.clear()
        self.heirs_bytes = 0
        self.locks = Locks()
        self.fleeting_bytes = 0
        self.jobs.clear()
        self._by_name.clear()
        self._shared.clear()


def _burying(policy: Policy) -> Policy:
    return replace(policy, bury=True)
