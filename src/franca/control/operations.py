"""Every operation there is, by name. The control socket carries them, and REST.

An operation is a typed function over the server's port. Its parameters come as JSON and are
checked before anything is done; its result is plain values. A refusal has changed nothing.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from franca.control import (
    audit,
    bulk,
    importing,
    job_search,
    jobs,
    overview,
    portable,
    queues,
    schedules,
    shapes,
    submit,
    tallies,
    work,
    workers,
)  # fmt: skip
from franca.control.caller import ADMIN, OPERATOR, OWNER, VIEWER, Caller, Role
from franca.control.http_workers import What
from franca.control.job_actions import (
    CANCEL,
    DELETE,
    KILL,
    RETRY,
    Action,
    Choose,
    Result,
    act_on_jobs,
)
from franca.control.port import BadRequest, NodePort, pause_after
from franca.control.views import View
from franca.core.broker import Broker
from franca.core.errors import Refused, TooMuch
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


class Nothing(Struct, forbid_unknown_fields=True):
    """No parameters."""


class Backup(Struct, forbid_unknown_fields=True):
    """Where to write the copy: an absolute path where nothing is yet."""

    path: str


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


# -- the table --------------------------------------------------------------------------------


Wait = Callable[[], Awaitable[None]]
Run = Callable[..., Awaitable[object]]
AnyView = dict[str, Any]
"""A result whose members scripts have long known."""


class Operation(Struct, frozen=True):
    """What is called, the types of its parameters and of its result, and who may call it.

    `summary` says in a few words what it is for.
    """

    run: Run
    params: type[Struct]
    result: Any
    role: Role
    summary: str
    large: bool = False
    """Whether its result may be large, so that one is to be made at a time."""
    carries: bool = False
    """Whether its parameters carry something of any size, which is not read."""
    often: bool = False
    """Whether it changes no more than a job, again and again, so that it is not recorded."""
    asks_who: bool = False
    """Whether it is also told who asks."""

    @property
    def is_recorded(self) -> bool:
        """Whether the record of what operators did has it."""
        return self.role != VIEWER and not self.often


def _of_role(role: Role) -> Callable[..., Operation]:
    """A way to write down operations of one role."""

    def make(
        run: Run, params: type[Struct], result: Any, summary: str,
        *, large: bool = False, carries: bool = False, often: bool = False, asks_who: bool = False,
    ) -> Operation:  # fmt: skip
        return Operation(run, params, result, role, summary, large, carries, often, asks_who)

    return make


_view, _change, _admin = _of_role(VIEWER), _of_role(OPERATOR), _of_role(ADMIN)


def _on_jobs(action: Action, summary: str) -> Operation:
    return Operation(partial(act_on_jobs, action), Choose, Result, OPERATOR, summary)


def _on_queues(act: queues.ActOnQueues, summary: str) -> Operation:
    run = partial(queues.on_queues, act)
    return Operation(run, queues.Queues, queues.Changed, OPERATOR, summary)


def _on_workers(what: What, summary: str) -> Operation:
    run = partial(workers.ask_workers, what)
    return Operation(run, workers.Workers, workers.Asked, OPERATOR, summary)


def _turn(act: Callable[[Engine, str, Millis], None], summary: str) -> Operation:
    run = partial(schedules.turn, act)
    return Operation(run, schedules.Which, shapes.Schedule, OPERATOR, summary)


OPERATIONS: dict[str, Operation] = {
    "overview": _view(
        overview.overview, overview.In, shapes.Overview, "An overview of the server", asks_who=True
    ),
    "counts": _view(overview.counts, Nothing, shapes.Counts, "The number of jobs in each state"),
    "known": _view(overview.known, Nothing, shapes.KnownValues, "Values for completing a filter"),
    "health": _view(
        overview.health, Nothing, shapes.Health, "The server's health", asks_who=True
    ),
    "history": _view(
        overview.history, Nothing, shapes.History, "The size and bounds of the history"
    ),
    "server.status": _view(server_status, Nothing, AnyView, "The server's status"),
    "server.stop": _admin(server_stop, Nothing, AnyView, "Begin a graceful stop"),
    "server.backup": _admin(server_backup, Backup, AnyView, "Copy the store into a new file"),
    "store.export": _admin(
        portable.export, portable.Export, portable.Exported,
        "Export live jobs, a portion at a time",
        large=True,
    ),
    "store.import": _admin(
        importing.import_, importing.Import, importing.Imported, "Import exported jobs",
        carries=True,
    ),
    "jobs.push": _change(
        submit.push, jobs.Push, AnyView, "Submit a job", carries=True, often=True
    ),
    "jobs.submit": _change(
        submit.submit_many, submit.SubmitMany, shapes.SubmittedMany, "Submit many jobs",
        carries=True, often=True,
    ),
    "jobs.find": _view(jobs.find, jobs.Find, AnyView, "List jobs by id", large=True),
    "jobs.search": _view(
        job_search.search_jobs, job_search.SearchJobs, shapes.JobPage, "Search jobs",
        large=True, asks_who=True,
    ),
    "jobs.show": _view(jobs.show, jobs.Show, AnyView, "Show jobs by id or name", large=True),
    "jobs.get": _view(
        job_search.get_job, job_search.GetJob, shapes.Job, "Everything about one job", large=True
    ),
    "jobs.retry": _on_jobs(RETRY, "Make waiting or dead jobs ready now"),
    "jobs.kill": _on_jobs(KILL, "Move live jobs to the dead set"),
    "jobs.cancel": _on_jobs(CANCEL, "Cancel live jobs"),
    "jobs.delete": _on_jobs(DELETE, "Delete waiting, ready or dead jobs"),
    "jobs.act": _change(
        bulk.act, bulk.Act, shapes.Acted, "Act on jobs by id, or on all that match a filter"
    ),
    "operations.list": _view(
        bulk.list_all, Nothing, shapes.OperationList, "List background actions"
    ),
    "operations.show": _view(
        bulk.show, bulk.Which, shapes.Operation, "Show the progress of a background action"
    ),
    "operations.stop": _change(
        bulk.stop, bulk.Which, shapes.Operation, "Stop a background action"
    ),
    "queues.list": _view(
        queues.list_queues, queues.ListQueues, shapes.QueueList, "List queues", large=True
    ),
    "queues.show": _view(
        queues.show_queue, queues.ShowQueue, shapes.Queue, "Show a queue with its rates"
    ),
    "queues.pause": _change(
        queues.pause, queues.Pause, queues.Changed, "Pause queues"
    ),
    "queues.resume": _on_queues(queues.resume, "Resume queues"),
    "queues.purge": _on_queues(Broker.purge_queues, "Delete every ready job of queues"),
    "types.list": _view(
        tallies.list_types, tallies.ListTypes, shapes.TypeList,
        "List job types with rates and latencies", large=True
    ),
    "workers.list": _view(
        workers.list_workers, workers.Find, AnyView, "List workers", large=True
    ),
    "workers.find": _view(
        workers.find_workers, workers.Find, shapes.WorkerList, "List workers and the jobs they run",
        large=True,
    ),
    "workers.quiet": _on_workers("quiet", "Ask workers to take no more jobs"),
    "workers.stop": _on_workers("stop", "Ask workers to finish their jobs and stop"),
    "schedules.list": _view(
        schedules.list_all, Nothing, shapes.ScheduleList, "List schedules", large=True
    ),
    "schedules.show": _view(
        schedules.show, schedules.Which, shapes.Schedule, "Show a schedule and its next run times"
    ),
    "schedules.create": _change(
        schedules.create, schedules.Create, shapes.Schedule, "Create a schedule", carries=True
    ),
    "schedules.edit": _change(
        schedules.edit, schedules.Edit, shapes.Schedule, "Change a schedule", carries=True
    ),
    "schedules.run": _change(
        schedules.run, schedules.Which, shapes.Submitted, "Run a schedule now"
    ),
    "schedules.pause": _turn(schedules.pause, "Pause a schedule"),
    "schedules.resume": _turn(schedules.resume, "Resume a schedule"),
    "schedules.delete": _change(
        schedules.delete, schedules.Which, AnyView, "Delete a schedule; its jobs stay"
    ),
    "errors.list": _view(
        overview.errors, Nothing, shapes.ErrorList, "List dead and retrying jobs by error",
        large=True,
    ),
    "work.lease": _change(work.lease, work.Lease, work.Leased, "Lease a job", often=True),
    "work.ack": _change(
        work.ack, work.Ack, work.Settled, "Acknowledge a job as done", carries=True, often=True
    ),
    "work.fail": _change(work.fail, work.Fail, work.Settled, "Report a failed run", often=True),
    "work.heartbeat": _change(
        work.heartbeat, work.Heartbeat, work.Settled, "Extend the lease of a job", often=True
    ),
    "work.progress": _change(
        work.progress, work.Report, work.Settled, "Report the progress of a run", often=True
    ),
    "audit.list": _admin(
        audit.list_entries, audit.Audit, audit.AuditPage,
        "List what operators did, newest first", often=True
    ),
}  # fmt: skip


async def perform(
    node: NodePort,
    name: str,
    params: Raw = NO_PARAMS,
    wait_turn: Wait | None = None,
    caller: Caller = OWNER,
) -> object:
    """Carry out one operation. `Refused`, `BadRequest` included, if it is not to be done.

    `wait_turn` is awaited before one that is large. What changes something is recorded.
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
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest(f"{name}: {error}") from None
    await pause_after(size)
    if operation.large and wait_turn is not None:
        await wait_turn()
    run = partial(operation.run, caller) if operation.asks_who else operation.run
    if not operation.is_recorded:
        return await run(node, typed)
    with node.audit.recording(caller, name, params):
        return await run(node, typed)


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
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
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
