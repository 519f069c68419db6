"""What a Gearman job costs, for one client and one worker.

`python -m tests.protocols.gearman.hotpath`
"""

from __future__ import annotations

from franca.protocols.gearman.wire import Packet, parse_response, request
from tests.protocols.gearman.puppet import World
from tests.protocols.hotpath import JOBS_A_TURN, HotPath, measure, on


def main() -> None:
    measure_submits("background", Packet.SUBMIT_JOB_BG)
    measure_submits("foreground", Packet.SUBMIT_JOB)


def measure_submits(name: str, submit: Packet) -> None:
    world = World()
    client, worker = world.connect(), world.worker("bench")
    submits = [request(submit, b"bench", b"", b"x" * 64)] * JOBS_A_TURN
    grabs = [request(Packet.GRAB_JOB_UNIQ)] * JOBS_A_TURN

    def play(path: HotPath, _: range) -> None:
        path.turn("SUBMIT", on(client.link, submits))
        unread = bytearray(path.turn("GRAB", on(worker.link, grabs)))
        done = [
            request(Packet.WORK_COMPLETE, message.body.partition(b"\0")[0], b"y")
            for message in iter(lambda: parse_response(unread), None)
        ]
        assert len(done) == JOBS_A_TURN
        path.turn("COMPLETE", on(worker.link, done))
        path.drain()

    measure(world, play, jobs_a_round=10_000, title=f"{name}, us/packet")


if __name__ == "__main__":
    main()
