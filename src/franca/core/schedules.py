"""Rules that make jobs: when each fires next, and how often still."""

from __future__ import annotations

from heapq import heappop, heappush

from franca.core.cron import next_moment
from franca.core.model import Millis, Schedule


class Schedules:
    """All schedules by id, and a heap of their next moments; stale entries are skipped."""

    __slots__ = ("_heap", "by_id")

    def __init__(self) -> None:
        self.by_id: dict[str, Schedule] = {}
        self._heap: list[tuple[Millis, str]] = []

    def begin(self, schedule: Schedule, now: Millis, *, fire_now: bool) -> None:
        """Take in a rule whose first run is now, or one step from now."""
        step = _step(schedule, now, now)
        schedule.next_at = now if fire_now else step
        self.put(schedule)

    def put(self, schedule: Schedule) -> None:
        """Take in a rule that knows its next moment."""
        self.by_id[schedule.id] = schedule
        heappush(self._heap, (schedule.next_at, schedule.id))

    def drop(self, schedule_id: str) -> bool:
        """Forget a rule; False if there was none."""
        return self.by_id.pop(schedule_id, None) is not None

    def due(self, now: Millis) -> list[Schedule]:
        """Every rule whose moment has come, each once, already set to its next moment.

        A rule that slept through several moments fires once. One without runs left is dropped.
        """
        fired: list[Schedule] = []
        while self._heap and self._heap[0][0] <= now:
            at, schedule_id = heappop(self._heap)
            schedule = self.by_id.get(schedule_id)
            if schedule is None or schedule.next_at != at:
                continue
            if schedule.runs_left > 0:
                schedule.runs_left -= 1
            if schedule.runs_left == 0:
                del self.by_id[schedule_id]
            else:
                schedule.next_at = _step(schedule, at, now)
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


def _step(schedule: Schedule, last: Millis, now: Millis) -> Millis:
    """The rule's next moment after `now`, on the grid that began with `last`."""
    if schedule.cron:
        return next_moment(schedule.cron, schedule.timezone, now)
    every = max(schedule.every_ms, 1)
    return last + every * ((now - last) // every + 1)
