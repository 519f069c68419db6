"""What the node measures of itself: the event loop's lag, commits, memory."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import deque

SAMPLES = 6_000
SAMPLE_S = 0.01


class Gauges:
    """The last minute of lag samples, and counts since the start."""

    def __init__(self) -> None:
        self.commits = 0
        self._last = 0.0
        self._lags: deque[float] = deque(maxlen=SAMPLES)
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure the lag of this loop until `stop`."""
        self._timer = loop.call_later(SAMPLE_S, self.start, loop)
        self.sample(time.monotonic(), SAMPLE_S)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def sample(self, now_s: float, expected_s: float) -> None:
        """Note how much later than expected a timer rang.

        One that rang very late stands for all that would have rung meanwhile: without them a
        second of standstill would be one sample among thousands.
        """
        if self._last:
            lag = max(0.0, now_s - self._last - expected_s)
            missed = min(int(lag / expected_s), SAMPLES)
            self._lags.extend(lag - expected_s * number for number in range(missed + 1))
        self._last = now_s

    def lag_p99_ms(self) -> float:
        """The 99th percentile of the event loop's lag over the last minute."""
        if not self._lags:
            return 0.0
        ordered = sorted(self._lags)
        return round(ordered[int(len(ordered) * 0.99)] * 1000, 2)


def memory_mb() -> int:
    """Resident memory of this process."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() // (1 << 20)
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
