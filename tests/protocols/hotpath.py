"""What a job costs without sockets and disk: `python -m tests.protocols.hotpath PROTOCOL`.

Each turn of the engine takes fifty inputs, as a busy node's does. Prints the best of several rounds,
in microseconds a job: the machine is noisy, the minimum is not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from franca.protocols.conversation import Link
from tests.protocols.eventmq.puppet import World as EventmqWorld
from tests.protocols.faktory.puppet import World as FaktoryWorld
from tests.protocols.gearman.puppet import World as GearmanWorld
from tests.protocols.memodb.puppet import World as MemoDBWorld
from tests.protocols.periodic.puppet import World as PeriodicWorld
from tests.protocols.world import AnyWorld
from tests.support import eventmq as e
from tests.support import memodb as m
from tests.support import periodic as p
from tests.support.gearman import Type, request, take_packet

JOBS_A_TURN = 50
JOBS_A_ROUND = 10_000
ROUNDS = 8

Inputs = Iterable[tuple[Link, bytes]]
Scene = tuple[AnyWorld[Any], Callable[["HotPath", range], None]]
"""A world, and what its peers say of the jobs with these numbers, which are never used again."""


class HotPath:
    """Turns of one round, and how many seconds each part of them took together."""

    def __init__(self, world: AnyWorld[Any]) -> None:
        self.seconds: dict[str, float] = {}
        self._world = world

    def turn(self, part: str, inputs: Inputs) -> bytes:
        """Let the engine act on all of these at once; what it says to anybody."""
        engine = self._world.engine
        began = time.perf_counter()
        for link, data in inputs:
            engine.received(link, data)
        engine.turn(self._world.now)
        self._add(part, began)
        said: list[bytes] = []
        for speaker in engine.speaking:
            said += speaker.out
            speaker.out.clear()
            speaker.after_commit = False
        engine.speaking.clear()
        return b"".join(said)

    def drain(self) -> None:
        """Collect what would be written to a disk."""
        began = time.perf_counter()
        self._world.broker.drain()
        self._add("drain", began)

    def _add(self, part: str, began: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


def on(link: Link, messages: Iterable[bytes]) -> Inputs:
    """One peer says all of these."""
    return [(link, message) for message in messages]


def faktory() -> Scene:
    """One producer and one consumer."""
    world = FaktoryWorld()
    producer, consumer = world.client(), world.client("w1")
    push = b'PUSH {"jid":"load%%012d","jobtype":"bench","queue":"bench","args":["%b"]}\r\n'

    def play(path: HotPath, numbers: range) -> None:
        if numbers.start % JOBS_A_ROUND == 0:
            consumer.beat("w1")
        path.turn("PUSH", on(producer.link, [push % (b"x" * 64) % n for n in numbers]))
        path.turn("FETCH", on(consumer.link, [b"FETCH bench\r\n"] * JOBS_A_TURN))
        path.turn("ACK", on(consumer.link, [b'ACK {"jid":"load%012d"}\r\n' % n for n in numbers]))

    return world, play


def gearman(submit: Type = Type.SUBMIT_JOB_BG) -> Scene:
    """One client and one worker."""
    world = GearmanWorld()
    client, worker = world.connect(), world.worker("bench")
    submits = [request(submit, b"bench", b"", b"x" * 64)] * JOBS_A_TURN
    grabs = [request(Type.GRAB_JOB_UNIQ)] * JOBS_A_TURN

    def play(path: HotPath, _: range) -> None:
        path.turn("SUBMIT", on(client.link, submits))
        unread = bytearray(path.turn("GRAB", on(worker.link, grabs)))
        jobs = iter(lambda: take_packet(unread), None)
        done = [request(Type.WORK_COMPLETE, job.handle, b"y") for job in jobs]
        assert len(done) == JOBS_A_TURN
        path.turn("COMPLETE", on(worker.link, done))

    return world, play


def gearman_foreground() -> Scene:
    """A client that waits."""
    return gearman(Type.SUBMIT_JOB)


def periodic() -> Scene:
    """One producer and one worker."""
    world = PeriodicWorld()
    producer, worker = world.peer(), world.worker("bench")
    grabs = [worker.message(p.GRAB_JOB, b"", b"grab")] * JOBS_A_TURN

    def play(path: HotPath, numbers: range) -> None:
        names = [f"load{number:012}" for number in numbers]
        jobs = [p.packed("bench", name, b"x" * 64) for name in names]
        handles = [p.str8("bench") + p.str8(name) for name in names]
        submits = [producer.message(p.SUBMIT_JOB, job, b"subm") for job in jobs]
        reports = [worker.message(p.WORK_DONE, handle, b"done") for handle in handles]
        path.turn("SUBMIT_JOB", on(producer.link, submits))
        path.turn("GRAB_JOB", on(worker.link, grabs))
        path.turn("WORK_DONE", on(worker.link, reports))

    return world, play


def memodb() -> Scene:
    """Fifty clients and fifty workers, each on a connection of its own."""
    world = MemoDBWorld()
    clients = [world.peer() for _ in range(JOBS_A_TURN)]
    workers = [world.worker("bench") for _ in range(JOBS_A_TURN)]
    ids = list(world.service.registry.by_id)
    job = m.job("bench", b"x" * 32, 60_000)

    def play(path: HotPath, numbers: range) -> None:
        # Ids of different sockets differ, or they would be taken for one client's.
        asked = zip(clients, numbers, strict=True)
        path.turn("JOB", [(one.link, one.asking(n, job)) for one, n in asked])
        results = [m.result(worker_id, b"y" * 32) for worker_id in ids]
        done = zip(workers, results, strict=True)
        path.turn("RESULT", [(one.link, one.asking(numbers.stop, said)) for one, said in done])

    return world, play


def eventmq() -> Scene:
    """One client and one worker with fifty slots."""
    world = EventmqWorld()
    client, worker = world.peer(), world.worker((10, "default"), slots=JOBS_A_TURN)
    body = e.call("bench.load", "x" * 64)

    def play(path: HotPath, numbers: range) -> None:
        ids = [b"%08d-0000-4000-8000-000000000000" % number for number in numbers]
        ready = e.message(b"READY", b"x" * 36)
        value = b'{"value": true}'
        requests = [e.message(b"REQUEST", one, b"default", b"", body) for one in ids]
        replies = [e.message(b"REPLY", b"x" * 36, value, one) + ready for one in ids]
        path.turn("REQUEST", on(client.link, requests))
        path.turn("REPLY+READY", on(worker.link, replies))

    return world, play


def measure(scene: Callable[[], Scene]) -> None:
    """Play rounds of jobs, a turn's worth at a time, and print the best."""
    world, play = scene()
    best: dict[str, float] = {}
    first = 0
    for _ in range(ROUNDS):
        path = HotPath(world)
        for _ in range(0, JOBS_A_ROUND, JOBS_A_TURN):
            world.now += 1
            play(path, range(first, first + JOBS_A_TURN))
            path.drain()
            first += JOBS_A_TURN
        if not best or sum(path.seconds.values()) < sum(best.values()):
            best = path.seconds
    spans = {part: seconds / JOBS_A_ROUND * 1e6 for part, seconds in best.items()}
    parts = " ".join(f"{part}={span:.2f}" for part, span in spans.items())
    print(f"hot path, {scene.__name__}, us/job: {parts} total={sum(spans.values()):.2f}")


if __name__ == "__main__":
    for scene in (faktory, gearman, gearman_foreground, periodic, memodb, eventmq):
        if scene.__name__.startswith(tuple(sys.argv[1:] or ("",))):
            measure(scene)
