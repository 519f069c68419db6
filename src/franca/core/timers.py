"""Timers in buckets: things that end at about a moment, kept by the slice of time they end in.

A bucket is told due when all of its slice is over, so nothing is ever early and nothing is
later than one slice. Adding and removing are dictionary operations: a heap costs half as much
again, and most timers are removed before they ring. Knows nothing of what a timer means.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from typing import Generic, TypeVar

from franca.core.model import Millis

T = TypeVar("T", bound=Hashable)
_SPARE_NUMBERS = 1_000
"""Numbers of buckets that are gone that may lie in the heap besides the others."""


class Buckets(Generic[T]):
    """Items by the slice of `tick_ms` in which they fall due."""

    __slots__ = ("_buckets", "_heap", "tick_ms")

    def __init__(self, tick_ms: int) -> None:
        self.tick_ms = tick_ms
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        # Members in order of arrival: a set would ring them in another order each run.
        self._buckets: dict[int, dict[T, None]] = {}
        self._heap: list[int] = []

    def add(self, item: T, at: Millis) -> int:
        """Note `item` as due at `at`; returns the bucket, which `discard` wants back."""
        bucket = at // self.tick_ms
        members = self._buckets.get(bucket)
        if members is None:
            self._buckets[bucket] = {item: None}
            heappush(self._heap, bucket)
        else:
            members[item] = None
        return bucket

    def discard(self, item: T, bucket: int) -> None:
        """Forget `item`; nothing happens if its bucket has already rung."""
        members = self._buckets.get(bucket)
        if members is not None:
            members.pop(item, None)
            if not members:
                del self._buckets[bucket]  # its number stays in the heap, but not with too many
                if len(self._heap) > 2 * len(self._buckets) + _SPARE_NUMBERS:
                    self._heap = list(self._buckets)
                    heapify(self._heap)

    def __iter__(self) -> Iterator[T]:
        """All items, in the order in which their buckets were made."""
        return chain.from_iterable(self._buckets.values())

    def due(self, now: Millis, most: int = 1 << 60) -> list[T]:
        """Take out up to `most` items whose slice is over by `now`, in order of slices."""
        over = now // self.tick_ms
        found: list[T] = []
        while self._heap and self._heap[0] < over and len(found) < most:
            members = self._buckets.get(self._heap[0], {})
            some = list(islice(members, most - len(found)))
            found += some
            if len(some) == len(members):
                self._buckets.pop(heappop(self._heap), None)
            else:
                for item in some:
                    del members[item]
        return found

    def next_at(self) -> Millis | None:
        """The moment at which the next bucket rings, or None."""
        while self._heap and self._heap[0] not in self._buckets:
            heappop(self._heap)
        return (self._heap[0] + 1) * self.tick_ms if self._heap else None
