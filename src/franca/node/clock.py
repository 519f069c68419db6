"""The clock: whole milliseconds that never go backwards, and how far the wall is from them.

It starts at the wall's time and then counts by the monotonic clock, so that somebody who sets
the machine's clock ends no lease. It drifts towards the wall by at most a tenth of real time.
"""

from __future__ import annotations

import time

from franca.core.model import Millis

DRIFT = 10
STEP_MS_MAX = 100
"""The largest step towards the wall at once: a process that was stopped for an hour must not make
up for it by standing still for minutes."""


class SystemClock:
    """Milliseconds since 1970, as the machine's clock showed them at the start."""

    __slots__ = ("_drifted_at", "_last", "_offset_ms")

    def __init__(self) -> None:
        self._drifted_at = time.monotonic_ns() // 1_000_000
        self._offset_ms = time.time_ns() // 1_000_000 - self._drifted_at
        self._last: Millis = 0

    def now(self) -> Millis:
        """The time by which spans are measured. It stands still while it drifts back."""
        now = time.monotonic_ns() // 1_000_000 + self._offset_ms
        if now < self._last:
            return self._last
        self._last = now
        return now

    def wall_ahead_ms(self) -> int:
        """How far the wall clock is ahead of `now`; drifts towards it at each call."""
        monotonic = time.monotonic_ns() // 1_000_000
        wall = time.time_ns() // 1_000_000
        most = min((monotonic - self._drifted_at) // DRIFT, STEP_MS_MAX)
        if most:
            ahead = wall - monotonic - self._offset_ms
            self._offset_ms += max(-most, min(most, ahead))
            self._drifted_at = monotonic
        # Seen from `now` as it is told: nobody may think the wall to be later than it is.
        return wall - self.now()
