"""Rules that make jobs: when each fires next, and how often still."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from franca.core.cron import next_moment
from franca.core.errors import Refused
from franca.core.model import Millis, Schedule, bare_weight

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
    `_changed` is what the store must be told.
    """

    def __init__(self, changed: dict[str, Schedule | None]) -> None:
        self.by_id: dict[str, Schedule] = {}
        self._changed = changed
        self.clear()

    def clear(self) -> None:
        """Forget every rule."""
        self.by_id.clear()
        self.bytes = 0
        self._sizes: dict[str, int] = {}
        self._heap: list[tuple[Millis, str]] = []
        self._latest: Millis = 0
        self._back_ms = 0
        self._suspects: list[str] = []

    def begin(self, schedule: Schedule, now: Millis, *, fire_now: bool) -> None:
        """Take in a rule whose first run is now, or one step from now."""
        step = _step(schedule, now, now)
        schedule.next_at = now if fire_now else step
        self._latest = max(self._latest, now)
        self.put(schedule)

    def restore(self, schedule: Schedule, now: Millis) -> None:
        """Take in a rule that the store remembers."""
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
        self.by_id[schedule.id] = schedule
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
        if self.by_id.pop(schedule_id, None) is None:
            return False
        self.bytes -= self._sizes.pop(schedule_id, 0)
        self._changed[schedule_id] = None
        return True

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
            if schedule is None or schedule.next_at != at:
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
            if schedule is not None and schedule.next_at == at:
                return at
            heappop(self._heap)
        return None


def size_of(schedule: Schedule) -> int:
    """What the job of a rule takes in memory, roughly."""
    return bare_weight(schedule.job)


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
