"""What a search asks for, as conditions that jobs, and counts of them, are held against."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self, TypeVar

from franca.core.history import BadCursor, Found, Search, end_of
from franca.core.model import NEVER, Job, JobId, JobQuery, Millis, State
from franca.store.ended import Ended

Key = tuple[int, int]
"""Where a job stands among those that are found, the first one lowest."""
AnyJob = TypeVar("AnyJob", Job, Ended)
ENDED = frozenset({State.DONE, State.CANCELLED})
"""States of jobs that only the history has."""
FIRST: Key = (-(2**65), 0)
_CURSOR = re.compile(r"([etin])(-?[0-9]{1,20})\.(-?[0-9]{1,20})", re.ASCII)


class Names(NamedTuple):
    """Names as they are, and beginnings of names."""

    exact: frozenset[str]
    begins: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether one of them is meant."""
        return name in self.exact or name.startswith(self.begins)

    def among(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these names that are meant."""
        found = self.exact.intersection(names)
        return found.union(filter(self.has, names)) if self.begins else found


class Order(NamedTuple):
    """How the jobs that are found follow each other; `letter` tells its cursors from others."""

    letter: str
    of_live: Callable[[Job], Key]
    of_ended: Callable[[Ended], Key]


BY_END = Order("e", lambda j: (-j.ended_at, -j.id), lambda j: (-j.ended_at, -j.id))
BY_TIME = Order("t", lambda j: (j.run_at, j.id), lambda j: (0, j.id))
NEWEST = Order("n", lambda j: (-j.id, 0), lambda j: (-j.id, 0))
OLDEST = Order("i", lambda j: (j.id, 0), lambda j: (j.id, 0))


class Criteria(NamedTuple):
    """What must be true of a job. None, and `NEVER`, say nothing."""

    states: frozenset[State] | None = None
    queues: Names | None = None
    kinds: Names | None = None
    names: frozenset[str] | None = None
    ids: frozenset[JobId] | None = None
    retried: bool | None = None
    since: Millis = NEVER
    until: Millis = NEVER

    @classmethod
    def of_search(cls, search: Search) -> Self:
        """Those of a search, but for `fits`."""
        return cls(
            frozenset(search.states) or None,
            _patterns(search.queues),
            _patterns(search.kinds),
            frozenset(search.names) or None,
            frozenset(search.ids) or None,
            search.retried,
            search.since,
            search.until,
        )

    @classmethod
    def of_query(cls, query: JobQuery) -> Self:
        """Those of a query, which names one queue and one kind as they are."""
        return cls(
            frozenset(query.states) or None,
            Names(frozenset({query.queue}), ()) if query.queue else None,
            Names(frozenset({query.kind}), ()) if query.kind else None,
            frozenset(query.names) or None,
            frozenset(query.ids) or None,
        )

    def wants_live(self) -> bool:
        """Whether a live job can be meant."""
        if self.since or self.until:
            return self.states is None or State.DEAD in self.states
        return self.states is None or not self.states <= ENDED

    def wants_ended(self) -> bool:
        """Whether a done or cancelled job can be meant."""
        return self.states is None or bool(self.states & ENDED)

    def number(self, done: int, cancelled: int) -> int:
        """How many of these have a state that is meant."""
        states = self.states
        return (done if states is None or State.DONE in states else 0) + (
            cancelled if states is None or State.CANCELLED in states else 0
        )

    def are_counted(self) -> bool:
        """Whether these say nothing but queues, kinds and states."""
        return not (self.names or self.ids or self.since or self.until)

    def among(self, jobs: Iterable[AnyJob]) -> list[AnyJob]:
        """Those that are meant. Condition by condition: there may be very many jobs."""
        found = list(jobs)
        if self.ids is not None:
            found = [job for job in found if job.id in self.ids]
        if self.names is not None:
            found = [job for job in found if job.name in self.names]
        if self.states is not None:
            found = [job for job in found if job.state in self.states]
        if self.queues is not None:
            found = [job for job in found if self.queues.has(job.queue)]
        if self.kinds is not None:
            found = [job for job in found if self.kinds.has(job.kind)]
        if self.retried is not None:
            found = [job for job in found if _is_retried(job) in (self.retried, None)]
        if self.since:
            found = [job for job in found if (_end_of(job) or 0) >= self.since]
        if self.until:
            found = [job for job in found if 0 < (_end_of(job) or self.until) < self.until]
        return found


def order_of_search(search: Search) -> Order:
    """By end, by time, or by id, as its states say."""
    states = frozenset(search.states)
    if states and states <= ENDED:
        return BY_END
    return BY_TIME if states == {State.WAITING} else NEWEST


def cursor_of(order: Order, key: Key) -> str:
    """The text that says: go on behind this place."""
    return f"{order.letter}{key[0]}.{key[1]}"


def read_cursor(order: Order, cursor: str) -> Key:
    """The place that a search is to go on behind. `BadCursor` if it is none of this order."""
    if not cursor:
        return FIRST
    match = _CURSOR.fullmatch(cursor)
    if match is None or match[1] != order.letter:
        raise BadCursor("the cursor is not one of such a search")
    key = int(match[2]), int(match[3])
    if order is not BY_END and max(map(abs, key)) >= 2**63:  # a statement cannot say it
        raise BadCursor("the cursor is not one of such a search")
    return key


def put_together(
    found: Found, search: Search, entries: list[tuple[Key, Job]], reached: list[Key | None]
) -> None:
    """Fill in a page: what was found as far as all of it was found, the later of two entries."""
    order = order_of_search(search)
    end = min((key for key in reached if key is not None), default=None)
    by_id = {job.id: (key, job) for key, job in entries}
    ordered = sorted(by_id.values(), key=lambda entry: entry[0])
    complete = [entry for entry in ordered if end is None or entry[0] <= end]
    page = complete[: search.limit]
    found.jobs = [job for _, job in page]
    if len(complete) > search.limit:
        found.cursor = cursor_of(order, page[-1][0])
    elif end is not None:
        found.cursor = cursor_of(order, end)
    if search.body_bytes >= 0:
        for job in found.jobs:
            job.body = job.body[: search.body_bytes]


def _patterns(entries: tuple[str, ...]) -> Names | None:
    if not entries:
        return None
    begins = tuple(entry[:-1] for entry in entries if entry.endswith("*"))
    return Names(frozenset(entry for entry in entries if not entry.endswith("*")), begins)


def _is_retried(job: Job | Ended) -> bool | None:
    """None if it does not wait."""
    return bool(job.failures or job.losses) if job.state is State.WAITING else None


def _end_of(job: Job | Ended) -> Millis:
    return job.ended_at if isinstance(job, Ended) else end_of(job)
