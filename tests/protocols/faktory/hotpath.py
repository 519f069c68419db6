"""What PUSH, FETCH and ACK cost, for one producer and one consumer.

`python -m tests.protocols.faktory.hotpath`
"""

from __future__ import annotations

from tests.protocols.faktory.puppet import World
from tests.protocols.hotpath import JOBS_A_TURN, HotPath, measure, on


def main() -> None:
    world = World()
    producer, consumer = world.client(), world.client("w1")

    def play(path: HotPath, numbers: range) -> None:
        jids = [b"load%012d" % number for number in numbers]
        pushes = [
            b'PUSH {"jid":"%b","jobtype":"bench","queue":"bench","args":["%b"]}\r\n'
            % (jid, b"x" * 64)
            for jid in jids
        ]
        acks = [b'ACK {"jid":"%b"}\r\n' % jid for jid in jids]
        if numbers.start % 10_000 == 0:
            consumer.beat("w1")
        path.turn("PUSH", on(producer.link, pushes))
        path.turn("FETCH", on(consumer.link, [b"FETCH bench\r\n"] * JOBS_A_TURN))
        path.turn("ACK", on(consumer.link, acks))
        path.drain()

    measure(world, play)


if __name__ == "__main__":
    main()
