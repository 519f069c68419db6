"""Workers of every protocol: who is there, what each runs; asking them to be quiet or to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from franca.control import shapes
from franca.control.http_workers import HttpWorkers, What, held_by
from franca.control.jobs import Names
from franca.control.port import BadRequest, NodePort, T
from franca.control.views import View, moment, worker_view
from franca.core.model import Millis
from franca.engine.engine import Engine
from franca.protocols.service import WorkerView

ACTED_WORKERS = 200
"""Workers that are asked in one turn."""
LOOKED_AT_ONCE = 500
"""Workers, and what they run and serve, that are looked at in one pass of the event loop."""
LISTED_MAX = 10_000
"""Workers in one answer; how many there are is told beside them."""
MANY = 500
"""A list of so many workers is made once a second for all who ask for it."""


class Workers(Struct, forbid_unknown_fields=True):
    """Which workers: by name, or every one."""

    workers: Names = []
    all: bool = False


class Find(Struct, forbid_unknown_fields=True):
    """Which workers: those of this name, or all; at most so many."""

    name: str = ""
    limit: Annotated[int, Meta(ge=1, le=LISTED_MAX)] = LISTED_MAX


class Asked(Struct):
    """How many workers were asked, and those that nobody knows."""

    count: int
    missing: list[str]


class WorkersSeen(Struct):
    """What one look at all workers has found.

    `serving` counts them by the queues that they serve. `states` has what some of them do, by
    protocol and name; `hosts` where some of them are, by name.
    """

    all: int = 0
    busy: int = 0
    serving: dict[str, int] = {}
    states: dict[tuple[str, str], str] = {}
    hosts: dict[str, str] = {}


async def portions(node: NodePort) -> AsyncIterator[list[WorkerView]]:
    """Every worker of any protocol: a bounded number in each pass of the event loop."""
    now = node.clock_ms()
    for service in list(node.engine.services.values()):
        async for some in _in_portions(service.workers(now)):
            yield some
    leases = node.engine.broker.leases
    async for some in _in_portions(node.observer.http_workers.views(leases, now)):
        yield some


async def _in_portions(views: Iterable[WorkerView]) -> AsyncIterator[list[WorkerView]]:
    some: list[WorkerView] = []
    room = LOOKED_AT_ONCE
    for worker in views:
        some.append(worker)
        room -= 1 + len(worker.queues) + len(worker.running)
        if room <= 0:
            yield some
            some, room = [], LOOKED_AT_ONCE
            await asyncio.sleep(0)
    yield some
    await asyncio.sleep(0)


async def workers_seen(node: NodePort) -> WorkersSeen:
    """All workers together, a second old at most where there are few of them."""
    return await node.observer.workers.get(node, lambda: _look(node))


async def _look(node: NodePort) -> WorkersSeen:
    seen = WorkersSeen()
    async for some in portions(node):
        for worker in some:
            seen.all += 1
            seen.busy += bool(worker.running)
            for queue in set(worker.queues):
                seen.serving[queue] = seen.serving.get(queue, 0) + 1
            if seen.all <= LISTED_MAX:
                seen.states[worker.protocol, worker.name] = worker.state
            if seen.all <= MANY:
                seen.hosts[worker.name] = worker.host
    return seen


async def list_workers(node: NodePort, params: Find) -> View:
    """The workers that any protocol knows of, as its protocol calls their states."""
    found, total = await _listed(node, params, worker_view)
    return {"workers": found, "total": total}


async def find_workers(node: NodePort, params: Find) -> Raw:
    """The workers with what they run now."""
    if params != Find() or (await workers_seen(node)).all < MANY:
        return Raw(await _found(node, params))
    return Raw(await node.observer.keep("workers").get(node, lambda: _found(node, params)))


async def _found(node: NodePort, params: Find) -> bytes:
    shape = partial(_shape, stalled=node.observer.troubles.stalled)
    found = shapes.WorkerList(*await _listed(node, params, shape))
    return await asyncio.get_running_loop().run_in_executor(None, msgspec.json.encode, found)


async def _listed(
    node: NodePort, params: Find, shape: Callable[[WorkerView], T]
) -> tuple[list[T], int]:
    """As many as are asked for, and how many there are."""
    found: list[T] = []
    total = 0
    async for some in portions(node):
        fit = [one for one in some if params.name in ("", one.name)]
        total += len(fit)
        found += map(shape, fit[: params.limit - len(found)])
    # What they run is told when the disk has it.
    await node.ask(lambda engine, now: None)
    return found, total


def _shape(worker: WorkerView, stalled: Mapping[str, Millis]) -> shapes.Worker:
    takes_none = worker.state == "idle" and worker.name in stalled
    return shapes.Worker(
        name=worker.name,
        protocol=worker.protocol,
        host=worker.host,
        pid=worker.pid,
        labels=list(worker.labels),
        state="stalled" if takes_none else worker.state,
        running=[
            shapes.Running(run.id, run.type, run.queue, moment(run.started_at))
            for run in worker.running
        ],
        queues=list(worker.queues),
        started_at=moment(worker.started_at),
        seen_at=moment(worker.seen_at),
        fetched_at=moment(worker.fetched_at),
        rss_kb=worker.rss_kb,
        connections=worker.connections,
    )


async def ask_workers(what: What, node: NodePort, params: Workers) -> Asked:
    """Ask workers to take no more jobs (`quiet`), or to finish what they run and leave (`stop`)."""
    if bool(params.workers) == params.all:
        raise BadRequest("say which workers: by name, or all")
    names: Sequence[str] = params.workers
    if params.all:
        names = [one.name async for some in portions(node) for one in some]
    missing: list[str] = []
    over_http = node.observer.http_workers
    for start in range(0, len(names), ACTED_WORKERS):
        some = names[start : start + ACTED_WORKERS]
        missing += await node.ask(partial(_ask_some, over_http, some, what))
        await asyncio.sleep(0)  # what changed nothing that is stored is answered in the same pass
    node.observer.forget()
    return Asked(len(names) - len(missing), missing)


def _ask_some(
    over_http: HttpWorkers, names: Sequence[str], what: What, engine: Engine, now: Millis
) -> list[str]:
    """Ask these workers; which of them nobody knows."""
    broker = engine.broker
    services = list(engine.services.values())
    held = cache(partial(held_by, broker.leases))
    # Asked of each until one knows it: names are unique within a protocol only.
    return [
        name
        for name in names
        if not any(one.ask_worker(name, what) for one in services)
        and not over_http.ask(name, what, broker, held, now)
    ]
