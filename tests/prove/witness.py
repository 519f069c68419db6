"""A good client in a process of its own, to be watched while others misbehave.

`python -m tests.prove.witness PORT QUEUE` pushes, fetches and acknowledges one job after the other on one
connection, beats on a second, and times each answer. Whatever is not the answer that a good client deserves
is a fault. It has a process to itself, because beside a busy harness it would measure the harness.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from tests.prove.harness import SideProcess
from tests.prove.observe import percentile
from tests.support.faktory import Faktory, FaktoryError, job

_PAUSE_S = 0.002
_PATIENCE_S = 20.0
_FAULTS_KEPT = 5
_LEFT_OVER_MAX = 3

T = TypeVar("T")


class Figures(msgspec.Struct):
    """What a witness saw since it was last asked, times in milliseconds."""

    commands: int
    p99_ms: float
    worst_ms: float
    beats: int
    beat_p99_ms: float
    beat_worst_ms: float
    faults: int
    examples: list[str]


class Witness(SideProcess):
    """The harness's end of the process."""

    def __init__(self, port: int, queue: str = "witness") -> None:
        super().__init__(__name__, str(port), queue)
        self.figures()  # it answers once it is at work

    def figures(self) -> Figures:
        """What it saw since it was asked last."""
        return msgspec.json.decode(self.ask(), type=Figures)

    def over(self, seconds: float) -> Figures:
        """What it sees from now on, for so long."""
        self.figures()
        time.sleep(seconds)
        return self.figures()


# -- inside the process ------------------------------------------------------------------------


class _Client:
    """Two connections that are opened again when they break: one works, one beats."""

    def __init__(self, port: int, queue: str) -> None:
        self.port = port
        self.queue = queue
        self.number = 0
        self.commands: list[float] = []
        self.beats: list[float] = []
        self.faults: list[str] = []

    def keep_doing(self, step: Callable[[Faktory], None]) -> None:
        while True:
            try:
                with Faktory(self.port, timeout=_PATIENCE_S).hello(wid=self.queue) as client:
                    while True:
                        step(client)
                        time.sleep(_PAUSE_S)
            except (OSError, ValueError, FaktoryError) as fault:
                self.faults.append(f"{step.__name__}: {fault!r}")
                time.sleep(_PAUSE_S * 10)

    def work(self, client: Faktory) -> None:
        self.number += 1
        jid = f"{self.queue}-{self.number:07}"
        with _timed(self.commands):
            client.push(job(jid, self.number, queue=self.queue))
        for _ in range(_LEFT_OVER_MAX):
            with _timed(self.commands):
                got = client.fetch(self.queue)
            if got is not None:
                with _timed(self.commands):
                    client.ack(got["jid"])
            # After a broken connection there may be jobs before this one, and that is right.
            if got is None or got["jid"] >= jid:
                break
        if got is None or got["jid"] != jid or got["args"] != [self.number]:
            self.faults.append(f"pushed {jid}, fetched {str(got)[:200]}")

    def beat(self, client: Faktory) -> None:
        with _timed(self.beats):
            client.beat(self.queue)

    def figures(self) -> Figures:
        """What was seen since this was asked last."""
        commands, beats = _taken(self.commands), _taken(self.beats)
        faults = _taken(self.faults)
        return Figures(
            len(commands), percentile(commands, 0.99), max(commands, default=0.0),
            len(beats), percentile(beats, 0.99), max(beats, default=0.0),
            len(faults), faults[:_FAULTS_KEPT],
        )  # fmt: skip


def _taken(values: list[T]) -> list[T]:
    """All that was in the list; the threads go on adding to it."""
    taken = values[:]
    del values[: len(taken)]
    return taken


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    asked = time.monotonic()
    yield
    times.append((time.monotonic() - asked) * 1_000)


def main(port: int, queue: str) -> None:
    client = _Client(port, queue)
    for step in (client.work, client.beat):
        threading.Thread(target=client.keep_doing, args=(step,), daemon=True).start()
    while not (client.commands and client.beats):
        time.sleep(_PAUSE_S)
    for _ in sys.stdin:
        print(msgspec.json.encode(client.figures()).decode(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
