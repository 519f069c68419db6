"""The broker: what may happen to a job, and in which order. Pure; the only one that changes jobs.

Three rules. A verb's answer is its return value; events are for those who did not just ask.
A refusal changes nothing: verbs check first and act after. Nothing is called back: consequences
are appended to `events` and to the ledger, and the engine takes them from there.

`now` never goes backwards and measures spans: leases, demands. Moments that people name (a job's
`run_at`, schedules) are compared with the wall clock, which may jump: `wall(now)`.

It is built up in steps, one file each (`docs/ARCHITECTURE.md` has their order), and here: what is
submitted, and what time brings.
"""

from __future__ import annotations

from random import Random

from franca.core.changes import Totals
from franca.core.errors import NotUnique, Refused, StoreFull, TooMuch
from franca.core.events import LeaseLost, Unmet
from franca.core.known import Known
from franca.core.ledger import LEASED, READY, WAITING
from franca.core.life import CANCELLED, DEAD, FLEETING_JOB_BYTES
from franca.core.limits import Limits
from franca.core.model import (
    NEVER,
    Failure,
    Job,
    JobId,
    JobQuery,
    Millis,
    NewJob,
    OnConflict,
    Session,
)
from franca.core.reasons import EXPIRED, REPLACED
from franca.core.sessions import ENDED_AT_ONCE, Sessions
from franca.core.tail import Snapshot

PRUNE_EVERY_MS = 60_000
PRUNE_JOBS = 500
NAMES_AT_ONCE = 20_000
"""Queues that are looked at in one tick for demands that end."""
FIRED_AT_ONCE = 200
"""Rules that make their jobs in one tick."""
TIME_MAX: Millis = 1 << 53
"""No moment is later than this: so much is a whole number everywhere, in JSON too."""
SMALL_BODY_BYTES = 16 * 1024
LARGE_SUBMIT_BYTES = 256 * 1024
"""Before a larger job is taken it is asked whether the disk has room for it."""
DISK_NEARLY_FULL = "the disk is nearly full; no new jobs are taken until there is room"
TOO_MANY_KEYS = "too many unique jobs are stored; try again when some are done"
TOO_MANY_WAITED_FOR = "too many jobs are waited for; try again when some are done"


class Broker(Sessions):
    """Submits and time, on top of all that may happen to a job."""

    __slots__ = (
        "_prune_at",
        "fleeting_at",
        "leases_expired",
        "refusing_new",
    )

    def __init__(self, limits: Limits, rng: Random, totals: Totals | None = None) -> None:
        super().__init__(limits, rng, totals or Totals())
        self.refusing_new = False
        self.fleeting_at: Millis = NEVER
        self.leases_expired = 0
        self._prune_at: Millis = 0

    def restore_at(self, snapshot: Snapshot, now: Millis) -> None:
        """Take over what the store remembers, leases with the time that they have left.

        A lease that ended with its session is over: the job is ready again at its old place. A
        lease counted by a clock that has since been turned back is cut to its own length.
        """
        self.restore(snapshot)
        heirs = _heirs_among(snapshot.held)
        inheriting = {heir.id for heir in heirs.values()}
        # Ready ones last: only when the others are in their places is it known where tails begin.
        for job in sorted(snapshot.held, key=lambda job: job.state is READY and not job.away):
            if job.id in inheriting:
                continue
            queue = self.queue(job.queue)
            self._hold(job)
            if job.id in heirs:
                self._inherit(heirs[job.id], job)
                if job.state is not LEASED or job.bound:
                    job.bound = False
                    self._gives_way(job, now)
                    continue
            if job.state is LEASED and not job.bound:
                queue.leased += 1
                self.leased += 1
                self.leased_bytes += self._leased_weight(job)
                if job.until:
                    job.until = min(job.until, now + max(job.until - job.started_at, 0))
                    self._new_leases.append(job)
            elif job.state is WAITING:
                self._count_waiting(queue, job, +1)
                if self.waiting.belongs_to_tail(job):
                    self.waiting.tail += 1
                    self._to_tail(job)
                else:
                    self.waiting.add(job)
            elif job.state is READY and not job.away and not queue.belongs_to_tail(job):
                queue.add(job)
            else:
                job.bound = False
                self._runs_no_more(job)
                self._offer(job, queue, now)
        for schedule in snapshot.schedules:
            if self.schedules.restore(schedule, self.wall(now)):
                self._schedules_changed[schedule.id] = schedule
        for queue in self.queues.values():
            self._want_ready(queue)

    # -- submit ---------------------------------------------------------------------------

    def submit(self, new: NewJob, now: Millis, watcher: Session | None = None) -> Job:
        """Take in a job, or find the one it stands for; `watcher` hears what becomes of it.

        May be refused as `errors.py` says. One that replaces a running job waits behind it.
        """
        if watcher is not None and self.watches >= self.limits.watches_max:
            raise TooMuch(TOO_MANY_WAITED_FOR)
        if new.once and (new.name in self._by_name or new.name in self._recent):
            said_before = self._said_before(new, now)
            if said_before is not None:
                return said_before
        taken = None
        if new.key:
            taken = self.keys.get(new.queue, new.key)
            if taken is None:
                if self.keys.bytes >= self.keys_most:
                    raise TooMuch(TOO_MANY_KEYS)
            elif new.on_conflict is not OnConflict.REPLACE:
                return self._join(taken, new, watcher)
        running: Job | None = None
        if isinstance(taken, Job) and taken.state is LEASED:
            running = taken
            taken = self._heirs.get(taken.id)
            self._check_room_behind(taken, new)
        is_full = self.refusing_new or self.queues_bytes >= self.queues_most
        size = len(new.body) + len(new.extra)
        if size >= LARGE_SUBMIT_BYTES or new.run_at or is_full or self.room_bytes <= 0:
            self._take_room(new, size, now)
        elif new.policy.durable:
            self.pending_bytes += size
        else:
            self._take_room_in_memory(new, size, now)
        totals = self.totals
        totals.last_job_id += 1
        totals.pushed += 1
        job = self._make(new, totals.last_job_id, now)
        if taken is not None:
            self._replace(taken, job.id, now)
        if watcher is not None:
            self._add_watch(job.id, watcher)
        queue = self.queues.get(new.queue)
        queue = queue if queue is not None and queue.listed else self.queue(new.queue)
        if running is not None:
            self._inherit(job, running)
        elif new.run_at or new.start_by:
            self._settle_in(job, queue, now)
        else:
            self._enqueue(job, queue, now)
        return job

    def _take_room(self, new: NewJob, size: int, now: Millis) -> None:
        """Refuse a job that there is no room for; else its room is taken."""
        if new.run_at and not 0 <= new.run_at <= TIME_MAX:
            raise TooMuch("no moment is as late as that")
        if self.queues_bytes >= self.queues_most:
            self._check_no_new((new.queue,))
        if not new.policy.durable:
            self._take_room_in_memory(new, size, now)
            return
        if self.refusing_new or 2 * (self.pending_bytes + size) > self.room_bytes:
            raise StoreFull(DISK_NEARLY_FULL)
        self.pending_bytes += size

    def _take_room_in_memory(self, new: NewJob, size: int, now: Millis) -> None:
        """A job that only memory has needs its share of it."""
        # As `bare_weight`, without a call: every job that is waited for comes here.
        size += len(new.name) + len(new.kind) + len(new.key) + FLEETING_JOB_BYTES
        size += self.fleeting_bytes
        most = self.limits.fleeting_bytes
        if size > most and self.fleeting_bytes:
            self._check_small(new, size, most)
        self.fleeting_at = now
        self.fleeting_bytes = size

    def _check_small(self, new: NewJob, size: int, most: int) -> None:
        """Take a small job also if there is a little too much: a large one may have come first."""
        if len(new.body) > SMALL_BODY_BYTES or size > most + most // 8:
            raise TooMuch(TOO_MANY_WAITED_FOR)

    def _said_before(self, new: NewJob, now: Millis) -> Job | None:
        """The unrun job that this submit repeats, because its answer was lost on the way."""
        for job in self.last_named(new.name):
            if (
                job.attempts == 0
                and job.state in (READY, WAITING)
                and (job.queue, job.kind, job.digest) == (new.queue, new.kind, new.digest)
                and job.run_at == new.run_at
                and (job.away or len(job.body) == len(new.body))
            ):
                return job
        known = self._recent.get(new.name)
        if (
            known is not None
            and (known.queue, known.kind, known.digest) == (new.queue, new.kind, new.digest)
            and known.run_at == new.run_at
        ):
            return self._make(new, known.id, now)
        return None

    def _join(self, taken: Job | Known, new: NewJob, watcher: Session | None) -> Job:
        if new.on_conflict is OnConflict.REFUSE:
            raise NotUnique(f"a live job of queue {new.queue!r} has this key")
        if isinstance(taken, Known):
            job = self._make(new, taken.id, taken.run_at)
            job.name = taken.name
            if watcher is not None:
                self._waited_for.note(taken)
        else:
            job = taken
            if new.policy.durable and not job.policy.durable:
                # A submit that nobody waits for must outlive those who do.
                self._settle_fleeting(job)
                job.policy = new.policy
                if job.state is LEASED:
                    self.leased_bytes += self._leased_weight(job)
                if job.state is not READY and len(job.body) > self.limits.large_body_bytes:
                    self._keep_large(job)
                self._touch(job)
        if watcher is not None:
            self._add_watch(job.id, watcher)
        return job

    def _replace(self, taken: Job | Known, new_id: JobId, now: Millis) -> None:
        """Make room for a job with the same key; who watched the old one watches the new one."""
        self._hand_over(self._watchers.pop(taken.id, {}), taken.id, new_id)
        if isinstance(taken, Known):
            self._leave_tail(taken)
        else:
            self._take_out(taken, now)
            self._end(taken, CANCELLED, b"", REPLACED, now)

    # -- time -----------------------------------------------------------------------------

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Let the oldest dead jobs go: too many, or too old."""
        surplus = sum(q.dead for q in self.queues.values()) - self.limits.dead_jobs
        for job in jobs:
            if surplus <= 0 and job.run_at > now - self.limits.dead_ms:
                break
            self._take_out(job, now)
            job.state = CANCELLED
            self._dirty[job.id] = job
            surplus -= 1
        else:
            # All that came had to go: there may be more.
            if jobs:
                self._prune_at = now

    def tick(self, now: Millis) -> None:
        """Everything whose time has come."""
        self._put_on_the_clock()
        self._share_names()
        if self._untold or self._untold_unseen or self._debris:
            self._tell_some()
        if self._leaving:
            self._leave(self._leaving.popleft(), now)
        self._end_demands(now)
        for job in self._lease_ends.due(now, ENDED_AT_ONCE):
            job.timed = False
            if job.state is LEASED:
                self.leases_expired += 1
                # Said first: the same session may be given the job again at once.
                session = self._holders.get(job.holder)
                if session is not None:
                    self.events.append((session, LeaseLost(job)))
                self._lose(job, EXPIRED, now, as_failure=False)
        for job_id in self._start_ends.due(now, ENDED_AT_ONCE):
            late = self.jobs.get(job_id)
            if late is not None and late.state is READY:
                self._take_out(late, now)
                failure = Failure("NotStarted", "no worker took it in time")
                self._end(late, CANCELLED, b"", failure, now)
        self._make_due(now)
        if self._crowded:
            self._match_crowded(now)
        if self._large_bytes > self.limits.large_bytes:
            self._lighten()
        for queue in self.idle.look(self.limits, now):
            self._unlist(queue)
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_EVERY_MS
            if any(queue.dead for queue in self.queues.values()):
                self.recall(JobQuery(states=(DEAD,), limit=PRUNE_JOBS, by_time=True), self)
        if not self.refusing_new and len(self._dirty) < self.limits.pending_jobs:
            self._fire(now)

    def _fire(self, now: Millis) -> None:
        """Let the rules whose moment has come make their jobs."""
        wall = self.wall(now)
        for schedule in self.schedules.bring_back(wall, FIRED_AT_ONCE):
            self._schedules_changed[schedule.id] = schedule
        for schedule in self.schedules.due(wall, FIRED_AT_ONCE):
            try:
                self.submit(schedule.job, now)
            except StoreFull:
                self.schedules.give_back(schedule, wall)
            except Refused:
                pass  # its last job still has the key: this run is left out, not the rule
            self._schedules_changed[schedule.id] = schedule if schedule.runs_left else None

    def _end_demands(self, now: Millis) -> None:
        """Tell those whose time to wait is over, until enough queues were looked at for them."""
        left = NAMES_AT_ONCE
        for demand in self._demand_ends.due(now, ENDED_AT_ONCE):
            if left < 0:
                demand.bucket = self._demand_ends.add(demand, demand.until)
                continue
            left -= len(demand.queues)
            demand.bucket = -1
            self._close_demand(demand)
            self.events.append((demand.session, Unmet(demand)))

    def _make_due(self, now: Millis) -> None:
        waiting = self.waiting
        for job in waiting.due(self.wall(now), self.limits.due_jobs):
            queue = self.queue(job.queue)
            self._count_waiting(queue, job, -1)
            if self.locks.waits_for:
                self.locks.wait_no_more(job.id)
            self._enqueue(job, queue, now)
        if waiting.tail and waiting.size <= self.limits.supply_jobs:
            self._want_waiting()

    def next_wake(self) -> Millis | None:
        """The moment by which `tick` should be called again, or None."""
        self._put_on_the_clock()
        spans = (
            self._demand_ends.next_at(),
            self._lease_ends.next_at(),
            self._start_ends.next_at(),
        )
        moments = [self.waiting.next_at()]
        if not self.refusing_new:
            moments.append(self.schedules.next_at())
        wakes = [span for span in spans if span is not None]
        wakes += [moment - self.wall_ahead_ms for moment in moments if moment is not None]
        return min(wakes, default=None)


def _heirs_among(held: list[Job]) -> dict[JobId, Job]:
    """Heirs by the job they wait behind: of two live jobs with one key the older one runs."""
    heirs: dict[JobId, Job] = {}
    by_key: dict[tuple[str, str], Job] = {}
    for job in held:
        if job.key:
            other = by_key.setdefault((job.queue, job.key), job)
            if other is not job:
                older, newer = (other, job) if other.id < job.id else (job, other)
                heirs[older.id] = newer
    return heirs
