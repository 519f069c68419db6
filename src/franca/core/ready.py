"""Which job of a queue is next, and who waits for one.

A queue keeps a window of its next ready jobs in memory; what does not fit lies in the tail, in
the store. The one rule: the window holds every ready job up to `mark` in order of (priority,
place), the tail every one behind it. With an empty tail there is no mark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable

from franca.core.model import NEVER, Demand, Job, Millis

Key = tuple[int, int]
HOLES_SPARED = 32
"""Holes in a level that are let be, however few jobs it has."""


class Hole:
    """What is left in a window where a job was taken out of the middle."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place


Level = deque[Job | Hole]
"""Ready jobs of one priority in order of their places. Neither end of it is a hole."""


QUEUE_BYTES = 2_400
"""What a queue takes in memory beside its name, roughly."""


def queue_bytes(name: str) -> int:
    """What a queue of that name takes in memory, roughly."""
    return QUEUE_BYTES + (len(name) if name.isascii() else 4 * len(name))


class Windows:
    """What the windows of all queues hold together."""

    __slots__ = ("bytes_held",)

    def __init__(self) -> None:
        self.bytes_held = 0


class Queue:
    """One queue: its window, what is known of its tail, and the lines of those who wait.

    A queue is `listed` from its first job on; until then it exists only for those who wait.
    `woken` counts the `sleepers` that were told of its jobs and have not asked for one yet; the
    `light_sleepers` are told of every job, and not counted. Up to `crowd` jobs the window is not
    cut, because too many of them could not leave it.
    While it is `watched` it is looked at now and then; `idle_since` is when it was first found
    to have no jobs, no workers and no settings.
    `asked` is set while somebody wanted a job and only the tail had one.
    `tail_levels` are the jobs of the `tail` by their priority.
    `line` is where the next to be served stands; where some go before others there is a line for
    each of the `ranks`, and it is the foremost that somebody stands in.
    """

    __slots__ = (
        "_holes",
        "_levels",
        "_order",
        "asked",
        "bytes_held",
        "crowd",
        "dead",
        "idle_since",
        "leased",
        "light_sleepers",
        "line",
        "listed",
        "mark",
        "name",
        "paused",
        "ranks",
        "retrying",
        "scheduled",
        "servers",
        "size",
        "sleepers",
        "supplying",
        "tail",
        "tail_levels",
        "watched",
        "windows",
        "woken",
    )

    def __init__(self, name: str, windows: Windows | None = None) -> None:
        self.name = name
        self.windows = windows or Windows()
        self.listed = False
        self.watched = False
        self.idle_since: Millis = NEVER
        self.paused = False
        self.size = 0
        self.bytes_held = 0
        self.crowd = 0
        self.asked = False
        self.tail = 0
        self.tail_levels: dict[int, int] = {}
        self.mark: Key | None = None
        self.supplying = False
        self.leased = 0
        self.scheduled = 0
        self.retrying = 0
        self.dead = 0
        self.servers = 0
        self.woken = 0
        self.line: OrderedDict[Demand, None] = OrderedDict()
        self.ranks: dict[int, OrderedDict[Demand, None]] | None = None
        self.sleepers: OrderedDict[Demand, None] = OrderedDict()
        self.light_sleepers: dict[Demand, None] = {}
        self._levels: dict[int, Level] = {}
        self._holes: dict[int, int] = {}
        self._order: list[int] = []

    @property
    def ready(self) -> int:
        """How many jobs are ready, in memory and in the tail."""
        return self.size + self.tail

    def stand_in_line(self, demand: Demand, rank: int) -> None:
        """Let somebody wait behind all others of this rank; higher ranks are served first."""
        if self.ranks is None:
            self.ranks = {0: self.line}
        self.ranks.setdefault(rank, OrderedDict())[demand] = None
        self._find_the_foremost(self.ranks)

    def leave_line(self, demand: Demand) -> None:
        """Somebody waits no longer, in whichever line."""
        if self.ranks is None:
            self.line.pop(demand, None)
            return
        for line in self.ranks.values():
            line.pop(demand, None)
        self._find_the_foremost(self.ranks)

    def _find_the_foremost(self, ranks: dict[int, OrderedDict[Demand, None]]) -> None:
        for rank in [rank for rank, line in ranks.items() if rank and not line]:
            del ranks[rank]
        self.line = ranks[max((r for r in ranks if ranks[r]), default=0)]
        if len(ranks) == 1:
            self.ranks = None

    @property
    def live(self) -> int:
        """How many jobs are ready, waiting for their time, or run."""
        return self.size + self.tail + self.leased + self.scheduled + self.retrying

    def is_idle(self) -> bool:
        """Whether it has no jobs, no workers, nobody who waits for it, and no settings."""
        return not (
            self.live
            or self.dead
            or self.paused
            or self.servers
            or self.line
            or self.sleepers
            or self.light_sleepers
            or self.woken
        )

    def by_priority(self) -> dict[int, int]:
        """How many jobs of each priority are ready, in memory and in the tail."""
        holes = self._holes
        counts = {p: len(level) - holes.get(p, 0) for p, level in self._levels.items() if level}
        for priority, count in self.tail_levels.items():
            counts[priority] = counts.get(priority, 0) + count
        return counts

    def grow_tail(self, priority: int) -> None:
        """A ready job of this priority is in the tail now."""
        self.tail += 1
        self.tail_levels[priority] = self.tail_levels.get(priority, 0) + 1

    def shrink_tail(self, priority: int) -> None:
        """A ready job of this priority is in the tail no longer."""
        self.tail -= 1
        left = self.tail_levels.get(priority, 0) - 1
        if left > 0:
            self.tail_levels[priority] = left
        else:
            self.tail_levels.pop(priority, None)

    def belongs_to_tail(self, job: Job) -> bool:
        """Whether a ready job lies behind the mark."""
        return self.mark is not None and (job.priority, job.place) > self.mark

    def add(self, job: Job) -> None:
        """Put a ready job into the window at its place."""
        level = self._levels.get(job.priority)
        if level is None:
            level = self._levels[job.priority] = deque()
            self._order = sorted(self._levels)
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

        What may not go into the tail stays in the window behind the mark, and may be given before
        older jobs of its priority that lie in the tail, but not before more urgent ones.
        """
        for priority in self._order:
            if self._levels[priority]:
                urgent = self.tail and min(self.tail_levels) < priority
                return None if urgent else priority
        return None

    def gives(self) -> bool:
        """Whether the next job of the window may be given."""
        return self.size > 0 and (not self.tail or self.best_priority() is not None)

    def pop(self) -> Job:
        """Take the next job out of the window, which must not be empty."""
        for priority in self._order:
            level = self._levels[priority]
            if level:
                job = level.popleft()
                assert isinstance(job, Job)
                if self._holes:
                    self._trim(priority, level)
                self.size -= 1  # as `_left`, without a call: most jobs come here
                size = job.weight
                self.bytes_held -= size
                self.windows.bytes_held -= size
                return job
        raise AssertionError("pop from an empty window")

    def first(self) -> Job | None:
        """The next job in the window, left where it is."""
        for priority in self._order:
            level = self._levels[priority]
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
        self._left(job)

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
        into the tail stays in the window behind it. The caller puts what is returned into the tail.
        """
        dropped: list[Job] = []
        for priority in reversed(self._order):
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
        if dropped:
            self.mark_before(dropped[-1])
        return dropped

    def let_go(
        self, most: int, looks: int, may_leave: Callable[[Job], bool]
    ) -> tuple[list[Job], list[Job]]:
        """Drop the window's last jobs that may leave it, up to `most`; those, and who stays.

        The mark is set as by a cut. Looks at no more jobs than `looks`.
        """
        leaving: list[Job] = []
        staying: list[Job] = []
        for priority in reversed(self._order):
            level = self._levels[priority]
            before = len(staying)
            while level and len(leaving) < most and len(leaving) + len(staying) < looks:
                job = level.pop()
                if isinstance(job, Hole):
                    self._holes[priority] -= 1
                elif may_leave(job):
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
        if leaving:
            self.mark_before(leaving[-1])
        return leaving, staying

    def mark_before(self, job: Job) -> None:
        """Let the tail begin with this job at the latest."""
        before = (job.priority, job.place - 1)
        self.mark = before if self.mark is None else min(self.mark, before)

    def take_all(self) -> list[Job]:
        """Empty the window and forget the tail; returns what was in the window."""
        jobs = [
            job
            for priority in self._order
            for job in self._levels[priority]
            if isinstance(job, Job)
        ]
        self.forget_all()
        return jobs

    def forget_all(self) -> None:
        """Empty the window and forget the tail."""
        self._levels.clear()
        self._holes.clear()
        self._order = []
        self.windows.bytes_held -= self.bytes_held
        self.size = self.bytes_held = self.tail = self.crowd = 0
        self.tail_levels.clear()
        self.mark = None


def _place_of(job: Job | Hole) -> int:
    return job.place
