"""The clock: whole milliseconds that never go backwards, and how far the wall is from them.

It starts at the wall's time and then counts by the monotonic clock, so that somebody who sets
the machine's clock ends no lease. It drifts towards the wall by at most a tenth of real time.
"""

from __future__ import annotations

import time

from franca.core.model import Millis

DRIFT = 10


class SystemClock:
    """Milliseconds since 1970, as the machine's clock showed them at the start."""

    __slots__ = ("_drifted_at", "_offset_ms")

    def __init__(self) -> None:
        self._drifted_at = time.monotonic_ns() // 1_000_000
        self._offset_ms = time.time_ns() // 1_000_000 - self._drifted_at

    def now(self) -> Millis:
        """The time by which spans are measured."""
        return time.monotonic_ns() // 1_000_000 + self._offset_ms

    def wall_ahead_ms(self) -> int:
        """How far the wall clock is ahead of `now`; drifts towards it at each call."""
        monotonic = time.monotonic_ns() // 1_000_000
        ahead = time.time_ns() // 1_000_000 - monotonic - self._offset_ms
        most = (monotonic - self._drifted_at) // DRIFT
        step = max(-most, min(most, ahead))
        if most:
            self._offset_ms += step
            self._drifted_at = monotonic
            ahead -= step
        return ahead
