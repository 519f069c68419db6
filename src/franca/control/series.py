"""Numbers over time, of all queues or of one: an hour from memory, what is older from the store.

No series has more than 240 points. What nobody knows is a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import UNSET, Struct

from franca.control import shapes
from franca.control.port import NodePort
from franca.control.rates import KEPT, SAMPLE_MS, Line, Rates
from franca.core.history import MINUTE_MS, RatesQuery, Tally, percentile
from franca.core.history import Rates as PastRates
from franca.core.model import Millis

Range = Literal["15m", "1h", "6h", "24h", "7d", "30d"]
HOUR_MS = 3_600_000
RANGES: dict[str, tuple[Millis, Millis]] = {
    "15m": (HOUR_MS // 4, SAMPLE_MS),
    "1h": (HOUR_MS, SAMPLE_MS),
    "6h": (6 * HOUR_MS, 2 * MINUTE_MS),
    "24h": (24 * HOUR_MS, 8 * MINUTE_MS),
    "7d": (7 * 24 * HOUR_MS, HOUR_MS),
    "30d": (30 * 24 * HOUR_MS, 4 * HOUR_MS),
}
"""How long each range is, and how far apart its points are."""


class Drawn(Struct):
    """Everything that is drawn of one queue, or of all."""

    t: list[int]
    pushed: list[float | None]
    done: list[float | None]
    failed: list[float | None]
    ready: list[int | None]
    wait_p95_ms: list[int | None]

    def of_all(self) -> shapes.Series:
        """As the overview has it."""
        return shapes.Series(
            t=self.t,
            done=self.done,
            failed=self.failed,
            pushed=self.pushed,
            ready=self.ready,
            wait_p95_ms=self.wait_p95_ms,
        )

    def of_queue(self) -> shapes.Series:
        """As the page of a queue has it: what comes in, and runs that end."""
        pairs = zip(self.done, self.failed, strict=True)
        out = [None if d is None or f is None else round(d + f, 3) for d, f in pairs]
        return shapes.Series(
            t=self.t,
            ready=self.ready,
            into=self.pushed,
            out=out,
            wait_p95_ms=self.wait_p95_ms,
            commit_p99_ms=UNSET,
        )


async def draw(node: NodePort, range_: str, queue: str = "") -> Drawn:
    """The series of a range."""
    span_ms, step_ms = RANGES[range_]
    now = node.clock_ms()
    of, names = ("queue", (queue,)) if queue else ("all", ())
    past_step = max(step_ms, MINUTE_MS)
    past = await node.rates(RatesQuery(now - span_ms, now, past_step, of, names))
    if step_ms > SAMPLE_MS:
        return _of_the_past(past, queue)
    rates = node.observer.rates
    line = rates.queues.get(queue) if queue else rates.all
    return _of_memory(rates, line, past, queue, min(KEPT, span_ms // SAMPLE_MS))


def _of_memory(rates: Rates, line: Line | None, past: PastRates, queue: str, most: int) -> Drawn:
    waits = dict(zip(past.at, past.of(queue), strict=True))
    times = rates.times(most)
    return Drawn(
        t=[at // 1_000 for at in times],
        pushed=rates.rate(line, (lambda one: one.pushed,), most),
        done=rates.rate(line, (lambda one: one.done,), most),
        failed=rates.rate(line, (lambda one: one.failed,), most),
        ready=rates.column(line, lambda one: one.ready, most),
        wait_p95_ms=[_wait(waits.get(at // MINUTE_MS * MINUTE_MS)) for at in times],
    )


def _of_the_past(past: PastRates, queue: str) -> Drawn:
    steps = list(past.of(queue))

    def rate(pick: Callable[[Tally], int]) -> list[float | None]:
        return [
            None if one is None else round(1_000 * pick(one) / past.step_ms, 3) for one in steps
        ]

    return Drawn(
        t=[at // 1_000 for at in past.at],
        pushed=rate(lambda one: one.pushed),
        done=rate(lambda one: one.done),
        failed=rate(lambda one: one.failed),
        ready=[None if one is None or one.depth < 0 else one.depth for one in steps],
        wait_p95_ms=[_wait(one) for one in steps],
    )


def _wait(tally: Tally | None) -> int | None:
    return None if tally is None else percentile(tally.waits, 0.95)
