"""The node's timer, and what it measures of itself: the event loop's lag, commits, memory."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import deque
from collections.abc import Callable

TICK_S = 0.05
SAMPLES = 6_000
SAMPLE_S = 0.01
"""A minute of samples, one for each such span."""


class Gauges:
    """The last minute of lag samples, and counts since the start."""

    def __init__(self) -> None:
        self.commits = 0
        self._last = 0.0
        self._lags: deque[float] = deque(maxlen=SAMPLES)

    def sample(self, now_s: float, expected_s: float) -> None:
        """Note that a timer rang, which was expected to after so long, and by how much too late.

        It stands for all that could have rung since the last one: without them a second of
        standstill would be one sample among thousands.
        """
        if self._last:
            passed = now_s - self._last
            lag = max(0.0, passed - expected_s)
            self._lags.extend([lag] * max(1, round(min(passed, expected_s) / SAMPLE_S)))
            missed = min(int(lag / SAMPLE_S), SAMPLES)
            self._lags.extend(lag - SAMPLE_S * number for number in range(1, missed + 1))
        self._last = now_s

    def lag_p99_ms(self) -> float:
        """The 99th percentile of the event loop's lag over the last minute."""
        if not self._lags:
            return 0.0
        ordered = sorted(self._lags)
        return round(ordered[int(len(ordered) * 0.99)] * 1000, 2)


class Ticker:
    """Calls `tick` again and again: after so long as it says, or sooner if something happens."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tick: Callable[[], float], gauges: Gauges
    ) -> None:
        self._loop = loop
        self._tick = tick
        self._gauges = gauges
        self._start(TICK_S)

    def _start(self, span_s: float) -> None:
        self.span_s = span_s
        self._timer = self._loop.call_later(span_s, self._ring)

    def _ring(self) -> None:
        self._gauges.sample(time.monotonic(), self.span_s)
        self._start(TICK_S)  # first, so that it goes on whatever `tick` raises
        span_s = self._tick()
        if span_s > TICK_S:
            self._timer.cancel()
            self._start(span_s)

    def wake(self) -> None:
        """Cut a long sleep short."""
        if self.span_s > TICK_S:
            self._gauges.sample(time.monotonic(), self.span_s)
            self._timer.cancel()
            self._start(TICK_S)

    def cancel(self) -> None:
        """Call it no more."""
        self._timer.cancel()


def memory_mb() -> int:
    """Resident memory of this process."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() // (1 << 20)
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
