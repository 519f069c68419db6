"""What REQUEST, REPLY and READY cost, for one client and one worker with fifty slots.

`python -m tests.protocols.eventmq.hotpath`
"""

from __future__ import annotations

from franca.protocols.eventmq import zmtp
from tests.protocols.eventmq.puppet import VERSION, World, call
from tests.protocols.hotpath import JOBS_A_TURN, HotPath, measure, on

BODY = call("bench.load", "x" * 64)


def main() -> None:
    world = World()
    client, worker = world.peer(), world.worker((10, "default"), slots=JOBS_A_TURN)

    def play(path: HotPath, numbers: range) -> None:
        ids = [b"%08d-0000-4000-8000-000000000000" % number for number in numbers]
        requests = [
            zmtp.message([b"", VERSION, b"REQUEST", one, b"default", b"", BODY]) for one in ids
        ]
        replies = [
            zmtp.message([b"", VERSION, b"REPLY", b"x" * 36, b'{"value": true}', one])
            + zmtp.message([b"", VERSION, b"READY", b"x" * 36])
            for one in ids
        ]
        path.turn("REQUEST", on(client.link, requests))
        path.turn("REPLY+READY", on(worker.link, replies))
        path.drain()

    measure(world, play)


if __name__ == "__main__":
    main()
