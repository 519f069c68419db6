"""What the server watches of itself for those who look at it: rates, errors, what needs somebody.

Nothing here is on the way of a job. All is looked at in slices between turns, often enough for
rates and failures and else only when it is asked for; what is computed is good for a second,
however many ask, and for twenty times as long as it took.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from franca.control import shapes
from franca.control.bulk import Actions
from franca.control.error_classes import LOOKED_AT_MAX, ErrorClasses, Group, fold
from franca.control.http_workers import HttpWorkers
from franca.control.lately import counters_of, crossings_of
from franca.control.port import NodePort
from franca.control.rates import KEPT, Counters, Rates
from franca.control.troubles import Troubles
from franca.control.workers import WorkersSeen
from franca.core.broker import Broker
from franca.core.history import Rates as PastRates
from franca.core.history import RatesQuery, Search
from franca.core.model import Millis, State
from franca.core.queues import Queue

T = TypeVar("T")

LOOK_S = 1.0
QUEUES_AT_ONCE = 500
"""Queues that are looked at in one pass of the event loop."""
TROUBLES_AT_ONCE = 500
KEPT_MS = 1_000
COST_TIMES = 20
ERRORS_KEPT_MS = 10_000
LATELY_MS = 5_000
ANSWERS_MAX = 100
"""Answers that are kept: one for each page that somebody looks at."""
JOBS_AT_ONCE = 1_000
CROSSINGS_EVERY_MS = 60_000
CROSSINGS_KEPT = 61
WORST_QUEUES = 50
"""Queues that an overview shows."""


class Summed(Struct):
    """All queues together; of what has ended nothing is said."""

    counts: shapes.Counts
    oldest_ms: int | None = None
    oldest_queue: str | None = None
    worst: list[str] = []
    """Queues whose next job has been ready for longest, and paused ones."""
    paused: frozenset[str] = frozenset()


class Kept(Generic[T]):
    """An answer that is made once for all who ask at about the same time."""

    def __init__(self, kept_ms: Millis = KEPT_MS) -> None:
        self._kept_ms = kept_ms
        self._lock = asyncio.Lock()
        self._answer: T | None = None
        self._stale_at: Millis = 0

    async def get(self, node: NodePort, make: Callable[[], Awaitable[T]]) -> T:
        """The answer, made anew if it is too old."""
        if self._answer is not None and node.clock_ms() < self._stale_at:
            return self._answer
        async with self._lock:
            now = node.clock_ms()
            if self._answer is None or now >= self._stale_at:
                loop = asyncio.get_running_loop()
                began = loop.time()
                self._answer = await make()
                took_ms = int(1_000 * (loop.time() - began))
                self._stale_at = now + max(self._kept_ms, COST_TIMES * took_ms)
            return self._answer

    def forget(self) -> None:
        """What was changed is to be seen at once."""
        self._stale_at = 0


class Observer:
    """One for a server, for as long as it runs."""

    def __init__(self, now: Millis = 0) -> None:
        self.rates = Rates()
        self.errors = ErrorClasses(now)
        self.troubles = Troubles()
        self.actions = Actions()
        self.kept: dict[str, Kept[bytes]] = {}
        self.http_workers = HttpWorkers()
        self.workers: Kept[WorkersSeen] = Kept()
        self.lags: deque[tuple[Millis, float | None, float | None]] = deque(maxlen=KEPT)
        self._lately: dict[str, Kept[PastRates]] = {}
        self._summed: Kept[Summed] = Kept()
        self._counts: Kept[shapes.Counts] = Kept()
        self._errors: Kept[bool] = Kept(ERRORS_KEPT_MS)
        self._looked_at = (-1, -1, -1)
        self._crossings: deque[dict[tuple[str, str], int]] = deque(maxlen=CROSSINGS_KEPT)
        self._crossed_at: Millis = 0

    async def watch(self, node: NodePort) -> None:
        """Look again and again, until it is cancelled. Not at the store: it may be damaged."""
        while True:
            await self.look(node)
            await asyncio.sleep(LOOK_S)

    async def look(self, node: NodePort) -> None:
        """Note failures, and take a sample if it is time for one."""
        await self._note_failures(node.engine.broker)
        now = node.clock_ms()
        if self.rates.is_due(now):
            await self._sample(node, now)
            await self.troubles.sample(node, self.rates)
            status = node.status()
            lag, commit = status.get("loop_lag_p99_ms"), status.get("commit_p99_ms")
            self.lags.append((now, _number(lag), _number(commit)))
        if now - self._crossed_at >= CROSSINGS_EVERY_MS:
            self._crossed_at = now
            self._crossings.append(dict(crossings_of(node.engine.broker)))

    async def _note_failures(self, broker: Broker) -> None:
        left = broker.runs_over
        while left:
            for _ in range(min(len(left), TROUBLES_AT_ONCE)):
                self.errors.note(left.popleft())
            await asyncio.sleep(0)

    async def _sample(self, node: NodePort, now: Millis) -> None:
        broker, rates = node.engine.broker, self.rates
        summed = await self.summed(node)
        totals = broker.totals
        done = totals.processed - totals.failures
        rates.begin(now, Counters(totals.pushed, done, totals.failures, summed.counts.ready))
        queues = listed_queues(broker)
        for start in range(0, len(queues), QUEUES_AT_ONCE):
            for queue in queues[start : start + QUEUES_AT_ONCE]:
                rates.put(queue.name, counters_of(queue))
            await asyncio.sleep(0)
        rates.end()
        minute = rates.minute()
        if minute is not None:
            node.note(now, minute)

    # -- sums of all queues -----------------------------------------------------------------------

    async def summed(self, node: NodePort) -> Summed:
        """All queues together, a second old at most where there are few of them."""
        return await self._summed.get(node, lambda: self._sum(node))

    async def _sum(self, node: NodePort) -> Summed:
        broker = node.engine.broker
        counts = shapes.Counts()
        aged: list[tuple[int, str]] = []
        paused: list[str] = []
        queues = listed_queues(broker)
        for start in range(0, len(queues), QUEUES_AT_ONCE):
            now = node.clock_ms()
            for queue in queues[start : start + QUEUES_AT_ONCE]:
                counts.ready += queue.size + queue.backlog
                counts.running += queue.leased
                counts.scheduled += queue.scheduled
                counts.retrying += queue.retrying
                counts.dead += queue.dead
                if queue.paused:
                    paused.append(queue.name)
                first = queue.first()
                if first is not None:
                    aged.append((max(0, now - first.ready_at), queue.name))
            aged.sort(reverse=True)
            del aged[WORST_QUEUES:]
            await asyncio.sleep(0)
        worst = [name for _, name in aged]
        found = Summed(counts, worst=worst, paused=frozenset(paused))
        if aged:
            found.oldest_ms, found.oldest_queue = aged[0]
        return found

    async def counts(self, node: NodePort) -> shapes.Counts:
        """How many jobs are in each state."""
        return await self._counts.get(node, lambda: self._count(node))

    async def _count(self, node: NodePort) -> shapes.Counts:
        summed = await self.summed(node)
        past = await node.past()
        return replace(summed.counts, done=past.done, cancelled=past.cancelled)

    # -- errors -----------------------------------------------------------------------------------

    async def look_at_errors(self, node: NodePort) -> None:
        """Find out which jobs are dead or retrying, if there may be others than before."""
        await self._errors.get(node, lambda: self._look_at_errors(node))

    async def _look_at_errors(self, node: NodePort) -> bool:
        await self._note_failures(node.engine.broker)
        counts = await self.counts(node)
        state = (node.engine.broker.totals.failures, counts.retrying, counts.dead)
        if state == self._looked_at:
            return False
        groups: dict[str, Group] = {}
        looked_at = 0
        loop = asyncio.get_running_loop()
        for search in (
            Search(states=(State.DEAD,), limit=JOBS_AT_ONCE),
            Search(states=(State.WAITING,), retried=True, limit=JOBS_AT_ONCE),
        ):
            before, cursor = looked_at, ""
            while looked_at - before < LOOKED_AT_MAX // 2:
                found = await node.search(replace(search, cursor=cursor))
                looked_at += await loop.run_in_executor(None, fold, found.jobs, groups)
                cursor = found.cursor
                if not cursor:
                    break
        self.errors.take(groups, looked_at)
        self._looked_at = state
        return True

    # -- crossings --------------------------------------------------------------------------------

    def crossings(self, broker: Broker) -> list[shapes.Crossing]:
        """Jobs of the last hour by the protocol they came over and that of the worker."""
        now = crossings_of(broker)
        before = self._crossings[0] if self._crossings else {}
        found = [
            shapes.Crossing(via, by, count - before.get((via, by), 0))
            for (via, by), count in now.items()
        ]
        return [crossing for crossing in found if crossing.count > 0]

    def keep(self, name: str) -> Kept[bytes]:
        """The kept answer of this name; of many names those that were asked for last."""
        kept = self.kept.pop(name, None) or Kept()
        self.kept[name] = kept
        if len(self.kept) > ANSWERS_MAX:
            del self.kept[next(iter(self.kept))]
        return kept

    async def lately(self, node: NodePort, query: RatesQuery) -> PastRates:
        """Rates of the past, which many ask for again and again."""
        name = f"{query.of} {query.until - query.since} {query.step_ms}"
        kept = self._lately.setdefault(name, Kept(LATELY_MS))
        return await kept.get(node, lambda: node.rates(query))

    def forget(self) -> None:
        """Something was changed, which is to be seen at once."""
        self._summed.forget()
        self._counts.forget()
        for kept in self.kept.values():
            kept.forget()


def listed_queues(broker: Broker) -> list[Queue]:
    """Every queue that people know of."""
    return [queue for queue in broker.queues.values() if queue.listed]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
