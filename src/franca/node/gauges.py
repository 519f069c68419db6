"""The node's timer, and what it measures of itself: the event loop's lag, commits, memory."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter, deque
from collections.abc import Callable

from franca.control.measured import COUNTED_AT_ONCE, Spread
from franca.core.history import bucket_of, percentile

TICK_S = 0.05
SAMPLES = 6_000
SAMPLE_S = 0.01
"""A minute of samples, one for each such span."""
COMMIT_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
GROUP_JOBS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
COMMITS_S = 30.0
"""Commits are told of since one to two such spans."""


class Gauges:
    """The last minute of lag samples, how long commits took lately, and counts since the start."""

    def __init__(self) -> None:
        self.commits = 0
        self.commit_spans = Spread(COMMIT_S)
        self.group_jobs = Spread(GROUP_JOBS)
        self._took: Counter[int] = Counter()
        self._took_before: Counter[int] = Counter()
        self._took_us: list[int] = []
        self._turns_at = 0.0
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

    def committed(self, took_s: float, now_s: float) -> None:
        """Note that a group is durable, and for how long the disk was waited for."""
        self.commits += 1
        self.commit_spans.add(took_s)
        self._took_us.append(int(took_s * 1_000_000))
        if len(self._took_us) >= COUNTED_AT_ONCE or now_s >= self._turns_at:
            self._count(now_s)

    def commit_ms(self, part: float, now_s: float) -> float | None:
        """What this part of the commits of the last minute did not exceed; None without any."""
        self._count(now_s)
        found = percentile(self._took_before + self._took, part)
        return None if found is None else found / 1_000

    def _count(self, now_s: float) -> None:
        if now_s >= self._turns_at:
            is_old = now_s >= self._turns_at + COMMITS_S
            self._took_before = Counter() if is_old else self._took
            self._took = Counter()
            self._turns_at = now_s + COMMITS_S
        self._took.update(map(bucket_of, self._took_us))
        self._took_us.clear()


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
    return resident_bytes() // (1 << 20)


def resident_bytes() -> int:
    """The same to the byte, as far as the system knows it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
