"""A client, and an admin, of PyPI's `aiogear`.

It reads results as UTF-8 without NUL, and hands them out in the order in which they come: each
job has a connection of its own here.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import datetime
from typing import Any

from aiogear import Admin, CallbackClient, Client
from aiogear.response import WorkComplete, WorkFail

from tests.real.gearman.programs.peer import HOST, b64, obey, outcome, spec

PORT = spec()["port"]


async def connect(make: Callable[[], Any]) -> Any:
    _, protocol = await asyncio.get_running_loop().create_connection(make, HOST, PORT)
    return protocol


async def submit(
    client: Client, function: str, workload: str, options: dict[str, str], background: bool
) -> str:
    name = "submit_job" + {None: "", "high": "_high", "low": "_low"}[options.get("priority")]
    send = getattr(client, name + ("_bg" if background else ""))
    unique = options.get("unique")
    uuid = unique.encode() if unique else None
    created = await send(function, base64.b64decode(workload), uuid=uuid)
    handle: str = created.handle
    return handle


async def do(function: str, workload: str, options: dict[str, str]) -> dict[str, object]:
    client = await connect(Client)
    await client.option_req("exceptions")
    handle = await submit(client, function, workload, options, background=False)
    end = await client.wait_job(handle)
    client.transport.abort()
    assert end.handle == handle
    if isinstance(end, WorkFail):
        return outcome("fail")
    if isinstance(end, WorkComplete):
        return outcome("complete", end.result.encode())
    return outcome("exception", exception=b64(end.exception.encode()))


async def background(function: str, workload: str, options: dict[str, str]) -> str:
    client = await connect(Client)
    handle = await submit(client, function, workload, options, background=True)
    client.transport.abort()
    return handle


async def status(handle: str) -> list[int]:
    client = await connect(Client)
    found = await client.get_status(handle)
    client.transport.abort()
    assert found.handle == handle
    return [int(each) for each in found[1:]]


async def group(function: str, workloads: list[str]) -> dict[str, list[Any]]:
    """Its other client: a group of jobs, and a callback that hears of each by its name."""
    client = await connect(CallbackClient)
    heard: dict[str, list[Any]] = {}

    async def update(kind: str, name: bytes | None, data: Any) -> None:
        if name is not None:
            heard.setdefault(name.decode(), []).append([kind, data])

    client.set_update_callback(update)
    jobs = [(b"job %d" % n, base64.b64decode(each)) for n, each in enumerate(workloads)]
    accepted, completed = await client.submit_jobs(function, jobs)
    await accepted
    results = await completed
    heard["results"] = sorted(each["data"] for each in results)
    await asyncio.sleep(0)
    client.transport.abort()
    return heard


async def sched(function: str, workload: str, when: str) -> str:
    client = await connect(Client)
    created = await client.submit_job_sched(
        function, datetime.fromisoformat(when), base64.b64decode(workload), uuid=b""
    )
    client.transport.abort()
    handle: str = created.handle
    return handle


async def admin(name: str, *args: Any) -> Any:
    peer = await connect(Admin)
    answer = await getattr(peer, name)(*args)
    peer.transport.abort()
    return answer


def main() -> None:
    runner = asyncio.Runner()

    def now(verb: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: runner.run(verb(*args))

    verbs = (do, background, status, group, sched, admin)
    obey({verb.__name__: now(verb) for verb in verbs})


if __name__ == "__main__":
    main()
