"""How much happened lately: counters of the broker, looked at every 15 s, and kept for an hour.

Pure: the time and the counters are arguments. What is between two samples is what the counters have
grown by, so that nothing is counted here and nothing on the way of a job. Where no sample was taken
in time there is a gap.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

from msgspec import Struct

from franca.control.shapes import Recent
from franca.core.history import OTHER, Tallies, Tally
from franca.core.model import Millis

SAMPLE_MS = 15_000
KEPT = 240
"""Samples that are kept: those of an hour."""
QUEUES_MAX = 1_000
"""Queues that are looked at one by one; of further ones only their sum is known."""
MINUTE = 4
"""Samples in a minute, over which rates are told."""
RECENT = 40
"""Samples in the small charts beside a name."""
LATE_MS = 3 * SAMPLE_MS
"""A sample that comes later than this after the one before it is behind a gap."""


class Counters(Struct):
    """What has been counted since the start, and how many jobs are ready."""

    pushed: int = 0
    done: int = 0
    failed: int = 0
    ready: int = 0


class PerSecond(Struct):
    """Jobs a second."""

    pushed: float
    done: float
    failed: float


class Line:
    """What is kept of one queue, or of all together: what each sample has grown by."""

    __slots__ = ("done", "failed", "last", "pushed", "ready", "seen", "since")

    def __init__(self, first: Counters, sample: int) -> None:
        self.pushed, self.done, self.failed, self.ready = (
            array("I", bytes(4 * KEPT)) for _ in range(4)
        )
        self.last = first
        self.since = sample
        self.seen = sample

    def put(self, sample: int, now: Counters) -> None:
        """A sample: counters that were set back count from zero."""
        last, place = self.last, sample % KEPT
        self.pushed[place] = _grown(last.pushed, now.pushed)
        self.done[place] = _grown(last.done, now.done)
        self.failed[place] = _grown(last.failed, now.failed)
        self.ready[place] = min(now.ready, 0xFFFFFFFF)
        self.last = now
        self.seen = sample


def _grown(before: int, now: int) -> int:
    return min(now - before if now >= before else now, 0xFFFFFFFF)


class Rates:
    """The samples of the last hour. A sample is begun, given its lines one by one, and is there.

    `number` counts samples. `_left_out` is whether there were more queues at the one before than
    are looked at; `_times` has when each was begun.
    """

    def __init__(self) -> None:
        self.number = 0
        self.all: Line | None = None
        self.queues: dict[str, Line] = {}
        self._left_out = self._leaves_out = False
        self._times: list[Millis] = [0] * (KEPT + 1)

    def is_due(self, now: Millis) -> bool:
        """Whether it is time for the next sample."""
        return not self.number or now - self._times[self.number % (KEPT + 1)] >= SAMPLE_MS

    def begin(self, now: Millis, total: Counters) -> None:
        """The next sample, of all queues together."""
        self.number += 1
        self._left_out, self._leaves_out = self._leaves_out, False
        self._times[self.number % (KEPT + 1)] = now
        if self.all is None:
            self.all = Line(total, self.number)
        else:
            self.all.put(self.number, total)

    def put(self, name: str, counters: Counters) -> None:
        """What is known of a queue at this sample; one too many is left out."""
        line = self.queues.get(name)
        if line is not None:
            line.put(self.number, counters)
        elif len(self.queues) >= QUEUES_MAX:
            self._leaves_out = True
        elif self.number == 1 or self._left_out:
            self.queues[name] = Line(counters, self.number)
        else:
            # It was not there at the sample before, so it began with nothing.
            line = self.queues[name] = Line(Counters(), self.number - 1)
            line.put(self.number, counters)

    def end(self) -> None:
        """Queues that were not seen in this sample are gone."""
        for name in [name for name, line in self.queues.items() if line.seen < self.number]:
            del self.queues[name]

    def minute(self) -> Tallies | None:
        """What came into each queue within the last minute, and how many jobs are ready there now.

        Every so many samples; None in between. Of queues that are not looked at it is their sum.
        """
        if self.all is None or self.number % MINUTE != 1 or self.number == 1:
            return None
        told = {name: self._tally(line) for name, line in self.queues.items()}
        rest = self._tally(self.all)
        rest.pushed -= sum(tally.pushed for tally in told.values())
        rest.depth -= sum(tally.depth for tally in told.values())
        if rest.pushed > 0 or rest.depth > 0:
            told[OTHER] = Tally(pushed=max(rest.pushed, 0), depth=max(rest.depth, 0))
        return told

    def _tally(self, line: Line) -> Tally:
        numbers = range(max(self.number - MINUTE, line.since) + 1, self.number + 1)
        pushed = sum(line.pushed[number % KEPT] for number in numbers)
        return Tally(pushed=pushed, depth=line.last.ready)

    # -- what is told ---------------------------------------------------------------------------

    def per_second(
        self, line: Line | None, now: Counters, at: Millis, samples: int = MINUTE
    ) -> PerSecond | None:
        """The rates of the last so many samples and of what came since; None if there are none."""
        if line is None:
            return None
        first = max(self.number - samples, line.since)
        span_ms = at - self._time(first)
        if span_ms < 1_000:
            return None
        last = line.last
        places = [number % KEPT for number in range(first + 1, self.number + 1)]
        pushed = sum(line.pushed[place] for place in places) + _grown(last.pushed, now.pushed)
        done = sum(line.done[place] for place in places) + _grown(last.done, now.done)
        failed = sum(line.failed[place] for place in places) + _grown(last.failed, now.failed)
        return PerSecond(*(round(1_000 * n / span_ms, 3) for n in (pushed, done, failed)))

    def times(self, samples: int = KEPT) -> list[Millis]:
        """When the last samples were taken, the newest last. The first sample only begins."""
        first = max(self.number - min(samples, KEPT) + 1, 2)
        return [self._time(number) for number in range(first, self.number + 1)]

    def column(
        self, line: Line | None, pick: Callable[[Line], array[int]], samples: int = KEPT
    ) -> list[int | None]:
        """One of the numbers of a line at each of these times; None where it is not known."""
        return [None if n is None else n[0] for n in self._numbers(line, pick, samples)]

    def rate(
        self, line: Line | None, picks: Iterable[Callable[[Line], array[int]]], samples: int = KEPT
    ) -> list[float | None]:
        """The sum of these numbers a second, at each of these times."""
        columns = [self._numbers(line, pick, samples) for pick in picks]
        return [_per_second(numbers) for numbers in zip(*columns, strict=True)]

    def _numbers(
        self, line: Line | None, pick: Callable[[Line], array[int]], samples: int
    ) -> list[tuple[int, Millis] | None]:
        """Numbers with the spans that they are of."""
        first = max(self.number - min(samples, KEPT) + 1, 2)
        found: list[tuple[int, Millis] | None] = []
        for number in range(first, self.number + 1):
            span_ms = self._time(number) - self._time(number - 1)
            if line is None or not line.since < number <= line.seen or span_ms > LATE_MS:
                found.append(None)
            else:
                found.append((pick(line)[number % KEPT], span_ms))
        return found

    def recent(self, line: Line | None) -> Recent | None:
        """The small charts beside a queue's name."""
        if line is None:
            return None
        runs = (lambda one: one.done, lambda one: one.failed)
        return Recent(
            into=self.rate(line, (lambda one: one.pushed,), RECENT),
            out=self.rate(line, runs, RECENT),
            depth=self.column(line, lambda one: one.ready, RECENT),
        )

    def _time(self, number: int) -> Millis:
        return self._times[number % (KEPT + 1)]


def _per_second(numbers: tuple[tuple[int, Millis] | None, ...]) -> float | None:
    known = [n for n in numbers if n is not None]
    if len(known) < len(numbers) or not known:
        return None
    return round(1_000 * sum(n for n, _ in known) / max(known[0][1], 1), 3)
