"""A client, and an admin, of PyPI's `aiogear`.

It reads results as UTF-8 without NUL, and hands them out in the order in which they come: each
job has a connection of its own here.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import wraps
from typing import Any

from aiogear import Admin, CallbackClient, Client
from aiogear.response import WorkComplete, WorkFail

from tests.real.gearman.programs.peer import HOST, b64, outcome, spec
from tests.real.programs.jobs import obey

PORT = spec()["port"]


@asynccontextmanager
async def connected(make: Callable[[], Any] = Client) -> AsyncIterator[Any]:
    _, protocol = await asyncio.get_running_loop().create_connection(make, HOST, PORT)
    yield protocol
    protocol.transport.abort()


async def submit(
    client: Client, how: str, function: str, workload: str, unique: str = "", priority: str = ""
) -> str:
    send = getattr(client, "submit_job" + (priority and f"_{priority}") + how)
    created = await send(function, b64decode(workload), uuid=unique.encode() or None)
    return str(created.handle)


async def do(*work: str, **options: str) -> dict[str, object]:
    async with connected() as client:
        await client.option_req("exceptions")
        handle = await submit(client, "", *work, **options)
        end = await client.wait_job(handle)
    assert end.handle == handle
    if isinstance(end, WorkFail):
        return outcome("fail")
    if isinstance(end, WorkComplete):
        return outcome("complete", end.result.encode())
    return outcome("exception", exception=b64(end.exception.encode()))


async def background(*work: str, **options: str) -> str:
    async with connected() as client:
        return await submit(client, "_bg", *work, **options)


async def status(handle: str) -> list[int]:
    async with connected() as client:
        found = await client.get_status(handle)
    assert found.handle == handle
    return [int(each) for each in found[1:]]


async def group(function: str, workloads: list[str]) -> dict[str, list[Any]]:
    """Its other client: a group of jobs, and a callback that hears of each by its name."""
    heard: dict[str, list[Any]] = {}

    async def update(kind: str, name: bytes | None, data: Any) -> None:
        if name is not None:
            heard.setdefault(name.decode(), []).append([kind, data])

    async with connected(CallbackClient) as client:
        client.set_update_callback(update)
        jobs = [(b"job %d" % n, b64decode(each)) for n, each in enumerate(workloads)]
        accepted, completed = await client.submit_jobs(function, jobs)
        await accepted
        heard["results"] = sorted(each["data"] for each in await completed)
        await asyncio.sleep(0)
    return heard


async def sched(function: str, workload: str, when: str) -> str:
    moment = datetime.fromisoformat(when)
    async with connected() as client:
        created = await client.submit_job_sched(function, moment, b64decode(workload), uuid=b"")
    return str(created.handle)


async def admin(name: str, *args: Any) -> Any:
    async with connected(Admin) as peer:
        return await getattr(peer, name)(*args)


if __name__ == "__main__":
    runner = asyncio.Runner()

    def now(verb: Callable[..., Any]) -> Callable[..., Any]:
        return wraps(verb)(lambda *args, **options: runner.run(verb(*args, **options)))

    verbs: tuple[Callable[..., Any], ...] = (do, background, status, group, sched, admin)
    obey(*map(now, verbs))
