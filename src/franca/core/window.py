"""The window of a queue: its next ready jobs, in memory and in order.

What does not fit lies in the backlog, in the store. The one rule: the window holds every ready job
up to `mark` in order of (priority, place), the backlog every one behind it. With an empty backlog
there is no mark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass, field

from franca.core.model import Job

Key = tuple[int, int]
HOLES_SPARED = 32
"""Holes in a level that are let be, however few jobs it has."""
EMPTY_LEVELS = 16
"""Priorities that a queue may have before those without jobs are forgotten: jobs of a few
priorities come and go, and to make a level anew for each job would cost more than to pass it."""


@dataclass(slots=True, eq=False)
class Hole:
    """What is left in a window where a job was taken out of the middle."""

    place: int


Level = deque[Job | Hole]
"""Ready jobs of one priority in order of their places. Neither end of it is a hole."""


@dataclass(slots=True, eq=False)
class Windows:
    """What the windows of all queues hold together."""

    bytes_held: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Window:
    """Ready jobs of one queue by priority, and what is known of those in the backlog.

    Up to `uncut` jobs the window is not cut, because too many of them could not leave it.
    `backlog_levels` are the jobs of the `backlog` by their priority; `_backlog_first` is the most
    urgent of them while it is known. `_order` has the priorities of the window, negated and
    ascending: the next one is at its end, where it is taken away at no cost.
    """

    windows: Windows = field(default_factory=Windows)
    size: int = 0
    bytes_held: int = 0
    uncut: int = 0
    backlog: int = 0
    backlog_levels: dict[int, int] = field(default_factory=dict)
    mark: Key | None = None
    _backlog_first: int | None = None
    _levels: dict[int, Level] = field(default_factory=dict)
    _holes: dict[int, int] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)

    @property
    def ready(self) -> int:
        """How many jobs are ready, in memory and in the backlog."""
        return self.size + self.backlog

    def by_priority(self) -> dict[int, int]:
        """How many jobs of each priority are ready, in memory and in the backlog."""
        holes = self._holes
        counts = {p: len(level) - holes.get(p, 0) for p, level in self._levels.items() if level}
        for priority, count in self.backlog_levels.items():
            counts[priority] = counts.get(priority, 0) + count
        return counts

    def grow_backlog(self, priority: int) -> None:
        """A ready job of this priority is in the backlog now."""
        self.backlog += 1
        if self._backlog_first is not None and priority < self._backlog_first:
            self._backlog_first = priority
        self.backlog_levels[priority] = self.backlog_levels.get(priority, 0) + 1

    def shrink_backlog(self, priority: int) -> None:
        """A ready job of this priority is in the backlog no longer."""
        self.backlog -= 1
        left = self.backlog_levels.get(priority, 0) - 1
        if left > 0:
            self.backlog_levels[priority] = left
        else:
            self.backlog_levels.pop(priority, None)
            if priority == self._backlog_first:
                self._backlog_first = None

    def _is_behind_backlog(self, priority: int) -> bool:
        """Whether the backlog has a job that is more urgent than this."""
        if not self.backlog:
            return False
        if self._backlog_first is None:
            self._backlog_first = min(self.backlog_levels)
        return self._backlog_first < priority

    def belongs_to_backlog(self, job: Job) -> bool:
        """Whether a ready job lies behind the mark."""
        return self.mark is not None and (job.priority, job.place) > self.mark

    def add(self, job: Job) -> None:
        """Put a ready job into the window at its place."""
        level = self._levels.get(job.priority)
        if level is None:
            level = self._levels[job.priority] = deque()
            insort(self._order, -job.priority)
        if not level or level[-1].place < job.place:
            level.append(job)
        elif job.place < level[0].place:
            level.appendleft(job)
        else:
            level.insert(bisect_right(level, job.place, key=_place_of), job)
        self.size += 1
        size = job.weight
        self.bytes_held += size
        self.windows.bytes_held += size

    def best_priority(self) -> int | None:
        """The priority of the window's next job; None if there is none that may be given yet.

        What may not go into the backlog stays in the window behind the mark, and may be given
        before older jobs of its priority that lie in the backlog, but not before more urgent ones.
        """
        first = self.first()
        if first is None or self._is_behind_backlog(first.priority):
            return None
        return first.priority

    def gives(self) -> bool:
        """Whether the next job of the window may be given."""
        return self.size > 0 and (not self.backlog or self.best_priority() is not None)

    def pop(self) -> Job:
        """Take the next job out of the window, which must not be empty."""
        index = -1
        while not (level := self._levels[-self._order[index]]):
            index -= 1
        job = level.popleft()
        assert isinstance(job, Job)
        if self._holes:
            self._trim(-self._order[index], level)
        if not level and len(self._order) > EMPTY_LEVELS:
            self._drop_level(-self._order[index])
        self.size -= 1  # as `_left`, without a call: most jobs come here
        size = job.weight
        self.bytes_held -= size
        self.windows.bytes_held -= size
        return job

    def first(self) -> Job | None:
        """The next job in the window, left where it is."""
        for negated in reversed(self._order):
            level = self._levels[-negated]
            if level:
                job = level[0]
                assert isinstance(job, Job)
                return job
        return None

    def remove(self, job: Job) -> None:
        """Take one job out of the window, wherever it stands."""
        level = self._levels[job.priority]
        index = bisect_left(level, job.place, key=_place_of)
        while level[index] is not job:
            index += 1
        level[index] = Hole(job.place)
        self._holes[job.priority] = self._holes.get(job.priority, 0) + 1
        self._trim(job.priority, level)
        if not level and len(self._order) > EMPTY_LEVELS:
            self._drop_level(job.priority)
        self._left(job)

    def _drop_level(self, priority: int) -> None:
        """Forget a priority of which no job is left in the window."""
        del self._levels[priority]
        order = self._order
        if order[-1] == -priority:
            order.pop()
        else:
            del order[bisect_left(order, -priority)]

    def _drop_last_levels(self, count: int) -> None:
        """The same of the `count` least urgent ones, unless there are few."""
        if len(self._order) > EMPTY_LEVELS:
            for negated in self._order[:count]:
                del self._levels[-negated]
            del self._order[:count]

    def _trim(self, priority: int, level: Level) -> None:
        """Let neither end of a level be a hole."""
        holes = self._holes.get(priority, 0)
        while holes and isinstance(level[0], Hole):
            level.popleft()
            holes -= 1
        while holes and isinstance(level[-1], Hole):
            level.pop()
            holes -= 1
        if holes > len(level) // 2 + HOLES_SPARED:
            self._levels[priority] = deque(job for job in level if isinstance(job, Job))
            holes = 0
        if holes:
            self._holes[priority] = holes
        else:
            self._holes.pop(priority, None)

    def _left(self, job: Job) -> None:
        """A job is no longer in the window."""
        self.size -= 1
        size = job.weight
        self.bytes_held -= size
        self.windows.bytes_held -= size

    def cut(self, keep: int, keep_bytes: int, most: int) -> list[Job]:
        """Drop the window's last jobs beyond `keep` or `keep_bytes`, up to `most` of them.

        Sets the mark right before the first of them, unless it lies further ahead: what may not go
        into the backlog stays in the window behind it. The caller puts what is returned there.
        """
        dropped: list[Job] = []
        emptied = 0
        for negated in self._order:
            priority = -negated
            level = self._levels[priority]
            while level and (self.size > keep or self.bytes_held > keep_bytes):
                if len(dropped) >= most:
                    break
                job = level.pop()
                assert isinstance(job, Job)
                if self._holes:
                    self._trim(priority, level)
                    level = self._levels[priority]
                self._left(job)
                dropped.append(job)
            if level:
                break
            emptied += 1
        self._drop_last_levels(emptied)
        if dropped:
            self.mark_before(dropped[-1])
        return dropped

    def let_go(self, most: int, checks: int) -> tuple[list[Job], int]:
        """Drop the window's last jobs that the store has, up to `most`; and how many stay.

        The mark is set as by a cut. Checks no more jobs than `checks`.
        """
        leaving: list[Job] = []
        staying: list[Job] = []
        emptied = 0
        for negated in self._order:
            priority = -negated
            level = self._levels[priority]
            before = len(staying)
            while level and len(leaving) < most and len(leaving) + len(staying) < checks:
                job = level.pop()
                if isinstance(job, Hole):
                    self._holes[priority] -= 1
                elif job.policy.durable:
                    self._left(job)
                    leaving.append(job)
                else:
                    staying.append(job)
            stopped = bool(level)
            level.extend(reversed(staying[before:]))
            if priority in self._holes:
                self._trim(priority, level)
            if stopped:
                break
            emptied += not staying
        self._drop_last_levels(emptied)
        if leaving:
            self.mark_before(leaving[-1])
        return leaving, len(staying)

    def mark_before(self, job: Job) -> None:
        """Let the backlog begin with this job at the latest."""
        before = (job.priority, job.place - 1)
        self.mark = before if self.mark is None else min(self.mark, before)

    def take_all(self) -> list[Job]:
        """Empty the window and forget the backlog; returns what was in the window."""
        levels = (self._levels[-negated] for negated in reversed(self._order))
        jobs = [job for level in levels for job in level if isinstance(job, Job)]
        self.forget_all()
        return jobs

    def forget_all(self) -> None:
        """Empty the window and forget the backlog."""
        self._levels.clear()
        self._holes.clear()
        self._order = []
        self.windows.bytes_held -= self.bytes_held
        self.size = self.bytes_held = self.backlog = self.uncut = 0
        self.backlog_levels.clear()
        self._backlog_first = None
        self.mark = None


def _place_of(job: Job | Hole) -> int:
    return job.place
