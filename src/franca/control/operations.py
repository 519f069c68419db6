"""Every operation there is, by name. The control socket carries them, and REST will.

An operation is a typed function over the server's port. Its parameters come as JSON and are
checked before anything is done; its result is plain values. A refusal has changed nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from franca.control import jobs
from franca.control.port import BadRequest, NodePort
from franca.control.views import View, queue_view, worker_view
from franca.core.errors import NotFound, Refused
from franca.engine.engine import Engine

NO_PARAMS = Raw(b"{}")


class Nothing(Struct, forbid_unknown_fields=True):
    """No parameters."""


class Backup(Struct, forbid_unknown_fields=True):
    """Where to write the copy: an absolute path where nothing is yet."""

    path: str


class Queues(Struct, forbid_unknown_fields=True):
    """Which queues, by name."""

    queues: list[str]


class Workers(Struct, forbid_unknown_fields=True):
    """Which workers: by name, or every one."""

    workers: list[str] = []
    all: bool = False


# -- the server -------------------------------------------------------------------------------


async def server_status(node: NodePort, params: Nothing) -> View:
    """How the server is."""
    return node.status()


async def server_stop(node: NodePort, params: Nothing) -> View:
    """Begin a graceful stop; the answer does not wait for its end."""
    node.request_stop()
    return {"stopping": True}


async def server_backup(node: NodePort, params: Backup) -> View:
    """A whole and consistent copy of the store in a new file."""
    if not params.path.startswith("/"):
        raise BadRequest("the path must be absolute")
    return await node.backup(params.path)


# -- queues -----------------------------------------------------------------------------------


async def queues_list(node: NodePort, params: Nothing) -> View:
    """Every queue with its counts, by name."""
    queues = await node.ask(
        lambda engine, now: [queue_view(q, now) for q in engine.broker.queues.values() if q.listed]
    )
    return {"queues": sorted(queues, key=lambda view: str(view["queue"]))}


async def queues_pause(node: NodePort, params: Queues) -> View:
    """Give out no more jobs of these queues."""
    return await _each_queue(node, params, lambda engine, name, now: engine.broker.pause(name))


async def queues_resume(node: NodePort, params: Queues) -> View:
    """Give out jobs of these queues again."""
    return await _each_queue(
        node, params, lambda engine, name, now: engine.broker.resume(name, now)
    )


async def queues_purge(node: NodePort, params: Queues) -> View:
    """Cancel every ready job of these queues."""
    return await _each_queue(node, params, lambda engine, name, now: engine.broker.purge(name, now))


async def _each_queue(
    node: NodePort, params: Queues, act: Callable[[Engine, str, int], int | None]
) -> View:
    """Act on all of the queues or, if one of them does not exist, on none."""

    def act_on_all(engine: Engine, now: int) -> int:
        for name in params.queues:
            queue = engine.broker.queues.get(name)
            if queue is None or not queue.listed:
                raise NotFound(f"there is no queue {name}")
        return sum(act(engine, name, now) or 0 for name in params.queues)

    jobs_ended = await node.ask(act_on_all)
    return {"queues": params.queues, "jobs": jobs_ended}


# -- workers ----------------------------------------------------------------------------------


async def workers_list(node: NodePort, params: Nothing) -> View:
    """Every worker that any protocol knows of."""
    return {"workers": await node.ask(lambda engine, now: _workers(engine))}


def _workers(engine: Engine) -> list[View]:
    services = engine.services.values()
    return [worker_view(worker) for service in services for worker in service.workers()]


async def workers_quiet(node: NodePort, params: Workers) -> View:
    """Ask workers to take no more jobs."""
    return await _ask_workers(node, params, "quiet")


async def workers_stop(node: NodePort, params: Workers) -> View:
    """Ask workers to finish what they run and leave."""
    return await _ask_workers(node, params, "stop")


async def _ask_workers(node: NodePort, params: Workers, what: str) -> View:
    if bool(params.workers) == params.all:
        raise BadRequest("say which workers: by name, or all")

    def ask(engine: Engine, now: int) -> View:
        names = [str(view["name"]) for view in _workers(engine)] if params.all else params.workers
        services = list(engine.services.values())
        missing = [
            name
            for name in names
            # Asked of each until one knows it: names are unique within a protocol only.
            if not any(service.ask_worker(name, what) for service in services)
        ]
        return {"count": len(names) - len(missing), "missing": missing}

    return await node.ask(ask)


# -- the table --------------------------------------------------------------------------------


class Operation(Struct, frozen=True):
    """What is called, and the type of its parameters."""

    run: Callable[[NodePort, Any], Awaitable[View]]
    params: type[Struct]


OPERATIONS: dict[str, Operation] = {
    "server.status": Operation(server_status, Nothing),
    "server.stop": Operation(server_stop, Nothing),
    "server.backup": Operation(server_backup, Backup),
    "jobs.push": Operation(jobs.push, jobs.Push),
    "jobs.find": Operation(jobs.find, jobs.Find),
    "jobs.show": Operation(jobs.show, jobs.Show),
    "jobs.retry": Operation(jobs.retry, jobs.Choose),
    "jobs.kill": Operation(jobs.kill, jobs.Choose),
    "jobs.cancel": Operation(jobs.cancel, jobs.Choose),
    "jobs.delete": Operation(jobs.delete, jobs.Choose),
    "queues.list": Operation(queues_list, Nothing),
    "queues.pause": Operation(queues_pause, Queues),
    "queues.resume": Operation(queues_resume, Queues),
    "queues.purge": Operation(queues_purge, Queues),
    "workers.list": Operation(workers_list, Nothing),
    "workers.quiet": Operation(workers_quiet, Workers),
    "workers.stop": Operation(workers_stop, Workers),
}


async def perform(node: NodePort, name: str, params: Raw = NO_PARAMS) -> View:
    """Carry out one operation. `Refused`, `BadRequest` included, if it is not to be done."""
    operation = OPERATIONS.get(name)
    if operation is None:
        near = difflib.get_close_matches(name, OPERATIONS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadRequest(f"there is no operation {name!r}{hint}")
    try:
        typed = msgspec.json.decode(params, type=operation.params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"{name}: {error}") from None
    return await operation.run(node, typed)


class Request(Struct, forbid_unknown_fields=True):
    """One line of the control socket."""

    op: str
    params: Raw = NO_PARAMS


async def answer(node: NodePort, line: bytes) -> tuple[bytes, Exception | None]:
    """The reply to one line, and the error behind it if it was nobody's fault but ours."""
    try:
        request = msgspec.json.decode(line, type=Request)
        result = await perform(node, request.op, request.params)
        return msgspec.json.encode({"ok": True, "result": result}), None
    except (msgspec.DecodeError, RecursionError) as error:
        return error_reply("bad-request", f"not a request: {error}"), None
    except Refused as error:
        return error_reply(error.code, error.text), None
    except Exception as error:
        return error_reply("failed", f"{type(error).__name__}: {error}"), error


def error_reply(code: str, text: str) -> bytes:
    """A refusal as one line, without its end."""
    return msgspec.json.encode({"ok": False, "error": {"code": code, "text": text}})
