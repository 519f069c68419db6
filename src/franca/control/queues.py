"""Queues: their counts and rates, what happened in each, and pausing, resuming, purging them."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from franca.control import shapes
from franca.control.jobs import Moment, Names
from franca.control.lately import counters_of
from franca.control.port import BadRequest, NodePort
from franca.control.rates import Rates
from franca.control.series import RANGES, Range, draw
from franca.control.tallies import QUEUE_MS, types_of_queue
from franca.control.views import moment
from franca.control.workers import portions, workers_seen
from franca.core.broker import Broker
from franca.core.errors import NotFound
from franca.core.history import RatesQuery, Tally, percentile
from franca.core.model import NEVER, Millis
from franca.core.queues import Queue
from franca.engine.engine import Engine

ACTED_QUEUES = 200
LISTED_QUEUES = 1_000
"""Queues that are acted on, or looked at, in one turn; with their charts a tenth of it."""
SERVING_MAX = 200
"""Workers of a queue that are named."""


class QueuesSeen(Struct):
    """How long jobs of each queue waited and ran, its samples, and how many workers serve it."""

    stats: Mapping[str, Tally]
    rates: Rates
    serving: Mapping[str, int]


ActOnQueues = Callable[[Broker, Sequence[str], Millis], int]


class Queues(Struct, forbid_unknown_fields=True):
    """Which queues, by name."""

    queues: Names


class Pause(Struct, forbid_unknown_fields=True):
    """Which queues, by name; and until when, if their pause ends by itself."""

    queues: Names
    until: Moment | None = None


class Changed(Struct):
    """The queues that were acted on, and how many jobs that ended."""

    queues: list[str]
    jobs: int


class ListQueues(Struct, forbid_unknown_fields=True):
    """Whether the small charts are wanted too."""

    recent: bool = False


class ShowQueue(Struct, forbid_unknown_fields=True):
    """Which queue, and over which time it is drawn."""

    queue: Annotated[str, Meta(max_length=4_096)]
    range: Range = "1h"


# -- lists --------------------------------------------------------------------------------------


async def list_queues(node: NodePort, params: ListQueues) -> Raw:
    """Every queue with its counts, by name."""
    if not params.recent:
        return Raw(await _list(node, recent=False))
    kept = node.observer.keep("queues")
    return Raw(await kept.get(node, lambda: _list(node, recent=True)))


async def _list(node: NodePort, *, recent: bool) -> bytes:
    names = await node.ask(
        lambda engine, now: [queue.name for queue in engine.broker.queues.values() if queue.listed]
    )
    sorted_parts: list[list[str]] = []
    for start in range(0, len(names), LISTED_QUEUES):
        sorted_parts.append(sorted(names[start : start + LISTED_QUEUES]))
        await asyncio.sleep(0)
    in_order = heapq.merge(*sorted_parts)
    seen = await queues_seen(node)
    portion = LISTED_QUEUES // 10 if recent and LISTED_QUEUES > 10 else LISTED_QUEUES
    pieces: list[bytes] = []
    while part := list(islice(in_order, portion)):
        act = partial(_rows, part, seen, recent)
        pieces.append(await node.ask(act))
    return b'{"queues":[' + b",".join(filter(None, pieces)) + b"]}"


def _rows(
    names: Sequence[str], seen: QueuesSeen, recent: bool, engine: Engine, now: Millis
) -> bytes:
    """Those of the queues that are still there, as JSON without the brackets of a list."""
    found = [engine.broker.queues.get(name) for name in names]
    rows = [
        queue_row(queue, seen, now, recent=recent)
        for queue in found
        if queue is not None and queue.listed
    ]
    return msgspec.json.encode(rows)[1:-1]


def queue_row(queue: Queue, seen: QueuesSeen, now: Millis, *, recent: bool) -> shapes.QueueRow:
    """One line of a list of queues."""
    first = queue.first()
    stats, rates = seen.stats.get(queue.name), seen.rates
    line = rates.queues.get(queue.name)
    rate = rates.per_second(line, counters_of(queue), now)
    return shapes.QueueRow(
        queue=queue.name,
        paused=queue.paused,
        paused_until=moment(queue.paused_until),
        ready=queue.ready,
        running=queue.leased,
        leased=queue.leased,
        scheduled=queue.scheduled,
        retrying=queue.retrying,
        dead=queue.dead,
        oldest_ms=max(0, now - first.ready_at) if first else None,
        into=None if rate is None else rate.pushed,
        out=None if rate is None else round(rate.done + rate.failed, 3),
        failed=None if rate is None else rate.failed,
        wait_p95_ms=None if stats is None else percentile(stats.waits, 0.95),
        ran_p95_ms=None if stats is None else percentile(stats.runs, 0.95),
        workers=seen.serving.get(queue.name, 0),
        recent=rates.recent(line) if recent else None,
    )


async def queues_seen(node: NodePort) -> QueuesSeen:
    """What was seen of all queues lately."""
    now = node.clock_ms()
    rates = await node.observer.lately(node, RatesQuery(now - QUEUE_MS, now, of="queue"))
    stats = {name: rates.total(name) for name in rates.names()}
    return QueuesSeen(stats, node.observer.rates, (await workers_seen(node)).serving)


async def show_queue(node: NodePort, params: ShowQueue) -> Raw:
    """One queue, with what happened in it and who serves it."""
    find_queue(node.engine.broker, params.queue)
    kept = node.observer.keep(f"queue {params.range} {params.queue}")
    return Raw(await kept.get(node, lambda: _show(node, params)))


async def _show(node: NodePort, params: ShowQueue) -> bytes:
    seen = await queues_seen(node)
    drawn = await draw(node, params.range, params.queue)
    types = await types_of_queue(node, params.queue, RANGES[params.range][0])
    names = [
        worker.name
        async for some in portions(node)
        for worker in some
        if params.queue in worker.queues
    ]
    seen.serving = {params.queue: len(names)}

    def row(engine: Engine, now: Millis) -> shapes.QueueRow:
        return queue_row(find_queue(engine.broker, params.queue), seen, now, recent=True)

    shape = shapes.Queue(
        **asdict(await node.ask(row)),
        types=types,
        series=drawn.of_queue(),
        serving=names[:SERVING_MAX],
    )
    return msgspec.json.encode(shape)


def find_queue(broker: Broker, name: str) -> Queue:
    """The queue of that name. `NotFound` if there is none."""
    queue = broker.queues.get(name)
    if queue is None or not queue.listed:
        raise NotFound(f"there is no queue {name}")
    return queue


# -- acting -------------------------------------------------------------------------------------


async def pause(node: NodePort, params: Pause) -> Changed:
    """Give out no more jobs of these queues, for good or until a moment."""
    ends_at = NEVER
    if params.until is not None:
        # What people name is by the wall clock, the end of a pause is not.
        ahead_ms = node.engine.broker.wall_ahead_ms
        ends_at = int(params.until.timestamp() * 1_000) - ahead_ms
        if ends_at <= node.clock_ms():
            raise BadRequest("a pause ends in the future")

    def act(broker: Broker, names: Sequence[str], now: Millis) -> int:
        for name in names:
            broker.pause(name, ends_at)
        return 0

    return await on_queues(act, node, Queues(params.queues))


def resume(broker: Broker, names: Sequence[str], now: Millis) -> int:
    """Give out jobs of these queues again."""
    for name in names:
        broker.resume(name, now)
    return 0


async def on_queues(act: ActOnQueues, node: NodePort, params: Queues) -> Changed:
    """Act on all of the queues, some in each turn, or on none if one of them does not exist."""

    def check(engine: Engine, now: Millis) -> None:
        for name in params.queues:
            find_queue(engine.broker, name)

    def act_on(some: Sequence[str], engine: Engine, now: Millis) -> int:
        return act(engine.broker, some, now)

    await node.ask(check)
    names = list(dict.fromkeys(params.queues))
    jobs_ended = 0
    for start in range(0, len(names), ACTED_QUEUES):
        jobs_ended += await node.ask(partial(act_on, names[start : start + ACTED_QUEUES]))
    node.observer.forget()
    return Changed(params.queues, jobs_ended)
