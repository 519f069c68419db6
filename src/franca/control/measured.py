"""What a server measures of itself, for whoever watches it from outside."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct


class Spread:
    """How many values there were, by upper bounds that belong to their parts, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Measured(Struct, kw_only=True):
    """The process, its disk, and the groups of changes that it has written since the start.

    `commits` has how many seconds each took, `groups` how many jobs had changed in each. What is
    not known is None: a store in memory has no bytes on a disk.
    """

    version: str
    store: str
    started_at_s: float
    cpu_s: float
    resident_bytes: int
    store_bytes: int | None
    disk_bytes: int | None
    disk_free_bytes: int | None
    commits: Spread
    groups: Spread
    loop_lag_s: float
    peers_refused: int
