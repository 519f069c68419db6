"""What has changed among workers and schedules between two looks at them, for events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct

from franca.control.workers import WorkersSeen
from franca.core.broker import Broker
from franca.core.model import JobId, Millis, NewJob

TOLD_MAX: Final = 50
"""Changes that one event tells; it says how many more there are."""
RULES_AT_ONCE: Final = 500
"""Schedules that are looked at in one pass of the event loop."""


class WorkerChange(Struct):
    """`change` is `came`, `left`, or `state`; a worker that left has no state."""

    worker: str
    protocol: str
    change: str
    state: str | None


class WorkersChanged(Struct):
    """What became of workers, of which there are so many now."""

    all: int
    changes: list[WorkerChange]
    more: int


class ScheduleChange(Struct):
    """`change` is `made`, `edited`, `paused`, `resumed`, `fired` or `removed`."""

    schedule: str
    change: str


class SchedulesChanged(Struct):
    """What became of schedules."""

    changes: list[ScheduleChange]
    more: int


def workers_changed(before: WorkersSeen, now: WorkersSeen) -> WorkersChanged | None:
    """What is told, if anything is. Of very many workers it is how many there are."""
    found: list[WorkerChange] = []
    if max(before.all - len(before.states), now.all - len(now.states)) <= 0:
        found += _workers_changed(before.states, now.states)
    if not found and before.all == now.all:
        return None
    return WorkersChanged(now.all, found[:TOLD_MAX], max(0, len(found) - TOLD_MAX))


def _workers_changed(
    before: dict[tuple[str, str], str], now: dict[tuple[str, str], str]
) -> Iterator[WorkerChange]:
    for key, state in now.items():
        if before.get(key) != state:
            protocol, name = key
            yield WorkerChange(name, protocol, "state" if key in before else "came", state)
    for protocol, name in before.keys() - now.keys():
        yield WorkerChange(name, protocol, "left", None)


class Rule(NamedTuple):
    """What a schedule was when it was looked at."""

    job: NewJob
    times: tuple[str, int, str]
    paused: bool
    fired: tuple[JobId, Millis]


Rules = dict[str, Rule]


async def look_at_schedules(broker: Broker) -> Rules:
    """All schedules, in slices."""
    found: Rules = {}
    there = iter(list(broker.schedules.by_id.values()))
    while some := list(islice(there, RULES_AT_ONCE)):
        for rule in some:
            last = rule.last
            fired = (0, 0) if last is None else (last.job_id, last.fired_at)
            times = rule.cron, rule.every_ms, rule.timezone
            found[rule.id] = Rule(rule.job, times, rule.paused, fired)
        await asyncio.sleep(0)
    return found


def schedules_changed(before: Rules, now: Rules) -> SchedulesChanged | None:
    """What is told, if anything is."""
    found = [ScheduleChange(name, "removed") for name in before.keys() - now.keys()]
    for name, rule in now.items():
        found += [ScheduleChange(name, word) for word in _words(before.get(name), rule)]
    if not found:
        return None
    return SchedulesChanged(found[:TOLD_MAX], max(0, len(found) - TOLD_MAX))


def _words(before: Rule | None, now: Rule) -> Iterator[str]:
    if before is None:
        yield "made"
        return
    is_same_job = before.job is now.job or before.job == now.job
    if not is_same_job or before.times != now.times:
        yield "edited"
    if before.paused != now.paused:
        yield "paused" if now.paused else "resumed"
    if before.fired != now.fired:
        yield "fired"
