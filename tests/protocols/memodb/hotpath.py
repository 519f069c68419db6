"""What a request costs, for fifty clients and fifty workers, each on a connection of its own.

`python -m tests.protocols.memodb.hotpath`
"""

from __future__ import annotations

from franca.protocols.memodb.messages import encode_job, encode_result
from tests.protocols.hotpath import JOBS_A_TURN, HotPath, measure
from tests.protocols.memodb.puppet import World, stack, worker_on


def main() -> None:
    world = World()
    clients = [world.peer() for _ in range(JOBS_A_TURN)]
    workers = [worker_on(world, "bench") for _ in range(JOBS_A_TURN)]
    ids = list(world.service.registry.by_id)
    job = encode_job("bench", 60_000, b"x" * 32)

    def play(path: HotPath, numbers: range) -> None:
        # Ids of different sockets differ, or they would be taken for one client's.
        asked = [
            (client.link, client.frame(stack(number) + job))
            for client, number in zip(clients, numbers, strict=True)
        ]
        done = [
            (worker.link, worker.frame(stack(numbers.stop) + encode_result(b"y" * 32, worker_id)))
            for worker, worker_id in zip(workers, ids, strict=True)
        ]
        path.turn("JOB", asked)
        path.turn("RESULT", done)

    measure(world, play, jobs_a_round=10_000, title="us/request")


if __name__ == "__main__":
    main()
