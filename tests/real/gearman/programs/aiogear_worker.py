"""A worker of PyPI's `aiogear`. It reads workloads as UTF-8."""

import asyncio
from typing import Any

from aiogear import PacketType, Worker

from tests.real.gearman.programs.peer import HOST, perform, spec
from tests.real.programs.jobs import say


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
            def tell(kind: str, *args: object) -> None:
                # It has the packets, and no calls that make them.
                packet = PacketType[f"WORK_{kind.upper()}"]
                loop.call_soon_threadsafe(worker.send, packet, job.handle, *map(str, args))

            job_of_tests = how, job.function, job.workload.encode(), tell
            return (await asyncio.to_thread(perform, *job_of_tests, handle=job.handle)).decode()

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
