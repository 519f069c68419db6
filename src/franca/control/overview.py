"""How it goes: the overview, counts, values for completion, errors, the server and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from franca.control import shapes
from franca.control.caller import Caller
from franca.control.lately import counters_of
from franca.control.port import NodePort
from franca.control.queues import QueuesSeen, queue_row, queues_seen
from franca.control.rates import Counters
from franca.control.series import Range, draw
from franca.control.tallies import sample
from franca.control.views import moment
from franca.control.workers import WorkersSeen, workers_seen
from franca.core.history import OTHER, RatesQuery
from franca.core.model import Millis
from franca.engine.engine import Engine

SHOWN_QUEUES = 50
KNOWN_MAX = 500
"""Values of one field for completion."""
NEWEST = 1_000
"""Jobs in memory, and queues, that are looked at for values that nobody has counted yet."""
DAY_MS = 24 * 3_600_000


class In(Struct, forbid_unknown_fields=True):
    """The time that is drawn."""

    range: Range = "1h"


async def overview(caller: Caller, node: NodePort, params: In) -> Raw:
    """How it goes, on one page. The same for all of a role who ask within a second."""
    kept = node.observer.keep(f"overview {params.range} {caller.role}")
    return Raw(await kept.get(node, lambda: _overview(node, params.range, caller.role)))


async def _overview(node: NodePort, range_: str, role: str) -> bytes:
    observer = node.observer
    summed, found = await observer.summed(node), await observer.counts(node)
    await observer.look_at_errors(node)
    seen = await queues_seen(node)
    drawn = await draw(node, range_)
    workers = await workers_seen(node)

    def page(engine: Engine, now: Millis) -> bytes:
        broker = engine.broker
        totals = broker.totals
        done = totals.processed - totals.failures
        counters = Counters(totals.pushed, done, totals.failures)
        rate = observer.rates.per_second(observer.rates.all, counters, now)
        notices = observer.troubles.notices(broker, observer.errors, now)
        names = [*observer.troubles.behind, *(one.queue for one in notices), *summed.worst]
        return msgspec.json.encode(
            shapes.Overview(
                now_at=moment(broker.wall(now)),
                role=role,
                counts=found,
                rates=shapes.Rates(rate.pushed, rate.done, rate.failed)
                if rate
                else shapes.Rates(0.0, 0.0, 0.0),
                oldest_ms=summed.oldest_ms,
                oldest_queue=summed.oldest_queue,
                workers=shapes.WorkerCounts(workers.all, workers.busy),
                notices=notices,
                series=drawn.of_all(),
                crossings=observer.crossings(broker),
                queues=_rows(node, names, seen, now),
            )
        )

    return await node.ask(page)


def _rows(
    node: NodePort, worst: Iterable[str], seen: QueuesSeen, now: Millis
) -> list[shapes.QueueRow]:
    """Queues in trouble first, then those with most jobs; as many as are shown."""
    broker, rates = node.engine.broker, node.observer.rates
    names = dict.fromkeys(name for name in worst if name)
    if len(names) < SHOWN_QUEUES:
        names |= dict.fromkeys(rates.queues)
    rows: list[shapes.QueueRow] = []
    for name in names:
        queue = broker.queues.get(name)
        if queue is not None and queue.listed:
            rows.append(queue_row(queue, seen, now, recent=True))
            if len(rows) >= SHOWN_QUEUES:
                break
    return rows


async def counts(node: NodePort, params: Struct) -> shapes.Counts:
    """How many jobs are in each state."""
    return await node.observer.counts(node)


async def errors(node: NodePort, params: Struct) -> shapes.ErrorList:
    """Dead and retrying jobs by what stopped them."""
    observer = node.observer
    await observer.look_at_errors(node)
    found = await observer.counts(node)
    return observer.errors.told(node.clock_ms(), found.dead + found.retrying)


async def known(node: NodePort, params: Struct) -> Raw:
    """Values that a filter may have, with a word about each, for completion."""
    kept = node.observer.keep("known")
    return Raw(await kept.get(node, lambda: _known(node)))


async def _known(node: NodePort) -> bytes:
    now = node.clock_ms()
    day = await node.observer.lately(node, RatesQuery(now - DAY_MS, now, 3_600_000, "kind"))
    kinds = {name: day.total(name).done for name in day.names() if name != OTHER}
    lately = [job.kind for job in (await sample(node)).jobs]
    await node.observer.look_at_errors(node)
    return await node.ask(partial(_values, node, kinds, lately, await workers_seen(node)))


def _values(
    node: NodePort,
    kinds: Mapping[str, int],
    lately: Iterable[str],
    seen: WorkersSeen,
    engine: Engine,
    now: Millis,
) -> bytes:
    broker, observer = engine.broker, node.observer
    # Queues are counted every 15 s, and types when their jobs have ended.
    names = dict.fromkeys([*observer.rates.queues, *islice(reversed(broker.queues), NEWEST)])
    there = [broker.queues.get(name) for name in names]
    queues = [queue for queue in there if queue is not None and queue.listed]
    queues.sort(key=lambda queue: (-counters_of(queue).ready, queue.name))
    groups = sorted(observer.errors.groups.values(), key=lambda one: -(one.dead + one.retrying))
    protocols = [shapes.Known(name) for name in dict.fromkeys(engine.services)]
    workers = [shapes.Known(name, host) for name, host in seen.hosts.items()]
    most = sorted(kinds.items(), key=lambda one: (-one[1], one[0]))
    types = {name: f"{done:,} done in a day" for name, done in most}
    newest = [job.kind for job in islice(reversed(broker.jobs.values()), NEWEST)]
    types |= {name: "lately" for name in [*newest, *lately] if name and name not in types}
    errors = {one.error: shapes.Known(one.error, f"{one.dead + one.retrying}") for one in groups}
    return msgspec.json.encode(
        shapes.KnownValues(
            queue=[shapes.Known(q.name, f"{q.ready:,} ready") for q in queues[:KNOWN_MAX]],
            type=[shapes.Known(name, word) for name, word in islice(types.items(), KNOWN_MAX)],
            via=[*protocols, shapes.Known("control"), shapes.Known("rest")],
            by=[*protocols, shapes.Known("rest")],
            error=[one for one in errors.values() if one.value][:KNOWN_MAX],
            worker=workers,
        )
    )


# -- the server ---------------------------------------------------------------------------------


async def history(node: NodePort, params: Struct) -> shapes.History:
    """What is remembered of ended jobs, and how much may be."""
    past = await node.past()
    limits = node.engine.limits
    return shapes.History(
        jobs=past.done + past.cancelled,
        bytes=past.bytes,
        oldest_at=moment(past.oldest_at),
        indexed_ms_behind=past.behind_ms,
        bounds=shapes.HistoryBounds(
            jobs=limits.ended_jobs,
            bytes=limits.ended_bytes,
            age_ms=limits.ended_ms,
        ),
    )


async def health(caller: Caller, node: NodePort, params: Struct) -> shapes.Health:
    """How the server itself is."""
    status = node.status()
    limits = node.engine.limits
    lags = node.observer.lags
    listeners = status.get("listeners", [])
    past = await node.past()
    store = {name: status.get(name) for name in ("commits", "commit_p50_ms", "commit_p99_ms")}
    store |= {"kind": status.get("store"), "history": past.bytes}
    measured = node.measured()
    store["bytes"] = measured.store_bytes
    disk = {"refusing_new": status.get("refusing_new", False), "data": status.get("data")}
    disk |= {"total": measured.disk_bytes, "free": measured.disk_free_bytes}
    process = {name: status.get(name) for name in ("pid", "rss_mb", "connections", "unhandled")}
    return shapes.Health(
        version=str(status.get("version", "")),
        node=str(status.get("host", "")),
        uptime_ms=1_000 * msgspec.convert(status.get("uptime_s", 0), int),
        role=caller.role,
        store=store,
        disk=disk,
        process=process | {"loop_lag_p99_ms": status.get("loop_lag_p99_ms")},
        listeners=msgspec.convert(listeners, list[dict[str, object]]),
        limits=[{"name": name, "most": getattr(limits, name)} for name in limits.__struct_fields__],
        series=shapes.Series(
            t=[at // 1_000 for at, _, _ in lags],
            loop_lag_ms=[lag for _, lag, _ in lags],
            commit_p99_ms=[commit for _, _, commit in lags],
        ),
    )
