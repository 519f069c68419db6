"""What a server measures of itself, for whoever watches it from outside."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

COUNTED_AT_ONCE = 256


class Spread:
    """How many values there were, by upper bounds that belong to their parts, and their sum.

    Values are counted many at a time: each group of changes brings some.
    """

    __slots__ = ("_counts", "_new", "_sum", "bounds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._new: list[float] = []

    def add(self, value: float) -> None:
        """One more value."""
        self._new.append(value)
        if len(self._new) >= COUNTED_AT_ONCE:
            self._count()

    @property
    def counts(self) -> list[int]:
        """How many there were up to each bound that were above the one before it."""
        self._count()
        return self._counts

    @property
    def sum(self) -> float:
        """All values together."""
        self._count()
        return self._sum

    def _count(self) -> None:
        values = sorted(self._new)
        below = 0
        for place, bound in enumerate(self.bounds):
            up_to = bisect_right(values, bound)
            self._counts[place] += up_to - below
            below = up_to
        self._counts[-1] += len(values) - below
        self._sum += sum(values)
        self._new.clear()


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
