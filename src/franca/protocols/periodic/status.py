"""STATUS: every function in a line of text, counted from the same source as any other tool's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator
from functools import partial
from heapq import merge
from itertools import islice
from typing import Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.model import Millis, State
from franca.core.names import raw_of
from franca.protocols.overview import KEPT_MS, LONG, Overview
from franca.protocols.periodic.auth import Rule
from franca.protocols.periodic.dialect import BaseDialect

LISTED_A_TICK: Final = 5_000
"""Functions listed between two ticks; whoever asks then may be sent what another was sent."""
LISTINGS_MAX: Final = 16
"""Listings that are kept for a moment: one for each dialect, and for each name with rights."""
LISTED_AT_ONCE: Final = 1_000
"""Functions listed during one turn."""
# What would end a line or a column inside a name is written so that it cannot: one function with
# an odd name must not break the listing of all others.
_ODD: Final = ((b"%", b"%25"), (b",", b"%2C"), (b"\n", b"%0A"), (b"\r", b"%0D"))


class Listing(Struct):
    """The data of an answer. A long one takes several turns to make."""

    data: bytes
    is_long: bool


class WaitingJobs:
    """How many jobs of each function wait for a lock, and when the next falls due, as it was
    `seen_at`. Finding it out takes a look at every job that waits.
    """

    def __init__(self, broker: Broker, now: Millis) -> None:
        self.seen_at = now
        jobs = map(broker.jobs.get, broker.locks.waits_for)
        self.locked = Counter(job.queue for job in jobs if job and job.state is State.WAITING)
        self.next_at = broker.waiting.earliest()
        self.are_many = broker.waiting.size + len(broker.locks.waits_for) > LONG


class Listings:
    """Listings of all functions: those of the broker, and those that only workers have named."""

    def __init__(self, broker: Broker, funcs: Collection[str]) -> None:
        self._broker = broker
        self._funcs = funcs
        self._overviews: dict[tuple[str, Rule | None], Overview[Listing]] = {}
        self._waiting: WaitingJobs | None = None
        self._listed = 0

    def tick(self, now: Millis) -> None:
        """Drop what is too old."""
        self._listed = 0
        if self._waiting is not None and now - self._waiting.seen_at >= KEPT_MS:
            self._waiting = None
        for overview in self._overviews.values():
            overview.forget(now)

    def listing(
        self, dialect: BaseDialect, rule: Rule | None, now: Millis
    ) -> Generator[None, Millis, Listing]:
        """Every function that a peer with these rights may know of.

        A long list is made in slices, once for all who ask meanwhile, and may be as old as it took
        to make it, or a second older: it costs everybody time, however many ask for it. So may any
        list while very much is listed.
        """
        key = (dialect.name, rule)
        overview = self._overviews.get(key)
        if overview is None:
            if len(self._overviews) >= LISTINGS_MAX:
                del self._overviews[next(iter(self._overviews))]
            overview = self._overviews[key] = Overview(partial(self._make, dialect, rule))
        listing = overview.kept(now)
        if listing is not None and not listing.is_long and self._listed <= LISTED_A_TICK:
            listing = overview.step(now)
        return listing or (yield from overview.wait(now))

    def _make(
        self, dialect: BaseDialect, rule: Rule | None, now: Millis
    ) -> Generator[None, None, Listing]:
        """The listing, a slice between two stops; a short one has none."""
        queues = self._broker.queues
        names = [*queues, *(func for func in self._funcs if func not in queues)]
        is_long = len(names) > LONG
        if self._waiting is None or not self._waiting.are_many:
            self._waiting = WaitingJobs(self._broker, now)
        waiting = self._waiting
        runs: list[list[str]] = []
        for start in range(0, len(names), LISTED_AT_ONCE):
            if is_long:
                yield
            runs.append(sorted(filter(self._is_listed, names[start : start + LISTED_AT_ONCE])))
        in_order = merge(*runs)
        lines: list[bytes] = []
        while batch := list(islice(in_order, LISTED_AT_ONCE)):
            if is_long:
                yield
            self._listed += len(batch)
            allowed = batch if rule is None else filter(rule.allows, batch)
            lines += [self._line(name, waiting, now, dialect.columns) for name in allowed]
        return Listing(dialect.status(lines), is_long)

    def _is_listed(self, name: str) -> bool:
        """Whether it is a function: a queue with no job yet is one if a worker has named it."""
        queue = self._broker.queues.get(name)
        return name in self._funcs or (queue is not None and (queue.listed or queue.servers > 0))

    def _line(self, func: str, waiting: WaitingJobs, now: Millis, columns: int) -> bytes:
        """The first columns of: name, workers, jobs, running, locked, and the earliest time.

        With five, the time stands in the fifth: locks were not known yet.
        """
        queue = self._broker.queues.get(func)
        workers = jobs = running = locked = 0
        sched_at = self._broker.wall(now)
        if queue is not None:
            workers, jobs, running = queue.servers, queue.live, queue.leased
            locked = waiting.locked[func]
            first = queue.first()
            if first is not None:
                sched_at = first.run_at or self._broker.wall(first.ready_at)
            elif func in waiting.next_at:
                sched_at = waiting.next_at[func]
        numbers = [workers, jobs, running, locked, sched_at // 1000]
        if columns == 5:
            del numbers[3]
        name = raw_of(func)
        if b"," in name or b"\n" in name or b"\r" in name:
            for odd, written in _ODD:
                name = name.replace(odd, written)
        return b",".join([name, *(b"%d" % number for number in numbers[: columns - 1])])
