"""A worker of PyPI's `aiogear`. It reads workloads as UTF-8."""

from __future__ import annotations

import asyncio
from typing import Any

from aiogear import PacketType, Worker

from tests.real.gearman.programs.peer import HOST, PARTS, WHOLE, ran, say, spec, until_allowed

PACKETS = {
    "status": PacketType.WORK_STATUS,
    "data": PacketType.WORK_DATA,
    "warning": PacketType.WORK_WARNING,
}


class Sleeper(Worker):  # type: ignore[misc]
    """Tells when it has said that it sleeps: until it is woken it asks for nothing."""

    def pre_sleep(self) -> None:
        super().pre_sleep()
        say("asleep")


async def main() -> None:
    told = spec()
    loop = asyncio.get_running_loop()

    def does(how: str) -> Any:
        async def work(job: Any) -> str:
            if how == "wait":
                await asyncio.to_thread(until_allowed, job.function, job.workload.encode())
            ran(job.function, job.workload.encode(), handle=job.handle)
            if how == "raise":
                raise ValueError("boom")
            if how == "progress":
                # It has the packets, and no calls that make them.
                for kind, part in PARTS:
                    parts = [str(n) for n in part] if kind == "status" else [part]
                    worker.send(PACKETS[kind], job.handle, *parts)
                return WHOLE
            return "" if how == "empty" else str(job.workload[::-1])

        return work

    wanted = told["functions"].items()
    functions = [(does(how), name) for name, how in wanted if how != "fail"]
    _, worker = await loop.create_connection(lambda: Sleeper(*functions), HOST, told["port"])
    worker.set_client_id(told["id"])
    for name, how in wanted:
        if how == "fail":
            worker.can_do(name)  # it fails what it does not know, and nothing else
    say("ready")
    await worker.main_task


if __name__ == "__main__":
    asyncio.run(main())
