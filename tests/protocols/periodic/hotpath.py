"""What a job costs without sockets and disk: `python -m tests.protocols.periodic.hotpath`.

One producer and one worker; each turn of the engine takes fifty inputs, as a busy node's does.
Prints the best of several rounds, in microseconds a job: the machine is noisy, the minimum is not.
"""

from __future__ import annotations

import time

from franca.protocols.conversation import Link
from tests.protocols.periodic.puppet import Puppet, World
from tests.support import periodic as p
from tests.support.periodic import packed, str8

JOBS_A_TURN = 50
JOBS_A_ROUND = 20_000
ROUNDS = 8


def main() -> None:
    world = World()
    producer, worker = world.client(), world.worker("bench")
    best: list[float] = []
    for number in range(ROUNDS):
        spans = run_round(world, producer, worker, number * JOBS_A_ROUND)
        if not best or sum(spans) < sum(best):
            best = spans
    names = ("SUBMIT_JOB", "GRAB_JOB", "WORK_DONE", "drain")
    parts = " ".join(f"{name}={span:.2f}" for name, span in zip(names, best, strict=True))
    print(f"hot path, us/job: {parts} total={sum(best):.2f}")


def run_round(world: World, producer: Puppet, worker: Puppet, first: int) -> list[float]:
    spans = [0.0] * 4
    for start in range(first, first + JOBS_A_ROUND, JOBS_A_TURN):
        names = [f"load{number:012}" for number in range(start, start + JOBS_A_TURN)]
        said = (
            (producer.link, [producer.message(p.SUBMIT_JOB, packed("bench", n, b"x" * 64), b"subm") for n in names]),
            (worker.link, [worker.message(p.GRAB_JOB, b"", b"grab")] * JOBS_A_TURN),
            (worker.link, [worker.message(p.WORK_DONE, str8("bench") + str8(n), b"done") for n in names]),
        )  # fmt: skip
        world.now += 1
        marks = [time.perf_counter()]
        for link, messages in said:
            turn(world, link, messages)
            marks.append(time.perf_counter())
        world.broker.drain()
        marks.append(time.perf_counter())
        for i in range(4):
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
