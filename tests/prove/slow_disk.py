"""T25, the part about disks: on a slow one the server is slow to promise, and never silent.

Every sync takes long, and checkpoints come every few commits. Producers and a consumer speak one command at a
time, some that change something and some that do not (an ACK of an unknown job, a push said twice):
each must be answered, whatever the disk is busy with. A worker's BEAT needs no disk and must not
wait for one.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.prove import shim
from tests.prove.options import Options
from tests.support.faktory import Faktory, job
from tests.support.server import Server

NAME = "slow-disk"
MUTANTS: tuple[str, ...] = ("all-wait",)

_PATIENCE_S = 5.0
_BEAT_P99_MAX_MS = 50.0


class Talker:
    """One connection that asks until told to stop, and knows how long each answer took."""

    def __init__(
        self, port: int, name: str, acts: Callable[[Faktory, str], Iterator[None]]
    ) -> None:
        self.took_ms: list[float] = []
        self.unanswered = 0
        self._port = port
        self._name = name
        self._acts = acts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Faktory(self._port, timeout=_PATIENCE_S) as client:
            client.hello(wid=self._name)
            acts = self._acts(client, self._name)
            while not self._stop.is_set():
                asked = time.monotonic()
                try:
                    next(acts)
                except OSError:
                    self.unanswered += 1
                    return
                self.took_ms.append((time.monotonic() - asked) * 1_000)


def _produce(client: Faktory, name: str) -> Iterator[None]:
    number = 0
    while True:
        number += 1
        work = job(f"{name}-{number:06}", number, queue="q")
        client.push(work)
        yield
        client.ack(f"unknown-{number}")
        yield
        client.push(work)
        yield


def _consume(client: Faktory, name: str) -> Iterator[None]:
    while True:
        got = client.fetch("q")
        yield
        if got is not None:
            client.ack(got["jid"])
            yield
            client.ack(got["jid"])
            yield


def _beat(client: Faktory, name: str) -> Iterator[None]:
    while True:
        client.beat(name)
        time.sleep(0.002)
        yield


def run(options: Options) -> bool:
    seconds = options.number("seconds", 15, short=6)
    rng = Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="franca-slow-") as scratch:
        home = Path(scratch).resolve()
        (home / "data").mkdir(mode=0o700)
        slow = shim.Shim(
            shim.build(home / "shim"), home / "data", slow_sync_ms=options.number("ms", 60)
        )
        prefix = options.variant("tiny-log")
        with Server(home / "data", env=slow.environment(), argv_prefix=prefix) as server:
            talkers = [Talker(server.port, f"producer-{n}", _produce) for n in range(3)]
            time.sleep(rng.uniform(0, 0.1))  # so that their turns fall differently each time
            talkers.append(Talker(server.port, "consumer", _consume))
            beats = Talker(server.port, "worker-1", _beat)
            time.sleep(seconds)
            for talker in (*talkers, beats):
                talker.stop()
    unanswered = sum(talker.unanswered for talker in (*talkers, beats))
    commands = sum(len(talker.took_ms) for talker in talkers)
    beat_p99 = _percentile(beats.took_ms, 0.99)
    print(
        f"T25 {NAME}: commands={commands} unanswered={unanswered} beats={len(beats.took_ms)}"
        f" beat_p99_ms={beat_p99:.1f} slowest_ms={max(max(t.took_ms, default=0) for t in talkers):.0f}"
    )
    return unanswered == 0 and commands > 20 and beat_p99 <= _BEAT_P99_MAX_MS


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(len(ordered) * share)] if ordered else float("inf")
