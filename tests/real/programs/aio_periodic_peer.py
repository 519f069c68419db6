"""A client and a worker of aio_periodic, of whichever version is on the path, told what to do.

Reads `[verb, ...]` lines and answers each; what its worker does it tells as events. Versions differ
in how one connects and how a job is handed over, and in nothing else that is used here.
"""

import asyncio
import json
import struct
import sys
import time
from typing import Any

import aio_periodic
from aio_periodic import Client, Job, Worker

from tests.real.programs.jobs import say

IS_OLD = not hasattr(aio_periodic, "Transport")
DUMP, LOAD = b"\x12", b"\x13"


class Peer:
    """One connection as a client, and one as a worker once it is asked for functions."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.client: Any = None
        self._worker: Any = None
        self._tries: dict[str, int] = {}

    async def start(self) -> None:
        self.client = Client()
        await self._connect(self.client)

    async def _connect(self, peer: Any) -> None:
        if IS_OLD:
            await peer.connect(getattr(aio_periodic, "open_connection"), self._url)  # noqa: B009
        else:
            await peer.connect(aio_periodic.Transport(self._url))

    # -- the worker -------------------------------------------------------------------------

    async def work(self, funcs: list[str], size: int = 4) -> bool:
        """Run these functions: what each does is told by its name, up to a dash."""
        return await self._work("add_func", funcs, size)

    async def broadcast(self, func: str) -> bool:
        return await self._work("broadcast", [func], 1)

    async def _work(self, register: str, funcs: list[str], size: int) -> bool:
        self._worker = Worker()
        await self._connect(self._worker)
        for func in funcs:
            run = getattr(self, "do_" + func.partition("-")[0], self.do_echo)
            await getattr(self._worker, register)(func, run)
        asyncio.get_running_loop().create_task(self._worker.work(size))
        # The old version does not wait until its functions are known.
        return bool(await self._worker.ping())

    async def do_echo(self, job: Any) -> None:
        say("ran", name=job.name, workload=job.workload.decode(), count=job.payload.count)
        await job.done(job.workload)

    async def do_boom(self, job: Any) -> None:
        say("ran", name=job.name)
        raise ValueError("boom")

    async def do_shaky(self, job: Any) -> None:
        """Fails the first time."""
        self._tries[job.name] = self._tries.get(job.name, 0) + 1
        say("ran", name=job.name, tries=self._tries[job.name])
        if self._tries[job.name] == 1:
            await job.fail()
        else:
            await job.done(b"at last")

    async def do_later(self, job: Any) -> None:
        """Puts itself off until its counter has come to two."""
        say("ran", name=job.name, count=job.payload.count)
        if job.payload.count < 2:
            await job.sched_later(1, 1)
        else:
            await job.done(b"counted")

    async def do_locked(self, job: Any) -> None:
        """One at a time, whoever runs it."""

        async def run() -> None:
            began = time.monotonic()
            await asyncio.sleep(0.1)
            say("unlocked", span=[began, time.monotonic()])
            await job.done(b"")

        await job.with_lock("the lock", 1, run)

    async def do_data(self, job: Any) -> None:
        for piece in (b"one", b"two"):
            # The client library forgets what comes faster than it is looked at.
            await asyncio.sleep(0.1)
            await job.data(piece)
        await asyncio.sleep(0.1)
        await job.done(b"all")

    async def do_hang(self, job: Any) -> None:
        say("ran", name=job.name)
        await asyncio.sleep(3600)

    # -- the client -------------------------------------------------------------------------

    async def submit(self, *args: Any, **numbers: Any) -> Any:
        return await self._with_job(self.client.submit_job, args, numbers)

    async def run(self, *args: Any, **numbers: Any) -> Any:
        return (await self._with_job(self.client.run_job, args, numbers)).decode()

    async def stream(self, *args: Any) -> Any:
        pieces: list[str] = []
        how = {"stream": lambda data: pieces.append(data.decode())}
        result = await self.client.run_job(job=_job(*args, timeout=10), **how)
        return [result.decode(), pieces]

    async def _with_job(self, call: Any, args: Any, numbers: Any) -> Any:
        job = _job(*args, **numbers)
        return await (call(job) if IS_OLD else call(job=job))

    async def _raw(self, payload: bytes) -> bytes:
        """The library has no word for this; it sends any bytes under an id of its own."""
        if not IS_OLD:
            return bytes(await self.client.send_command_and_receive(payload))
        agent = self.client.agent
        await agent.send(payload)
        answer: bytes = await agent.receive()
        self.client.remove_agent(agent)
        return answer

    async def dump(self) -> Any:
        answer = await self._raw(DUMP)
        jobs, rest = [], answer[9:]
        for _ in range(struct.unpack(">q", answer[1:9])[0]):
            job = Job.build(rest)
            rest = rest[len(bytes(job)) :]
            jobs.append([job.func.decode(), job.name.decode(), job.workload.decode()])
        return jobs

    async def load(self, jobs: list[list[str]]) -> Any:
        packed = [bytes(_job(*job)) for job in jobs]
        size = struct.pack(">q", len(jobs))
        return await self._raw(LOAD + size + b"".join(packed)) == b"\x10"


def _job(func: str, name: str, workload: str = "", **numbers: Any) -> Any:
    return Job(func, name, workload.encode(), **numbers)


async def main(spec: dict[str, str]) -> None:
    peer = Peer(spec["url"])
    await peer.start()
    say("ready", old=IS_OLD)
    loop = asyncio.get_running_loop()
    calls: set[asyncio.Task[None]] = set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        number, verb, *args = json.loads(line)
        numbers = args.pop() if args and isinstance(args[-1], dict) else {}
        # What is not ours is the client's own.
        run = getattr(peer, verb, None) or getattr(peer.client, verb)
        call = loop.create_task(_answer(number, run(*args, **numbers)))
        calls.add(call)
        call.add_done_callback(calls.discard)


async def _answer(number: int, call: Any) -> None:
    try:
        say("answer", number=number, value=await call)
    except Exception as error:
        say("answer", number=number, error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
