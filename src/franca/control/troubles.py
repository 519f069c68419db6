"""What needs somebody: queues that fall behind or are paused, new errors, workers that take no
jobs, schedules that fail. Facts only; whoever shows them makes the sentences.
"""

from __future__ import annotations

import asyncio

from franca.control import shapes
from franca.control.error_classes import NEW_MS, ErrorClasses
from franca.control.lately import counters_of
from franca.control.port import NodePort
from franca.control.rates import PerSecond, Rates
from franca.control.views import moment
from franca.control.workers import portions
from franca.core.broker import Broker
from franca.core.model import NEVER, Millis, State
from franca.core.queues import Queue

FIVE_MINUTES = 20
"""Samples over which a queue is said to fall behind."""
OLD_MS = 60_000
"""Jobs that have been ready for longer have waited long; a worker that asked for none for as long
is stalled."""
LIVELY_MS = 60_000
"""A worker that said nothing for longer is not alive."""
PER_KIND = 20
"""Notices of one kind; the first are told."""
AT_ONCE = 500
WATCHED_MAX = 2_000
"""Workers that are told to be stalled."""


class Troubles:
    """What has been so for a while, by name, with the moment since when."""

    def __init__(self) -> None:
        self.behind: dict[str, tuple[Millis, PerSecond]] = {}
        self.stalled: dict[str, Millis] = {}
        self.failing: dict[str, tuple[int, Millis]] = {}
        self._last_runs: dict[str, tuple[int, int]] = {}

    async def sample(self, node: NodePort, rates: Rates) -> None:
        """Look at queues, workers and schedules again."""
        old = await self._look_at_queues(node, rates)
        await self._look_at_workers(node, old)
        self._look_at_schedules(node.engine.broker)

    async def _look_at_queues(self, node: NodePort, rates: Rates) -> set[str]:
        """Which fall behind; returns those that have jobs that waited long and give them out."""
        broker = node.engine.broker
        behind: dict[str, tuple[Millis, PerSecond]] = {}
        old: set[str] = set()
        names = list(broker.queues)
        for start in range(0, len(names), AT_ONCE):
            now = node.clock_ms()
            for name in names[start : start + AT_ONCE]:
                queue = broker.queues.get(name)
                if queue is None or queue.paused or oldest_ms(queue, now) <= OLD_MS:
                    continue
                old.add(name)
                line = rates.queues.get(name)
                rate = rates.per_second(line, counters_of(queue), now, FIVE_MINUTES)
                if rate is not None and rate.pushed > rate.done + rate.failed:
                    since = self.behind[name][0] if name in self.behind else now
                    behind[name] = (since, rate)
            await asyncio.sleep(0)
        self.behind = behind
        return old

    async def _look_at_workers(self, node: NodePort, old: set[str]) -> None:
        """Which have asked for nothing for long although jobs of their queues wait."""
        stalled: dict[str, Millis] = {}
        now = node.clock_ms()
        if old:
            async for some in portions(node):
                for worker in some:
                    asked_at = worker.fetched_at or worker.started_at
                    is_alive = worker.state == "idle" and now - worker.seen_at <= LIVELY_MS
                    is_late = now - asked_at >= OLD_MS and not old.isdisjoint(worker.queues)
                    if is_alive and is_late and len(stalled) < WATCHED_MAX:
                        stalled[worker.name] = asked_at
        self.stalled = stalled

    def _look_at_schedules(self, broker: Broker) -> None:
        """Which have failed twice or more in a row."""
        runs: dict[str, tuple[int, int]] = {}
        failing: dict[str, tuple[int, Millis]] = {}
        for rule in broker.schedules.by_id.values():
            last = rule.last
            if last is None or not last.ended_at:
                if rule.id in self.failing:
                    failing[rule.id] = self.failing[rule.id]
                continue
            run = runs[rule.id] = (last.job_id, last.ended_at)
            if last.state is State.DEAD:
                times, _ = self.failing.get(rule.id, (0, 0))
                is_new = self._last_runs.get(rule.id) != run
                failing[rule.id] = (times + is_new, last.ended_at)
        self.failing, self._last_runs = failing, runs

    # -- what is told -----------------------------------------------------------------------------

    def notices(self, broker: Broker, errors: ErrorClasses, now: Millis) -> list[shapes.Notice]:
        """All of it, the worst first."""
        found = [*self._behind(broker, now), *_new_errors(errors, now)]
        found += self._stalled()
        found += _paused(broker)
        found += [
            shapes.Notice(
                id=f"schedule-{name}",
                level="warn",
                what="schedule",
                schedule=name,
                facts=shapes.Facts(failed=failed, last_at=moment(at)),
            )
            for name, (failed, at) in list(self.failing.items())[:PER_KIND]
            if failed >= 2
        ]
        return found

    def _behind(self, broker: Broker, now: Millis) -> list[shapes.Notice]:
        found: list[shapes.Notice] = []
        for name, (since, rate) in list(self.behind.items())[:PER_KIND]:
            queue = broker.queues.get(name)
            if queue is not None and oldest_ms(queue, now) > OLD_MS:
                facts = shapes.Facts(
                    ready=queue.ready,
                    oldest_ms=oldest_ms(queue, now),
                    into=rate.pushed,
                    out=round(rate.done + rate.failed, 3),
                    since_at=moment(since),
                )
                found.append(
                    shapes.Notice(
                        id=f"behind-{name}", level="bad", what="behind", queue=name, facts=facts
                    )
                )
        return found

    def _stalled(self) -> list[shapes.Notice]:
        return [
            shapes.Notice(
                id=f"stalled-{name}",
                level="warn",
                what="stalled",
                worker=name,
                facts=shapes.Facts(fetched_at=moment(at)),
            )
            for name, at in list(self.stalled.items())[:PER_KIND]
        ]


def oldest_ms(queue: Queue, now: Millis) -> int:
    """For how long the next job of a queue has been ready."""
    first = queue.first()
    return max(0, now - first.ready_at) if first else 0


def _new_errors(errors: ErrorClasses, now: Millis) -> list[shapes.Notice]:
    found: list[shapes.Notice] = []
    for name, group in errors.groups.items():
        since = errors.new_at(name)
        if now - since < NEW_MS and len(found) < PER_KIND:
            facts = shapes.Facts(
                error=group.error,
                retrying=group.retrying,
                dead=group.dead,
                since_at=moment(since),
            )
            found.append(
                shapes.Notice(
                    id=f"errors-{name}",
                    level="bad",
                    what="errors",
                    error_class=name,
                    queue=next(iter(group.queues)) if len(group.queues) == 1 else "",
                    facts=facts,
                )
            )
    return found


def _paused(broker: Broker) -> list[shapes.Notice]:
    found: list[shapes.Notice] = []
    for queue in broker.queues.values():
        if queue.paused and len(found) < PER_KIND:
            until = moment(queue.paused_until) if queue.paused_until != NEVER else None
            found.append(
                shapes.Notice(
                    id=f"paused-{queue.name}",
                    level="warn",
                    what="paused",
                    queue=queue.name,
                    facts=shapes.Facts(ready=queue.ready, until=until),
                )
            )
    return found
