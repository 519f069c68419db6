"""What the store must be told.

One promise: what `drain` hands over, applied to a store in order, makes the store say what memory
says. A job that changed many times since the last drain is written once, as it is then.
"""

from __future__ import annotations

from franca.core.changes import Changes, IdempotencyKey, QueueSetting, RunNote, Totals
from franca.core.limits import Limits
from franca.core.model import Job, JobId, Schedule, Shelf, State

LEASED = State.LEASED
DEAD = State.DEAD
HELD = Shelf.HELD
BACKLOG = Shelf.BACKLOG
NOWHERE = Shelf.NOWHERE


class Changelog:
    """What has changed since the last drain.

    `dirty` has changed jobs of every kind; `gone` those that ended with many others and whose rows
    are deleted unseen. `pending_bytes` is what new jobs, results and failures among them take.
    """

    def __init__(self, limits: Limits, totals: Totals, jobs: dict[JobId, Job]) -> None:
        self.totals = totals
        self.dirty: dict[JobId, Job] = {}
        self.settings: dict[str, QueueSetting | None] = {}
        self.schedules: dict[str, Schedule | None] = {}
        self.idempotency_keys: list[IdempotencyKey] = []
        self._limits = limits
        self._jobs = jobs
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.dirty.clear()  # not a new one: other parts write into it
        self.ended: list[Job] = []
        self.gone: list[Job] = []
        self.failed: list[RunNote] = []
        self.died: list[RunNote] = []
        self.emptied: list[str] = []
        self.spared: list[JobId] = []
        self.flushed = False
        self.pending_bytes = 0

    def touch(self, job: Job) -> None:
        """The store must hear of this job's new state."""
        if job.policy.durable:
            self.dirty[job.id] = job

    def is_behind(self, times: int = 1) -> bool:
        """Whether more waits for the disk than may, or so many times as much."""
        limits = self._limits
        return (
            self.pending_bytes > times * limits.pending_bytes
            or len(self.dirty) > times * limits.pending_jobs
        )

    def has_changes(self) -> bool:
        """Whether `drain` would hand over anything."""
        jobs = self.dirty or self.emptied or self.gone or self.ended
        rules = self.settings or self.schedules
        return bool(jobs or rules or self.idempotency_keys or self.flushed)

    def drain(self) -> Changes:
        """Everything that changed since the last drain, collapsed; it must be committed."""
        changes = Changes(
            self.totals, self.flushed, self.emptied, self.spared, self.gone, self.ended
        )
        jobs = self._jobs
        added, updated = changes.added, changes.updated
        for job_id, job in self.dirty.items():
            had = job.shelf
            if job_id in jobs:
                want = HELD
            elif job.state <= LEASED or (job.state is DEAD and job.policy.bury):
                want = BACKLOG
            else:
                want = NOWHERE
            if want is had:
                if want is not NOWHERE:
                    updated.append(job)
                continue
            job.shelf = want
            if had is NOWHERE:
                added.append(job)
            elif want is not NOWHERE:
                changes.moved.append(job)
            elif had is HELD:
                changes.gone_from_memory.append(job)
            else:
                changes.gone_from_backlog.append(job)
        if self.settings or self.schedules:
            self._drain_rules(changes)
        if self.idempotency_keys:
            changes.idempotency_keys, self.idempotency_keys = self.idempotency_keys, []
        if self.failed or self.died:
            changes.failed, changes.died = self.failed, self.died
        self._begin_anew()
        return changes

    def _drain_rules(self, changes: Changes) -> None:
        """Queues and schedules, which seldom change."""
        changes.queues_gone += [name for name, saved in self.settings.items() if saved is None]
        changes.queues_saved += filter(None, self.settings.values())
        changes.schedules_gone += [name for name, saved in self.schedules.items() if saved is None]
        changes.schedules_saved += filter(None, self.schedules.values())
        self.settings.clear()
        self.schedules.clear()

    def flush(self) -> None:
        """Everything that the store has is to be forgotten."""
        self._begin_anew()
        self.settings.clear()
        self.schedules.clear()
        self.idempotency_keys.clear()
        self.flushed = True
