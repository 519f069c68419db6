"""Searches through the history of ended jobs: segments that can have none that fits stay unread.

What lies behind the last segment is always read, and of the segments one after the other, in the
order that is asked for. A look ends when nothing unread can come before what was found, or when
enough was read: then it says how far it came.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter

from franca.core.model import Job
from franca.store.criteria import BY_END, NEWEST, OLDEST, Criteria, Key, Order
from franca.store.ended import Ended, job_of, read_piece
from franca.store.rows import Row
from franca.store.segments import (
    KEY_COLUMNS,
    SEGMENT_COLUMNS,
    Segment,
    name_sum,
    read_keys,
    read_segment,
)

_FAR = 1 << 64
_SEGMENTS = f"SELECT {SEGMENT_COLUMNS} FROM segments ORDER BY id"
_KEYS = f"SELECT {KEY_COLUMNS} FROM segments WHERE id = ?"
_PIECES = "SELECT * FROM ended WHERE id >= ? AND id <= ? ORDER BY id"
_SURPLUS = 1_000
"""So many more than are asked for are gathered before they are sorted out."""


@dataclass(slots=True)
class Look:
    """A look through the history: for what, in which order, from behind which place.

    `reached` is a place up to which all that fits was found; None if there is nothing behind. Of
    `of` jobs that may fit `looked_at` were looked at. `total` is how many fit in all, if the index
    says so.
    """

    criteria: Criteria
    order: Order
    after: Key
    limit: int
    look_max: int = _FAR
    fits: Callable[[Job], bool] | None = None
    check: Callable[[], None] = lambda: None
    looked_at: int = 0
    of: int = 0
    total: int | None = None
    reached: Key | None = None
    found: list[tuple[Key, Ended]] = field(default_factory=list)

    def jobs(self) -> list[tuple[Key, Job]]:
        """What was found and is complete, in order, at most `limit`."""
        self._sort_out()
        reached = self.reached
        return [(key, job_of(e)) for key, e in self.found if reached is None or key <= reached]

    def through(self, db: sqlite3.Connection) -> None:
        """Read what must be read, in an open transaction. ValueError if any of it is damaged."""
        segments = [read_segment(row) for row in db.execute(_SEGMENTS)]
        behind = segments[-1].id + 1 if segments else -_FAR >> 2
        fresh = _jobs_of(db.execute(_PIECES, (behind, _FAR >> 2)))
        self._take(fresh)
        if self.criteria.are_counted() and self.fits is None:
            self.total = len(self.criteria.among(fresh))
        parts = [part for segment in segments if (part := self._part(segment)) is not None]
        self.of = len(fresh) + sum(segment.jobs for _, _, segment in parts)
        taken = 0
        for first, _, segment in sorted(parts, key=itemgetter(0, 1)):
            self.check()
            if self._is_enough(first, taken):
                self.reached = (first[0], first[1] - 1)
                return
            if pieces := self._pieces(db, segment):
                self._take(pieces)
                taken += 1

    def _part(self, segment: Segment) -> tuple[Key, int, Segment] | None:
        """A segment that can have jobs that fit, and the first place that one of them can have."""
        number = _number(segment, self.criteria)
        if number == 0:
            return None
        self.total = None if number is None or self.total is None else self.total + number
        first, last = _ends(segment, self.order)
        if last <= self.after or not self._may_have(segment):
            return None
        return max(first, self.after), segment.id, segment

    def _may_have(self, segment: Segment) -> bool:
        criteria = self.criteria
        if criteria.since and segment.max_at < criteria.since:
            return False
        if criteria.until and segment.min_at >= criteria.until:
            return False
        if criteria.ids is None:
            return True
        ids = sorted(criteria.ids)
        place = bisect_left(ids, segment.min_id)
        return place < len(ids) and ids[place] <= segment.max_id

    def _is_enough(self, first: Key, taken: int) -> bool:
        """Whether the page is full of what comes before `first`, or enough was looked at."""
        if len(self.found) >= self.limit:
            self._sort_out()
            if self.found[-1][0] < first:
                return True
        # A page that ends where the one before did would be followed by the same without end.
        goes_on = (first[0], first[1] - 1) > self.after
        return bool(taken) and self.looked_at >= self.look_max and goes_on

    def _pieces(self, db: sqlite3.Connection, segment: Segment) -> list[Ended]:
        """The jobs of a segment, but for pieces that cannot have one that fits."""
        criteria = self.criteria
        if criteria.ids is None and criteria.names is None:
            jobs = _jobs_of(db.execute(_PIECES, (segment.first_piece, segment.id)))
            if len(jobs) != segment.jobs:
                raise ValueError("a part of the history of ended jobs is missing")
            return jobs
        keys = read_keys(segment, db.execute(_KEYS, (segment.id,)).fetchone())
        wanted, values = criteria.ids, keys.ids
        if wanted is None:
            wanted, values = frozenset(map(name_sum, criteria.names or ())), keys.names
        if wanted.isdisjoint(values):
            return []
        places = [place for place, value in enumerate(values) if value in wanted]
        jobs = []
        for number in sorted(keys.pieces_of(places)):
            piece = segment.first_piece + number
            jobs += (found := _jobs_of(db.execute(_PIECES, (piece, piece))))
            if len(found) != keys.sizes[number]:
                raise ValueError("a part of the history of ended jobs is missing")
        return jobs

    def _take(self, jobs: list[Ended]) -> None:
        self.looked_at += len(jobs)
        place, after, fits = self.order.of_ended, self.after, self.fits
        keyed = [(place(job), job) for job in self.criteria.among(jobs)]
        keyed = [entry for entry in keyed if entry[0] > after]
        if fits is not None:
            keyed = [entry for entry in keyed if fits(job_of(entry[1]))]
        self.found += keyed
        if len(self.found) > self.limit + _SURPLUS:
            self._sort_out()

    def _sort_out(self) -> None:
        self.found.sort(key=itemgetter(0))
        del self.found[self.limit :]


def _number(segment: Segment, criteria: Criteria) -> int | None:
    """How many of its jobs have a queue, a kind and a state that are meant; None if unknown."""
    number = criteria.number(segment.jobs - segment.cancelled, segment.cancelled)
    queues, kinds = criteria.queues, criteria.kinds
    if not number or (queues is None and kinds is None):
        return number
    counts = segment.counted()
    if queues is not None and kinds is not None:
        if counts.both is not None:
            fitting = [
                n for queue, kind, *n in counts.both if queues.has(queue) and kinds.has(kind)
            ]
            return sum(criteria.number(*n) for n in fitting)
        has_queue = counts.queues is None or queues.among(counts.queues)
        return None if has_queue and (counts.kinds is None or kinds.among(counts.kinds)) else 0
    names, of = (kinds, counts.kinds) if queues is None else (queues, counts.queues)
    if of is None or names is None:
        return None
    return sum(criteria.number(*of[name]) for name in names.among(of))


def _jobs_of(rows: Iterable[Row]) -> list[Ended]:
    return [job for row in rows for job in read_piece(row)]


def _ends(segment: Segment, order: Order) -> tuple[Key, Key]:
    """Places between which all jobs of a segment are."""
    if order is BY_END:
        return (-segment.max_at, -_FAR), (-segment.min_at, _FAR)
    if order is NEWEST:
        return (-segment.max_id, 0), (-segment.min_id, 0)
    if order is OLDEST:
        return (segment.min_id, 0), (segment.max_id, 0)
    return (-_FAR, 0), (_FAR, 0)
