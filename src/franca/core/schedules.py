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


class Schedules:
    """All schedules by id, and a heap of their next moments; stale entries are skipped.

    `bytes` is what the jobs that they make take in memory, `_sizes` what each was counted with.
    """

    __slots__ = ("_heap", "_sizes", "by_id", "bytes")

    def __init__(self) -> None:
        self.by_id: dict[str, Schedule] = {}
        self.bytes = 0
        self._sizes: dict[str, int] = {}
        self._heap: list[tuple[Millis, str]] = []

    def begin(self, schedule: Schedule, now: Millis, *, fire_now: bool) -> None:
        """Take in a rule whose first run is now, or one step from now."""
        step = _step(schedule, now, now)
        schedule.next_at = now if fire_now else step
        self.put(schedule)

    def put(self, schedule: Schedule) -> None:
        """Take in a rule that knows its next moment."""
        self.drop(schedule.id)
        self.by_id[schedule.id] = schedule
        self.count(schedule)
        heappush(self._heap, (schedule.next_at, schedule.id))
        if len(self._heap) > 2 * len(self.by_id) + STALE_MAX:
            self._heap = [(rule.next_at, rule.id) for rule in self.by_id.values()]
            heapify(self._heap)

    def count(self, schedule: Schedule) -> None:
        """Have `bytes` say what a rule takes now: it is new, or its job was changed."""
        self.bytes += size_of(schedule) - self._sizes.get(schedule.id, 0)
        self._sizes[schedule.id] = size_of(schedule)

    def drop(self, schedule_id: str) -> bool:
        """Forget a rule; False if there was none."""
        self.bytes -= self._sizes.pop(schedule_id, 0)
        return self.by_id.pop(schedule_id, None) is not None

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
                heappush(self._heap, (schedule.next_at, schedule_id))
            fired.append(schedule)
        return fired

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
