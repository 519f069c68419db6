"""Workers of every protocol: who is there, what each runs; asking them to be quiet or to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from franca.control import shapes
from franca.control.jobs import Names
from franca.control.port import BadRequest, NodePort
from franca.control.views import View, moment, worker_view
from franca.control.work import PROTOCOL, workers_over_http
from franca.core.model import Millis
from franca.engine.engine import Engine
from franca.protocols.service import WorkerView

ACTED_WORKERS = 200
"""Workers that are asked in one turn."""
COUNTED_WORKERS = 100
"""Workers whose queues are counted in one pass of the event loop."""


class Workers(Struct, forbid_unknown_fields=True):
    """Which workers: by name, or every one."""

    workers: Names = []
    all: bool = False


class Asked(Struct):
    """How many workers were asked, and those that nobody knows."""

    count: int
    missing: list[str]


def worker_views(engine: Engine, now: Millis) -> list[WorkerView]:
    """Every worker that any protocol knows of, and those over HTTP that run a job."""
    known = [worker for service in engine.services.values() for worker in service.workers(now)]
    return known + workers_over_http(engine)


async def serving(node: NodePort) -> dict[str, int]:
    """How many workers serve each queue, a second old at most."""
    return await node.observer.serving.get(node, lambda: _count_serving(node))


async def _count_serving(node: NodePort) -> dict[str, int]:
    counts: dict[str, int] = {}
    views = await node.ask(worker_views)
    for start in range(0, len(views), COUNTED_WORKERS):
        for worker in views[start : start + COUNTED_WORKERS]:
            for queue in set(worker.queues):
                counts[queue] = counts.get(queue, 0) + 1
        await asyncio.sleep(0)
    return counts


async def list_workers(node: NodePort, params: Struct) -> View:
    """Every worker that any protocol knows of, as its protocol calls its state."""
    views = await node.ask(worker_views)
    return {"workers": [worker_view(worker) for worker in views]}


async def find_workers(node: NodePort, params: Struct) -> shapes.WorkerList:
    """Every worker with what it runs now."""
    stalled = node.observer.troubles.stalled
    return shapes.WorkerList([_shape(one, stalled) for one in await node.ask(worker_views)])


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


async def ask_workers(what: str, node: NodePort, params: Workers) -> Asked:
    """Ask workers to take no more jobs (`quiet`), or to finish what they run and leave (`stop`)."""
    if bool(params.workers) == params.all:
        raise BadRequest("say which workers: by name, or all")
    names: Sequence[str] = params.workers
    if params.all:
        # Nobody can ask those over HTTP: no connection of theirs waits for an answer.
        views = await node.ask(worker_views)
        names = [one.name for one in views if one.protocol != PROTOCOL]
    missing: list[str] = []
    for start in range(0, len(names), ACTED_WORKERS):
        missing += await node.ask(partial(_ask_some, names[start : start + ACTED_WORKERS], what))
    return Asked(len(names) - len(missing), missing)


def _ask_some(names: Sequence[str], what: str, engine: Engine, now: Millis) -> list[str]:
    """Ask these workers; which of them nobody knows."""
    services = list(engine.services.values())
    # Asked of each until one knows it: names are unique within a protocol only.
    return [name for name in names if not any(one.ask_worker(name, what) for one in services)]
