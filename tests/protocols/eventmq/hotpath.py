"""What REQUEST, REPLY and READY cost without sockets and disk: `python -m tests.protocols.eventmq.hotpath`.

One client and one worker with fifty slots; each turn of the engine takes fifty inputs, as a busy node's
does. Prints the best of several rounds, in microseconds a job: the machine is noisy, the minimum is not.
"""

from __future__ import annotations

import time

from franca.protocols.conversation import Link
from franca.protocols.eventmq import zmtp
from tests.protocols.eventmq.puppet import VERSION, Puppet, World, call

JOBS_A_TURN = 50
JOBS_A_ROUND = 20_000
ROUNDS = 8
BODY = call("bench.load", "x" * 64)


def main() -> None:
    world = World()
    client, worker = world.peer(), world.worker((10, "default"), slots=JOBS_A_TURN)
    best: list[float] = []
    for number in range(ROUNDS):
        spans = run_round(world, client, worker, number * JOBS_A_ROUND)
        if not best or sum(spans) < sum(best):
            best = spans
    names = ("REQUEST", "REPLY+READY", "drain")
    parts = " ".join(f"{name}={span:.2f}" for name, span in zip(names, best, strict=True))
    print(f"hot path, us/job: {parts} total={sum(best):.2f}")


def run_round(world: World, client: Puppet, worker: Puppet, first: int) -> list[float]:
    spans = [0.0] * 3
    for start in range(first, first + JOBS_A_ROUND, JOBS_A_TURN):
        ids = [b"%08d-0000-4000-8000-000000000000" % n for n in range(start, start + JOBS_A_TURN)]
        requests = [
            zmtp.message([b"", VERSION, b"REQUEST", one, b"default", b"", BODY]) for one in ids
        ]
        replies = [
            zmtp.message([b"", VERSION, b"REPLY", b"x" * 36, b'{"value": true}', one])
            + zmtp.message([b"", VERSION, b"READY", b"x" * 36])
            for one in ids
        ]
        world.now += 1
        marks = [time.perf_counter()]
        for link, messages in ((client.link, requests), (worker.link, replies)):
            turn(world, link, messages)
            marks.append(time.perf_counter())
        world.broker.drain()
        marks.append(time.perf_counter())
        for i in range(3):
            spans[i] += marks[i + 1] - marks[i]
    return [span / JOBS_A_ROUND * 1e6 for span in spans]


def turn(world: World, link: Link, messages: list[bytes]) -> None:
    for message in messages:
        world.engine.received(link, message)
    world.engine.turn(world.now)
    for speaker in world.engine.speaking:
        speaker.out.clear()
        speaker.after_commit = False
    world.engine.speaking.clear()


if __name__ == "__main__":
    main()
