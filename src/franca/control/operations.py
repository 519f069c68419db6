"""Every operation there is, by name. The control socket carries them, and REST will.

An operation is a typed function over the server's port. Its parameters come as JSON and are
checked before anything is done; its result is plain values. A refusal has changed nothing.
"""

from __future__ import annotations

import asyncio
import difflib
import heapq
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw, Struct

from franca.control import jobs
from franca.control.job_actions import CANCEL, DELETE, KILL, RETRY, Choose, act_on_jobs
from franca.control.jobs import Names
from franca.control.port import BadRequest, NodePort, pause_after
from franca.control.views import View, queue_view, worker_view
from franca.core.broker import Broker
from franca.core.errors import NotFound, Refused, TooMuch
from franca.core.model import Millis
from franca.engine.engine import Engine

NO_PARAMS = Raw(b"{}")
OP_BYTES_MAX = 66
"""A longer name, with its quotes, is no operation's, and is not compared with theirs."""
PARAMS_BYTES_MAX = 12 * 1024 * 1024
PARAMS_COMMAS_MAX = 100_000
"""What is read of parameters other than a job's arguments: as many names as may be given, and no
document that takes long to be read before it can be found too long."""
ERROR_CHARS = 2_000
"""Of what is said about a wrong request, which may quote it."""
ACTED_QUEUES = 200
LISTED_QUEUES = 1_000
"""Queues that are acted on, or looked at, in one turn."""
ACTED_WORKERS = 200
"""Workers that are asked in one turn."""


class Nothing(Struct, forbid_unknown_fields=True):
    """No parameters."""


class Backup(Struct, forbid_unknown_fields=True):
    """Where to write the copy: an absolute path where nothing is yet."""

    path: str


class Queues(Struct, forbid_unknown_fields=True):
    """Which queues, by name."""

    queues: Names


class Workers(Struct, forbid_unknown_fields=True):
    """Which workers: by name, or every one."""

    workers: Names = []
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
    if not params.path.startswith("/") or "\0" in params.path:
        raise BadRequest("the path must be absolute, and have no NUL in it")
    return await node.backup(params.path)


# -- queues -----------------------------------------------------------------------------------


async def queues_list(node: NodePort, params: Nothing) -> View:
    """Every queue with its counts, by name."""
    names = await node.ask(
        lambda engine, now: [queue.name for queue in engine.broker.queues.values() if queue.listed]
    )
    sorted_parts: list[list[str]] = []
    for start in range(0, len(names), LISTED_QUEUES):
        sorted_parts.append(sorted(names[start : start + LISTED_QUEUES]))
        await asyncio.sleep(0)
    in_order = heapq.merge(*sorted_parts)
    pieces: list[bytes] = []
    while part := list(islice(in_order, LISTED_QUEUES)):
        pieces.append(await node.ask(partial(_queue_views, part)))
    return {"queues": Raw(b"[" + b",".join(filter(None, pieces)) + b"]")}


def _queue_views(names: Sequence[str], engine: Engine, now: Millis) -> bytes:
    """Those of the queues that are still there, as JSON without the brackets of a list."""
    found = [engine.broker.queues.get(name) for name in names]
    views = [queue_view(queue, now) for queue in found if queue is not None and queue.listed]
    return msgspec.json.encode(views)[1:-1]


async def on_queues(
    act: Callable[[Broker, Sequence[str], Millis], int | None], node: NodePort, params: Queues
) -> View:
    """Act on all of the queues, some in each turn, or on none if one of them does not exist.

    `jobs` are those that ended by it.
    """

    def check(engine: Engine, now: Millis) -> None:
        for name in params.queues:
            queue = engine.broker.queues.get(name)
            if queue is None or not queue.listed:
                raise NotFound(f"there is no queue {name}")

    def act_on(some: Sequence[str], engine: Engine, now: Millis) -> int:
        return act(engine.broker, some, now) or 0

    await node.ask(check)
    names = list(dict.fromkeys(params.queues))
    jobs_ended = 0
    for start in range(0, len(names), ACTED_QUEUES):
        jobs_ended += await node.ask(partial(act_on, names[start : start + ACTED_QUEUES]))
    return {"queues": params.queues, "jobs": jobs_ended}


# -- workers ----------------------------------------------------------------------------------


async def workers_list(node: NodePort, params: Nothing) -> View:
    """Every worker that any protocol knows of."""
    return {"workers": await node.ask(lambda engine, now: _workers(engine))}


def _workers(engine: Engine) -> list[View]:
    services = engine.services.values()
    return [worker_view(worker) for service in services for worker in service.workers()]


async def ask_workers(what: str, node: NodePort, params: Workers) -> View:
    """Ask workers to take no more jobs (`quiet`), or to finish what they run and leave (`stop`)."""
    if bool(params.workers) == params.all:
        raise BadRequest("say which workers: by name, or all")
    names: Sequence[str] = params.workers
    if params.all:
        names = await node.ask(lambda engine, now: [str(v["name"]) for v in _workers(engine)])
    missing: list[str] = []
    for start in range(0, len(names), ACTED_WORKERS):
        missing += await node.ask(partial(_ask_some, names[start : start + ACTED_WORKERS], what))
    return {"count": len(names) - len(missing), "missing": missing}


def _ask_some(names: Sequence[str], what: str, engine: Engine, now: Millis) -> list[str]:
    """Ask these workers; which of them nobody knows."""
    services = list(engine.services.values())
    # Asked of each until one knows it: names are unique within a protocol only.
    return [name for name in names if not any(one.ask_worker(name, what) for one in services)]


# -- the table --------------------------------------------------------------------------------


Wait = Callable[[], Awaitable[None]]


class Operation(Struct, frozen=True):
    """What is called, and the type of its parameters."""

    run: Callable[[NodePort, Any], Awaitable[View]]
    params: type[Struct]
    large: bool = False
    """Whether its result may be large, so that one is to be made at a time."""
    carries: bool = False
    """Whether its parameters carry something of any size, which is not read."""


OPERATIONS: dict[str, Operation] = {
    "server.status": Operation(server_status, Nothing),
    "server.stop": Operation(server_stop, Nothing),
    "server.backup": Operation(server_backup, Backup),
    "jobs.push": Operation(jobs.push, jobs.Push, carries=True),
    "jobs.find": Operation(jobs.find, jobs.Find, large=True),
    "jobs.show": Operation(jobs.show, jobs.Show, large=True),
    "jobs.retry": Operation(partial(act_on_jobs, RETRY), Choose),
    "jobs.kill": Operation(partial(act_on_jobs, KILL), Choose),
    "jobs.cancel": Operation(partial(act_on_jobs, CANCEL), Choose),
    "jobs.delete": Operation(partial(act_on_jobs, DELETE), Choose),
    "queues.list": Operation(queues_list, Nothing, large=True),
    "queues.pause": Operation(partial(on_queues, Broker.pause_queues), Queues),
    "queues.resume": Operation(partial(on_queues, Broker.resume_queues), Queues),
    "queues.purge": Operation(partial(on_queues, Broker.purge_queues), Queues),
    "workers.list": Operation(workers_list, Nothing, large=True),
    "workers.quiet": Operation(partial(ask_workers, "quiet"), Workers),
    "workers.stop": Operation(partial(ask_workers, "stop"), Workers),
}


async def perform(
    node: NodePort, name: str, params: Raw = NO_PARAMS, wait_turn: Wait | None = None
) -> View:
    """Carry out one operation. `Refused`, `BadRequest` included, if it is not to be done.

    `wait_turn` is awaited before one that is large.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        near = difflib.get_close_matches(name, OPERATIONS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadRequest(f"there is no operation {name!r}{hint}")
    size = len(memoryview(params))
    is_long = size > PARAMS_BYTES_MAX or bytes(params).count(b",") > PARAMS_COMMAS_MAX
    if is_long and not operation.carries:
        raise TooMuch(f"{name}: these are more parameters than it takes")
    await pause_after(size)
    try:
        typed = msgspec.json.decode(params, type=operation.params)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"{name}: {error}") from None
    await pause_after(size)
    if operation.large and wait_turn is not None:
        await wait_turn()
    return await operation.run(node, typed)


class Request(Struct, forbid_unknown_fields=True):
    """One line of the control socket. The name is read when it is known to be short."""

    op: Raw
    params: Raw = NO_PARAMS


async def answer(
    node: NodePort, line: bytes | bytearray, wait_turn: Wait | None = None
) -> tuple[bytes, Exception | None]:
    """The reply to one line, and the error behind it if it was nobody's fault but ours."""
    try:
        request = msgspec.json.decode(line, type=Request)
        del line
        if len(memoryview(request.op)) > OP_BYTES_MAX:
            raise BadRequest("there is no operation with such a long name")
        name = msgspec.json.decode(request.op, type=str)
        result = await perform(node, name, request.params, wait_turn)
        del request
        reply = {"ok": True, "result": result}
        if not OPERATIONS[name].large:
            return msgspec.json.encode(reply), None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, msgspec.json.encode, reply), None
    except (msgspec.DecodeError, RecursionError) as error:
        return error_reply("bad-request", f"not a request: {error}"), None
    except Refused as error:
        return error_reply(error.code, error.text), None
    except Exception as error:
        return error_reply("failed", f"{type(error).__name__}: {error}"), error


def error_reply(code: str, text: str) -> bytes:
    """A refusal as one line, without its end."""
    if len(text) > ERROR_CHARS:
        text = f"{text[:ERROR_CHARS]}..."
    return msgspec.json.encode({"ok": False, "error": {"code": code, "text": text}})
