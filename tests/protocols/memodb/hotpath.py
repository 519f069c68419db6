"""What a request costs without sockets: `python -m tests.protocols.memodb.hotpath`.

Fifty clients and fifty workers, each on a connection of its own; each turn of the engine takes
fifty inputs, as a busy node's does. Prints the best of several rounds, in microseconds a request:
the machine is noisy, the minimum is not.
"""

from __future__ import annotations

import time

from franca.protocols.memodb.messages import encode_job, encode_result
from tests.protocols.memodb.puppet import World, stack, worker_on

PEERS = 50
TURNS_A_ROUND = 200
ROUNDS = 8


def main() -> None:
    world = World()
    clients = [world.peer() for _ in range(PEERS)]
    workers = [worker_on(world, "bench") for _ in range(PEERS)]
    worker_of = list(world.service.registry.by_id)
    best: tuple[float, float] | None = None
    request = 0
    for _ in range(ROUNDS):
        spans = [0.0, 0.0]
        for _ in range(TURNS_A_ROUND):
            request += 1
            world.now += 1
            # Ids of different sockets differ, or they would be taken for one client's.
            asked = [
                (
                    client.link,
                    client.frame(
                        stack(number << 20 | request) + encode_job("bench", 60_000, b"x" * 32)
                    ),
                )
                for number, client in enumerate(clients)
            ]
            done = [
                (peer.link, peer.frame(stack(request) + encode_result(b"y" * 32, worker_id)))
                for peer, worker_id in zip(workers, worker_of, strict=True)
            ]
            for index, inputs in enumerate((asked, done)):
                world.engine.inputs.extend(inputs)
                began = time.perf_counter()
                world.engine.turn(world.now)
                spans[index] += time.perf_counter() - began
                for link in world.engine.speaking:
                    link.out.clear()
                world.engine.speaking.clear()
        if best is None or sum(spans) < sum(best):
            best = (spans[0], spans[1])
    assert best is not None
    jobs = PEERS * TURNS_A_ROUND
    job, result = (span / jobs * 1e6 for span in best)
    print(f"hot path, us/request: JOB={job:.2f} RESULT={result:.2f} total={job + result:.2f}")


if __name__ == "__main__":
    main()
