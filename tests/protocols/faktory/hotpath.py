"""What PUSH, FETCH and ACK cost without sockets and disk: `python -m tests.protocols.faktory.hotpath`.

One producer and one consumer; each turn of the engine takes fifty inputs, as a busy node's does.
Prints the best of several rounds, in microseconds a job: the machine is noisy, the minimum is not.
"""

from __future__ import annotations

import time

from franca.protocols.conversation import Link
from tests.protocols.faktory.puppet import Puppet, World

JOBS_A_TURN = 50
JOBS_A_ROUND = 20_000
ROUNDS = 8


def main() -> None:
    world = World()
    producer, consumer = world.client(), world.client("w1")
    best: list[float] = []
    for number in range(ROUNDS):
        spans = run_round(world, producer, consumer, number * JOBS_A_ROUND)
        if not best or sum(spans) < sum(best):
            best = spans
    names = ("PUSH", "FETCH", "ACK", "drain")
    parts = " ".join(f"{name}={span:.2f}" for name, span in zip(names, best, strict=True))
    print(f"hot path, us/job: {parts} total={sum(best):.2f}")


def run_round(world: World, producer: Puppet, consumer: Puppet, first: int) -> list[float]:
    spans = [0.0] * 4
    for start in range(first, first + JOBS_A_ROUND, JOBS_A_TURN):
        jids = [b"load%012d" % number for number in range(start, start + JOBS_A_TURN)]
        pushes = [
            b'PUSH {"jid":"%b","jobtype":"bench","queue":"bench","args":["%b"]}\r\n'
            % (jid, b"x" * 64)
            for jid in jids
        ]
        acks = [b'ACK {"jid":"%b"}\r\n' % jid for jid in jids]
        world.now += 1
        if start % 10_000 == 0:
            consumer.beat("w1")
        marks = [time.perf_counter()]
        for link, lines in (
            (producer.link, pushes),
            (consumer.link, [b"FETCH bench\r\n"] * JOBS_A_TURN),
            (consumer.link, acks),
        ):
            turn(world, link, lines)
            marks.append(time.perf_counter())
        world.broker.drain()
        marks.append(time.perf_counter())
        for i in range(4):
            spans[i] += marks[i + 1] - marks[i]
    return [span / JOBS_A_ROUND * 1e6 for span in spans]


def turn(world: World, link: Link, lines: list[bytes]) -> None:
    for line in lines:
        world.engine.received(link, line)
    world.engine.turn(world.now)
    for speaker in world.engine.speaking:
        speaker.out.clear()
        speaker.after_commit = False
    world.engine.speaking.clear()


if __name__ == "__main__":
    main()
