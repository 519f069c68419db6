"""How long jobs waited and ran, and how they ended by type: of the store's rates of each minute.

The store counts in minutes; a counter is the sum of all whole minutes since the server started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator
from typing import Final

from franca.control.port import NodePort
from franca.core.history import MINUTE_MS, OTHER, RatesQuery, Tallies, Tally
from franca.core.model import Millis
from franca.web.metric_queues import NAMES_MAX, fits

SETTLED_MS: Final = 10_000
"""A minute is counted so long after it is over: groups that are on their way are in it too."""
CATCH_UP_MS: Final = 60 * MINUTE_MS
"""Minutes that are counted late; if nobody asked for longer, earlier ones are left out."""
BOUNDS: Final = tuple((2 * digits, str(2**digits / 1_000)) for digits in range(2, 25, 2))
"""The store's buckets up to which each of ours goes, and its upper bound: 4 ms to 4.7 h."""


class TallySeries:
    """What the store's rates say of queues or of kinds, summed by name."""

    def __init__(self, of: str, since: Millis) -> None:
        self.by_name: Tallies = {}
        self._of = of
        self._until = since // MINUTE_MS * MINUTE_MS

    async def take(self, node: NodePort, named: Container[str] | None = None) -> None:
        """Count the minutes that are over. With `named`, no others have a series of their own."""
        if named is not None:
            for name in [one for one in self.by_name if one not in named and one != OTHER]:
                del self.by_name[name]
        until = (node.clock_ms() - SETTLED_MS) // MINUTE_MS * MINUTE_MS
        since = max(self._until, until - CATCH_UP_MS)
        if since >= until:
            return
        rates = await node.rates(RatesQuery(since, until, MINUTE_MS, self._of))
        for at, step in zip(rates.at, rates.steps, strict=True):
            if since <= at < until:
                for name, tally in (step or {}).items():
                    self._total(name, named).add(tally)
                self._until = at + MINUTE_MS
                await asyncio.sleep(0)
        self._until = until

    def _total(self, name: str, named: Container[str] | None) -> Tally:
        if name not in self.by_name:
            may = len(self.by_name) < NAMES_MAX and fits(name) if named is None else name in named
            if not may:
                name = OTHER
        return self.by_name.setdefault(name, Tally(waits={}, runs={}))


def cumulated(buckets: dict[int, int]) -> Iterator[tuple[str, int]]:
    """How many are up to each bound, the last of which has all."""
    ordered = sorted(buckets.items())
    count = place = 0
    for bucket, bound in BOUNDS:
        while place < len(ordered) and ordered[place][0] <= bucket:
            count += ordered[place][1]
            place += 1
        yield bound, count
    yield "+Inf", sum(buckets.values())
