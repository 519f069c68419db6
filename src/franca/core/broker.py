"""The broker: what may happen to a job, and in which order. Pure; the only one that changes jobs.

Three rules. A verb's answer is its return value; events are for those who did not just ask.
A refusal changes nothing: verbs check first and act after. Nothing is called back: consequences
are appended to `events` and to the changelog, and the engine takes them from there.

`now` never goes backwards and measures spans: leases, demands. Moments that people name (a job's
`run_at`, schedules) are compared with the wall clock, which may jump: `wall(now)`.

It is made of parts, one file each; `docs/ARCHITECTURE.md` says what each of them owns. Verbs that
concern one part alone are methods of that part (`parts.py` lists them).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

from msgspec.structs import replace

from franca.core import model
from franca.core.changelog import DEAD, LEASED
from franca.core.changes import Changes, IdempotencyKey, Totals
from franca.core.errors import NotFound, NotHeld, NotUnique, StoreFull, TooMuch
from franca.core.events import Progressed
from franca.core.index import READY
from franca.core.lifecycle import DONE
from franca.core.limits import TIME_MAX, Limits
from franca.core.model import (
    NEVER,
    Demand,
    Failure,
    Job,
    JobId,
    Millis,
    NewJob,
    Progress,
    Session,
)
from franca.core.parts import Parts
from franca.core.progress import storable
from franca.core.reasons import NO_FAILURE, REPLACED
from franca.core.restore import restore
from franca.core.stubs import Stub, unseen
from franca.core.upkeep import Upkeep
from franca.core.volatile import TOO_MANY_WAITED_FOR
from franca.core.wants import Snapshot, SupplyReady

LARGE_SUBMIT_BYTES = 256 * 1024
"""Before a larger job is taken it is asked whether the disk has room for it."""


class Broker(Parts):
    """The verbs that concern several parts, each the order of its steps."""

    def __init__(self, limits: Limits, rng: Random, totals: Totals | None = None) -> None:
        super().__init__(limits, rng, totals)
        self.upkeep = Upkeep(self)
        self.parts += (self.upkeep,)
        self.tick = self.upkeep.tick
        self.next_wake = self.upkeep.next_wake

    def restore_at(self, snapshot: Snapshot, now: Millis) -> None:
        """Take over what the store remembers, leases with the time that they have left."""
        restore(self, snapshot, now)

    # -- submit ---------------------------------------------------------------------------

    def next_id(self) -> JobId:
        """The id of the next new job: its submitter may put it into the job's name."""
        return self.totals.last_job_id + 1

    def submit(self, new: NewJob, now: Millis, watcher: Session | None = None) -> Job:
        """Take in a job, or find the one it stands for; `watcher` hears what becomes of it.

        May be refused as `errors.py` says. One that replaces a running job waits behind it.
        """
        if watcher is not None and self.watches.count >= self.limits.watches_max:
            raise TooMuch(TOO_MANY_WAITED_FOR)
        if new.once and (new.name in self.index.by_name or new.name in self.index.recent):
            said_before = self.index.said_before(new)
            if said_before is not None:
                return _job_of(said_before, new, now)
        taken = running = None
        if new.key:
            taken = self.keys.get(new.queue, new.key)
            if taken is None:
                if self.keys.bytes >= self.queue_list.keys_max:
                    raise TooMuch("too many unique jobs are stored; try again when some are done")
            elif new.on_conflict is not model.OnConflict.REPLACE:
                return self._join(taken, new, watcher)
            elif isinstance(taken, Job) and taken.state is LEASED:
                running, taken = taken, self.lifecycle.successors.by_job.get(taken.id)
                self.lifecycle.successors.check_room(taken, new)
        queue = self.queues.get(new.queue)
        if queue is None:
            self.queue_list.check_no_new((new.queue,))
        totals = self.totals
        job = new_job(new, totals.last_job_id + 1, now)
        size = len(new.body) + len(new.extra)
        if not (new.policy.durable or new.run_at):
            self.volatile.add(job, now)
        elif size >= LARGE_SUBMIT_BYTES or new.run_at or self.refusing_new or self.room_bytes <= 0:
            self._take_room(job, size, now)
        else:
            self.changelog.pending_bytes += size
        totals.last_job_id = job.id
        totals.pushed += 1
        if taken is not None:
            self._replace(taken, job.id, now)
        if watcher is not None:
            self.watches.add(job.id, watcher)
        if queue is None or not queue.listed:
            queue = self.queue(new.queue)
        queue.pushed += 1
        if running is not None:
            self.lifecycle.put_behind(job, running)
        elif new.run_at or new.start_by:
            self.lifecycle.settle_in(job, queue, now)
        else:
            self.dispatch.enqueue(job, queue, now)
        return job

    def keep_key(self, key: IdempotencyKey) -> None:
        """Have the store remember a job by an idempotency key, in the commit of its submit."""
        self.changelog.idempotency_keys.append(key)

    def _take_room(self, job: Job, size: int, now: Millis) -> None:
        """Refuse a job that there is no room for; else its room is taken."""
        if job.run_at and not 0 <= job.run_at <= TIME_MAX:
            raise TooMuch("no moment is as late as that")
        if not job.policy.durable:
            self.volatile.add(job, now)
            return
        pending = self.changelog.pending_bytes + size
        if self.refusing_new or 2 * pending > self.room_bytes:
            raise StoreFull("the disk is nearly full; no new jobs are taken until there is room")
        self.changelog.pending_bytes = pending

    def _join(self, taken: Job | Stub, new: NewJob, watcher: Session | None) -> Job:
        if new.on_conflict is model.OnConflict.REFUSE:
            raise NotUnique(f"a live job of queue {new.queue!r} has this key")
        if isinstance(taken, Stub):
            job = new_job(new, taken.id, taken.run_at)
            job.name = taken.name
            if watcher is not None:
                self.watches.in_store.add(taken)
        else:
            job = taken
            if new.policy.durable and not job.policy.durable:
                # A submit that nobody waits for must outlive those who do.
                self.volatile.remove(job)
                job.policy = new.policy
                if job.state is LEASED:
                    self.leases.bytes += self.leases.weight(job)
                if job.state is not READY and len(job.body) > self.limits.large_body_bytes:
                    self.backlog.large.add(job)
                self.changelog.touch(job)
        if watcher is not None:
            self.watches.add(job.id, watcher)
        return job

    def _replace(self, taken: Job | Stub, new_id: JobId, now: Millis) -> None:
        """Make room for a job with the same key; who watched the old one watches the new one."""
        self.watches.hand_over(taken.id, new_id)
        if isinstance(taken, Stub):
            self.backlog.end_unseen(taken)
        else:
            self.lifecycle.cancel(taken, REPLACED, now)

    # -- demands and runs -------------------------------------------------------------------

    def report(self, job: Job, holder: str, kind: str, data: bytes) -> None:
        """Pass the holder's word on to all who watch."""
        self.leases.check(job, holder)
        self.watches.tell_report(Progressed(job, kind, data))

    def report_progress(self, job: Job, holder: str, progress: Progress, now: Millis) -> None:
        """The holder says how far it is: all who watch hear it, and it stays with the run.

        In memory: the store has it only if something else of the job changes.
        """
        self.leases.check(job, holder)
        job.reported = progress = storable(progress, now, self.limits)
        self.watches.tell_report(Progressed(job, "", progress.said, progress))

    def lease(self, job: Job, session: Session, now: Millis, lease_ms: int = 0) -> None:
        """Let a session hold this very job, which is ready, waits for its time, or is dead.

        A pause does not keep it from that. The body must be here: a job that is `away`, or only in
        the store, is recalled first. `NotHeld` if it runs or waits behind a run, `NotUnique` where
        another job has taken a dead one's key, `TooMuch` if too many jobs run.
        """
        assert not job.away, f"the body of job {job.id} is in the store"
        self._check_there(job)
        if job.state is LEASED or job.id in self.lifecycle.successors.ahead:
            raise NotHeld(f"job {job.id} runs, or waits behind a run")
        self._check_has_key(job)
        if self.leases.is_full():
            raise TooMuch("too many jobs run")
        self.lifecycle.take_out(job, now)
        job.ended_at = NEVER
        times = {job.queue: lease_ms} if lease_ms else None
        demand = Demand(session, (job.queue,), lease_ms=times)
        self.leases.grant(job, demand, self.queue(job.queue), now)

    # -- what operators and clients may do to jobs that they do not hold ------------------------

    def cancel(self, job: Job, now: Millis) -> None:
        """End a live or dead job without a run; its watchers hear that it was cancelled."""
        self._check_there(job)
        self.lifecycle.cancel(job, Failure("Cancelled", "cancelled by an operator"), now)

    def remove(self, queue_name: str, key: str, now: Millis) -> bool:
        """End the job that has this key, wherever it lies, and what waits behind it, if any."""
        taken = self.keys.get(queue_name, key)
        if taken is None:
            return False
        failure = Failure("Cancelled", "removed by a client")
        if isinstance(taken, Stub):
            self.backlog.end_unseen(taken)
            self.watches.tell_end(unseen(taken), failure)
            return True
        for job in (self.lifecycle.successors.by_job.get(taken.id), taken):
            if job is not None:
                self.lifecycle.cancel(job, failure, now)
        return True

    def kill(self, job: Job, now: Millis) -> None:
        """Give a live job up, into the dead set; a dead one starts its time there anew."""
        self._check_there(job)
        self.lifecycle.take_away(job, now)
        if not job.policy.bury:
            job.policy = replace(job.policy, bury=True)
        self.lifecycle.bury(job, Failure("Killed", "killed by an operator"), now)

    def retry(self, job: Job, now: Millis, extra: bytes | None = None) -> None:
        """Make a waiting or dead job ready now, behind all others of its queue.

        `extra` is what the submitter's protocol wants to remember of it from now on.
        Refused with `NotUnique` where another job has taken a dead one's key.
        """
        self._check_there(job)
        self._check_has_key(job)
        self.lifecycle.take_away(job, now)
        if extra is not None:
            job.extra = extra
        if self.lifecycle.comes_back(job, NO_FAILURE, now):
            job.ended_at = NEVER
            self.dispatch.enqueue(job, self.queue(job.queue), now)

    def _check_there(self, job: Job) -> None:
        kept_dead = job.state is DEAD and job.policy.bury and job.policy.durable
        if job.state >= DONE and not kept_dead:
            raise NotFound(f"job {job.id} has ended")

    def _check_has_key(self, job: Job) -> None:
        """A job that lives again needs its key, which another may have taken meanwhile."""
        taken = self.keys.get(job.queue, job.key) if job.key else None
        if taken is not None and taken.id != job.id:
            raise NotUnique(f"another live job of queue {job.queue!r} has this key")

    def pause_queues(self, queue_names: Iterable[str], now: Millis) -> None:
        """Give out no more jobs of these queues until they are resumed."""
        for name in queue_names:
            self.pause(name)

    def resume_queues(self, queue_names: Iterable[str], now: Millis) -> None:
        """Give out jobs of these queues again."""
        for name in queue_names:
            self.resume(name, now)

    def purge_queues(self, queue_names: Iterable[str], now: Millis) -> int:
        """Cancel every ready job of these queues; returns how many there were."""
        return self.purges.purge_queues(queue_names, now)

    def remove_queues(self, queue_names: Collection[str], now: Millis) -> None:
        """Purge queues and forget them; later jobs make them anew."""
        self.purges.remove_queues(queue_names, now)

    def flush(self, now: Millis) -> None:
        """Forget every job, queue, schedule and count; those who wait go on waiting."""
        for part in (self.schedules, self.backlog, self.leases, self.dispatch, self.lifecycle):
            part.clear()
        self.purges.flush(now)

    # -- rules ----------------------------------------------------------------------------

    def put_schedule(self, schedule: model.Schedule, now: Millis, *, fire_now: bool) -> None:
        """Make jobs by this rule from now on, in place of one with the same id.

        It is paused if that one was, and has its last run until it has one of its own.
        """
        self.schedules.begin(schedule, self.wall(now), fire_now=fire_now)

    def resume_schedule(self, schedule_id: str, now: Millis) -> None:
        """Let a paused rule fire again, from its next moment on. `NotFound` if there is none."""
        self.schedules.resume(schedule_id, self.wall(now))

    def run_schedule(self, schedule_id: str, now: Millis) -> Job:
        """Let a rule make its job now, paused or not, and go on as if it had not.

        May be refused as a submit; `NotFound` if there is none.
        """
        return self.fire(self.schedules.existing(schedule_id), now)

    def fire(self, schedule: model.Schedule, now: Millis) -> Job:
        """Make the job of a rule, which is its last one from now on."""
        job = self.submit(schedule.job, now)
        self.schedules.note_fired(schedule, job.id, now)
        return job

    # -- the store ------------------------------------------------------------------------

    def has_changes(self) -> bool:
        """Whether `drain` would hand over anything."""
        return self.changelog.has_changes() or self.queue_list.is_overfull()

    def drain(self) -> Changes:
        """Everything that changed; and what leaves memory because the store has filled it."""
        if self.queue_list.is_overfull():
            self.backlog.cut_supplied()
        # What is new needs room twice, in the log and in the file.
        self.room_bytes -= 2 * self.changelog.pending_bytes
        return self.changelog.drain()

    def supplied_ready(self, want: SupplyReady, jobs: list[Job], now: Millis) -> None:
        """The next jobs of a queue's backlog have come into memory."""
        queue = self.backlog.take_ready(want, jobs)
        if queue is not None:
            self.dispatch.match(queue, now)
            self.backlog.large.shrink()
            if queue.size <= self.limits.supply_jobs:
                self.backlog.wants.supply_ready(queue)


def _job_of(said_before: Job | Stub, new: NewJob, now: Millis) -> Job:
    """The job that a submit repeats, made up of the submit if only the store has it."""
    return new_job(new, said_before.id, now) if isinstance(said_before, Stub) else said_before


def new_job(new: NewJob, job_id: JobId, now: Millis) -> Job:
    """A job as it was submitted."""
    job = Job(
        job_id,
        new.queue,
        new.kind,
        new.name,
        new.key,
        new.body,
        new.media,
        new.origin,
        new.policy,
        new.priority,
        new.created_at or now,
        new.extra,
        run_at=new.run_at,
        start_by=new.start_by,
        digest=new.digest,
    )
    if new.failures:
        job.failures = new.failures
    # As `weights.bare_weight`, without a call: every job comes here.
    job.weight = len(new.body) + len(new.extra) + len(new.name) + len(new.kind) + len(new.key)
    return job
