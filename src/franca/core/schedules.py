"""Rules that make jobs: when each fires next, and how often still."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from franca.core.cron import next_moment
from franca.core.errors import NotFound, Refused, TooMuch
from franca.core.limits import Limits
from franca.core.model import Job, JobId, LastRun, Millis, Schedule
from franca.core.weights import bare_weight

AGAIN_MS = 3_600_000
"""A rule whose time zone the machine does not know any more is tried again after this."""
STALE_MAX = 1_000
"""Entries of rules that were dropped or changed that may lie in the heap besides the others."""
BACK_MS = 1_000
"""A wall clock that goes back by no more than this changes no rule."""
CRON_BACK_MS = 3_600_000
"""A cron rule runs again at moments that it has had only if the wall clock goes back by more."""


class Schedules:
    """All schedules by id, and a heap of their next moments; stale entries are skipped.

    `bytes` is what the jobs that they make take in memory, `_sizes` what each was counted with.
    `_latest` is the latest that the wall clock has shown since it was last set back; `_suspects`
    are the rules whose next moments were found before that, and `_back_ms` is how far it went.
    `by_job` has rules by the jobs that they made last, one for each. `_changed` is what the store
    must be told.
    """

    def __init__(self, changed: dict[str, Schedule | None]) -> None:
        self.by_id: dict[str, Schedule] = {}
        self.by_job: dict[JobId, Schedule] = {}
        self._changed = changed
        self.clear()

    def clear(self) -> None:
        """Forget every rule."""
        self.by_id.clear()
        self.by_job.clear()
        self.bytes = 0
        self._sizes: dict[str, int] = {}
        self._heap: list[tuple[Millis, str]] = []
        self._latest: Millis = 0
        self._back_ms = 0
        self._suspects: list[str] = []

    def check_room(self, schedule: Schedule, limits: Limits) -> None:
        """`TooMuch` if there is no room for a rule: they are kept in memory, for good."""
        old = self.by_id.get(schedule.id)
        size = self.bytes + size_of(schedule) - (0 if old is None else size_of(old))
        if (old is None and len(self.by_id) >= limits.rules_max) or size > limits.rules_bytes:
            most = f"{limits.rules_max} rules or {limits.rules_bytes} bytes of them"
            raise TooMuch(f"a schedule of {size_of(schedule)} bytes beyond {most}")

    def begin(self, schedule: Schedule, now: Millis, *, fire_now: bool) -> None:
        """Take in a rule whose first run is now, or one step from now.

        What takes the place of a rule with the same id is paused if that was, and has its last run.
        """
        step = _step(schedule, now, now)
        schedule.next_at = now if fire_now else step
        replaced = self.by_id.get(schedule.id)
        if replaced is not None:
            schedule.paused = replaced.paused
            schedule.last = schedule.last or replaced.last
        self._latest = max(self._latest, now)
        self.put(schedule)

    def restore(self, schedule: Schedule, now: Millis) -> None:
        """Take in a rule that the store remembers; earlier versions did not say who made it."""
        schedule.source = schedule.source or schedule.job.origin
        if _is_too_late(schedule, now):
            schedule.next_at = now + schedule.every_ms
            self.put(schedule)
        else:
            self._add(schedule)

    def put(self, schedule: Schedule) -> None:
        """Take in a rule that knows its next moment, in place of one with the same id."""
        self._add(schedule)
        self._changed[schedule.id] = schedule

    def _add(self, schedule: Schedule) -> None:
        self._forget_last(self.by_id.get(schedule.id))
        self.by_id[schedule.id] = schedule
        if schedule.last is not None:
            self.by_job[schedule.last.job_id] = schedule
        self._count(schedule)
        heappush(self._heap, (schedule.next_at, schedule.id))
        if len(self._heap) > 2 * len(self.by_id) + STALE_MAX:
            self._heap = [(rule.next_at, rule.id) for rule in self.by_id.values()]
            heapify(self._heap)

    def amend(self, schedule: Schedule) -> None:
        """Something of a rule that is in force was changed, but not when it fires."""
        assert self.by_id.get(schedule.id) is schedule, "not in force"
        self._count(schedule)
        self._changed[schedule.id] = schedule

    def _count(self, schedule: Schedule) -> None:
        """Have `bytes` say what a rule takes now: it is new, or its job was changed."""
        self.bytes += size_of(schedule) - self._sizes.get(schedule.id, 0)
        self._sizes[schedule.id] = size_of(schedule)

    def drop(self, schedule_id: str) -> bool:
        """Forget a rule; False if there was none."""
        schedule = self.by_id.pop(schedule_id, None)
        if schedule is None:
            return False
        self._forget_last(schedule)
        self.bytes -= self._sizes.pop(schedule_id, 0)
        self._changed[schedule_id] = None
        return True

    # -- pauses -------------------------------------------------------------------------------

    def pause(self, schedule_id: str) -> None:
        """Let a rule fire no more until it is resumed. `NotFound` if there is none."""
        schedule = self.existing(schedule_id)
        if not schedule.paused:
            schedule.paused = True
            self._changed[schedule_id] = schedule

    def resume(self, schedule_id: str, now: Millis) -> None:
        """Let a rule fire again, from its next moment on: none of those that it slept through."""
        schedule = self.existing(schedule_id)
        if schedule.paused:
            schedule.paused = False
            if schedule.next_at <= now:
                schedule.next_at = _next(schedule, schedule.next_at, now)
            self.put(schedule)

    def existing(self, schedule_id: str) -> Schedule:
        """The rule of that id, or `NotFound`."""
        schedule = self.by_id.get(schedule_id)
        if schedule is None:
            raise NotFound(f"there is no schedule {schedule_id!r}")
        return schedule

    # -- the last run -------------------------------------------------------------------------

    def note_fired(self, schedule: Schedule, job_id: JobId, now: Millis) -> None:
        """A rule has made a job; it need not be in force yet, or any more."""
        is_in_force = self.by_id.get(schedule.id) is schedule
        if is_in_force:
            self._forget_last(schedule)
            self.by_job[job_id] = schedule
            self._changed[schedule.id] = schedule
        schedule.last = LastRun(job_id, now)

    def note_end(self, job: Job) -> None:
        """The last job of a rule has ended: it may do so again, if it was dead and is retried."""
        schedule = self.by_job[job.id]
        if schedule.last is not None:
            last = (job.id, schedule.last.fired_at, job.state, job.started_at, job.ended_at)
            schedule.last = LastRun(*last)
            self._changed[schedule.id] = schedule

    def _forget_last(self, schedule: Schedule | None) -> None:
        if schedule is not None and schedule.last is not None:
            job_id = schedule.last.job_id
            if self.by_job.get(job_id) is schedule:
                del self.by_job[job_id]

    # -- moments ------------------------------------------------------------------------------

    def bring_back(self, now: Millis, most: int) -> None:
        """Mend rules whose next moments are too far off because the wall clock was set back.

        A rule with an interval waits for it once more at most, one with a cron line for the next
        moment that the line names. Up to `most` rules are looked at; the next call goes on.
        """
        if now < self._latest - BACK_MS:
            self._back_ms = max(self._latest - now, self._back_ms if self._suspects else 0)
            self._suspects = list(self.by_id)
            self._latest = now
        self._latest = max(self._latest, now)
        for schedule_id in self._suspects[-most:]:
            schedule = self.by_id.get(schedule_id)
            if schedule is None:
                continue
            at = schedule.next_at
            if _is_too_late(schedule, now):
                at = now + schedule.every_ms
            elif schedule.cron and self._back_ms > CRON_BACK_MS:
                at = min(at, _next(schedule, now, now))
            if at != schedule.next_at:
                schedule.next_at = at
                self.put(schedule)
        del self._suspects[-most:]

    def due(self, now: Millis, most: int) -> list[Schedule]:
        """Up to `most` rules whose moment has come, each once, already set to its next moment.

        A rule that slept through several moments fires once. One without runs left is dropped.
        """
        fired: list[Schedule] = []
        while self._heap and self._heap[0][0] <= now and len(fired) < most:
            at, schedule_id = heappop(self._heap)
            schedule = self.by_id.get(schedule_id)
            if schedule is None or schedule.next_at != at or schedule.paused:
                continue
            if schedule.runs_left > 0:
                schedule.runs_left -= 1
            if schedule.runs_left == 0:
                self.drop(schedule_id)
            else:
                schedule.next_at = _next(schedule, at, now)
                self.put(schedule)
            fired.append(schedule)
        return fired

    def give_back(self, schedule: Schedule, now: Millis) -> None:
        """A run that was just due has made no job: it does not count, and the rule goes on."""
        if schedule.runs_left >= 0:
            if schedule.id not in self.by_id:
                schedule.next_at = _next(schedule, schedule.next_at, now)
                self.put(schedule)
            schedule.runs_left += 1

    def next_at(self) -> Millis | None:
        """When the next rule fires, or None."""
        while self._heap:
            at, schedule_id = self._heap[0]
            schedule = self.by_id.get(schedule_id)
            if schedule is not None and schedule.next_at == at and not schedule.paused:
                return at
            heappop(self._heap)
        return None


def size_of(schedule: Schedule) -> int:
    """What the job of a rule takes in memory, roughly."""
    return bare_weight(schedule.job)


def upcoming(schedule: Schedule, now: Millis, most: int) -> list[Millis]:
    """The next moments of a rule, up to `most`; none if it is paused."""
    moments: list[Millis] = []
    at = schedule.next_at
    left = most if schedule.runs_left < 0 else min(most, schedule.runs_left)
    while len(moments) < left and not schedule.paused:
        moments.append(at)
        try:
            at = _step(schedule, at, max(at, now))
        except Refused:
            break
    return moments


def check_moments(schedule: Schedule, now: Millis) -> None:
    """`Refused` if a rule names no moment."""
    _step(schedule, now, now)


def _is_too_late(schedule: Schedule, now: Millis) -> bool:
    """Whether a rule with an interval waits for longer than that."""
    return not schedule.cron and schedule.next_at > now + max(schedule.every_ms, 1)


def _next(schedule: Schedule, last: Millis, now: Millis) -> Millis:
    """The next moment of a rule that is in force: what it names may be unknown here by now."""
    try:
        return _step(schedule, last, now)
    except Refused:
        return now + AGAIN_MS


def _step(schedule: Schedule, last: Millis, now: Millis) -> Millis:
    """The rule's next moment after `now`, on the grid that began with `last`."""
    if schedule.cron:
        return next_moment(schedule.cron, schedule.timezone, now)
    every = max(schedule.every_ms, 1)
    return last + every * ((now - last) // every + 1)
