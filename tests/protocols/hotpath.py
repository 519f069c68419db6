"""What a job costs without sockets and disk: the common part of each protocol's `hotpath.py`.

Each turn of the engine takes fifty inputs, as a busy node's does. Prints the best of several rounds,
in microseconds a job: the machine is noisy, the minimum is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from franca.protocols.conversation import Link
from tests.protocols.world import AnyWorld

JOBS_A_TURN = 50
ROUNDS = 8


class HotPath:
    """Turns of one round, and how many seconds each part of them took together."""

    def __init__(self, world: AnyWorld[Any]) -> None:
        self.seconds: dict[str, float] = {}
        self._world = world

    def turn(self, part: str, inputs: Iterable[tuple[Link, bytes]]) -> bytes:
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


def on(link: Link, messages: Iterable[bytes]) -> list[tuple[Link, bytes]]:
    """One peer says all of these."""
    return [(link, message) for message in messages]


def measure(
    world: AnyWorld[Any],
    play: Callable[[HotPath, range], None],
    *,
    jobs_a_round: int = 20_000,
    title: str = "us/job",
) -> None:
    """Play so many jobs in each round, a turn's worth at a time, and print the best round.

    `play` is given the numbers of its jobs, which are never used again.
    """
    best: dict[str, float] = {}
    first = 0
    for _ in range(ROUNDS):
        path = HotPath(world)
        for _ in range(0, jobs_a_round, JOBS_A_TURN):
            world.now += 1
            play(path, range(first, first + JOBS_A_TURN))
            first += JOBS_A_TURN
        if not best or sum(path.seconds.values()) < sum(best.values()):
            best = path.seconds
    spans = {part: seconds / jobs_a_round * 1e6 for part, seconds in best.items()}
    parts = " ".join(f"{part}={span:.2f}" for part, span in spans.items())
    print(f"hot path, {title}: {parts} total={sum(spans.values()):.2f}")
