"""What a store is. It is told what happened; it decides nothing and calls no clock.

A group of changes is written, may be read behind, and is then committed. The three steps are
apart so that the cheap ones can run on the server's own thread, where no other thread competes
for the interpreter, and only the wait for the disk runs on another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from franca.core.changes import Changes, IdempotencyKey
from franca.core.history import Found, Past, Rates, RatesQuery, Search, Tallies
from franca.core.model import BacklogCount, Job, JobQuery, Millis, State
from franca.core.wants import Snapshot, Want


class StoreError(Exception):
    """The store cannot keep its promise. Whether the last group is durable is unknown."""


class StoreBusy(StoreError):
    """Another server holds this store."""


class StoreDamaged(StoreError):
    """What the store holds is not what was written to it."""


class StoreFull(StoreError):
    """No room on the disk, and none could be made. The group is not durable."""


class Bounds(NamedTuple):
    """How much of the past a store keeps: whichever is passed first."""

    jobs: int
    bytes: int = 1 << 40
    ms: Millis = 1 << 40
    keys: int = 1 << 40


KEPT = Bounds(10_000)


class Store(Protocol):
    """Jobs on two shelves, queues, schedules, counts, and a bounded history of ended jobs."""

    instant: bool = False
    """Whether `commit` returns at once, so that no thread is needed for it."""
    quick: bool = False
    """Whether `commit` is mostly so quick that waiting for it costs less than handing it over."""

    def open(self) -> Snapshot:
        """What a broker must remember at birth. `StoreDamaged` rather than a wrong memory."""

    def write(self, changes: Changes, wants: Sequence[Want]) -> list[list[Job]]:
        """Put a group into the store, and read what is wanted as it is behind that group.

        The first wants are answered, at least one; the others only as long as the bodies that were
        read have not more bytes than one want may bring.
        """

    def prepare(self, changes: Changes) -> None:
        """Take a group that is long to write, and leave the writing to `commit`.

        The jobs in it may change as soon as this has returned.
        """
        self.write(changes, ())

    def commit(self) -> None:
        """Make durable what was written or prepared. A failure leaves it unknown whether it is."""

    def tidy(self) -> None:
        """Housekeeping between two groups; may take a while, and may do nothing."""
        return

    def wants_tidying(self) -> bool:
        """Whether `tidy` has something to do. Asked after each group."""
        return False

    def has_leftovers(self) -> bool:
        """Whether `tidy` has something to do that can wait. Asked when there are no groups."""
        return False

    def find(self, query: JobQuery) -> list[Job]:
        """Committed jobs that fit, ended ones included. May be called on another thread."""

    def search(self, search: Search) -> Found:
        """The same, with more conditions, and only as far as it is looked at in one go.

        May be called on another thread. `BadCursor` if no answer has named that place.
        """

    def find_keys(self, keys: Sequence[str]) -> list[IdempotencyKey]:
        """Those of these idempotency keys that are committed and remembered, also when over.

        May be called on another thread.
        """

    def past(self) -> Past:
        """What is kept of ended jobs, counted and not looked for."""

    def note(self, at: Millis, queues: Tallies, kinds: Tallies) -> None:
        """Have what the store cannot know counted with the rates, each time since the last.

        Once a minute or less often; the last may be lost if the server is killed.
        """

    def rates(self, query: RatesQuery) -> Rates:
        """What happened to the jobs of queues or kinds. May be called on another thread.

        Minutes are kept for a day, hours for a month.
        """

    def backup(self, path: str, spare_bytes: int = 0) -> None:
        """A whole and consistent copy, as a file. May be called on another thread.

        `StoreFull`, and nothing was written, if its disk has no room for `spare_bytes` beside it.
        """

    def end_reading(self) -> None:
        """End searches and copies that other threads are at. Returns when none is left."""
        return

    def close(self) -> None:
        """Leave the store tidy. Nothing may be called after it."""


def fits(job: Job, query: JobQuery) -> bool:
    """Whether a job is one that the query asks for, behind the page before."""
    after = query.after
    is_behind = job.id < after if query.newest_first else job.id > after
    return (
        (is_behind or not after or query.by_time)
        and (not query.states or job.state in query.states)
        and (not query.queue or job.queue == query.queue)
        and (not query.kind or job.kind == query.kind)
        and (not query.names or job.name in query.names)
        and (not query.ids or job.id in query.ids)
    )


def order_of(query: JobQuery) -> Callable[[Job], tuple[int, int]]:
    """The key by which the jobs that fit are sorted."""
    if query.by_time:
        return lambda job: (job.run_at, job.id)
    if query.newest_first:
        return lambda job: (-job.id, 0)
    return lambda job: (job.id, 0)


def count_timed(
    count: BacklogCount, state: State, has_failed: bool, kept: bool, number: int = 1
) -> None:
    """Count jobs of a queue that are not ready; dead ones may be kept for good."""
    waiting = "retrying" if has_failed else "scheduled"
    name = {State.LEASED: "leased", State.DEAD: "dead"}.get(state, waiting)
    setattr(count, name, getattr(count, name) + number)
    count.kept_dead += number * (kept and state is State.DEAD)
