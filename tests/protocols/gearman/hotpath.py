"""What a Gearman job costs without sockets and disk: `python -m tests.protocols.gearman.hotpath`.

One client and one worker; each turn of the engine takes fifty inputs, as a busy node's does.
Prints the best of several rounds, in microseconds a packet: the machine is noisy, the minimum
is not.
"""

from __future__ import annotations

import time

from franca.protocols.conversation import Link
from franca.protocols.gearman.wire import Packet, parse_response, request
from tests.protocols.gearman.puppet import World

JOBS_A_TURN = 50
JOBS_A_ROUND = 10_000
ROUNDS = 8


def main() -> None:
    for name, submit in (("background", Packet.SUBMIT_JOB_BG), ("foreground", Packet.SUBMIT_JOB)):
        world = World()
        client, worker = world.connect(), world.worker("bench")
        best: list[float] = []
        for _ in range(ROUNDS):
            spans = run_round(world, client.link, worker.link, submit)
            if not best or sum(spans) < sum(best):
                best = spans
        parts = zip(("SUBMIT", "GRAB", "COMPLETE", "drain"), best, strict=True)
        text = " ".join(f"{part}={span:.2f}" for part, span in parts)
        print(f"hot path, {name}, us/packet: {text} job={sum(best):.2f}")


def run_round(world: World, client: Link, worker: Link, submit: int) -> list[float]:
    spans = [0.0] * 4
    one = request(submit, b"bench", b"", b"x" * 64)
    grabs = [request(Packet.GRAB_JOB_UNIQ)] * JOBS_A_TURN
    for _ in range(0, JOBS_A_ROUND, JOBS_A_TURN):
        world.now += 1
        marks = [time.perf_counter()]
        turn(world, client, [one] * JOBS_A_TURN)
        marks.append(time.perf_counter())
        unread = bytearray(turn(world, worker, grabs))
        marks.append(time.perf_counter())
        done = []
        while (message := parse_response(unread)) is not None:
            done.append(request(Packet.WORK_COMPLETE, message.body.partition(b"\0")[0], b"y"))
        assert len(done) == JOBS_A_TURN
        begun = time.perf_counter()
        turn(world, worker, done)
        ended = time.perf_counter()
        world.broker.drain()
        drained = time.perf_counter()
        for i, span in enumerate(
            (marks[1] - marks[0], marks[2] - marks[1], ended - begun, drained - ended)
        ):
            spans[i] += span
    return [span / JOBS_A_ROUND * 1e6 for span in spans]


def turn(world: World, link: Link, packets: list[bytes]) -> bytes:
    for data in packets:
        world.engine.received(link, data)
    world.engine.turn(world.now)
    said = b"".join(link.out)
    for speaker in world.engine.speaking:
        speaker.out.clear()
        speaker.after_commit = False
    world.engine.speaking.clear()
    return said


if __name__ == "__main__":
    main()
