"""A good client in a process of its own, to be watched while others misbehave.

`python -m tests.prove.witness PORT QUEUE` pushes, fetches and acknowledges one job after the other on one
connection, beats on a second, and times each answer. Whatever is not the answer that a good client deserves
is a fault. It has a process to itself, because beside a busy harness it would measure the harness.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec

from tests.support.faktory import Faktory, FaktoryError, job
from tests.support.scoped import Scoped
from tests.support.server import ROOT

_PAUSE_S = 0.002
_PATIENCE_S = 20.0
_FAULTS_KEPT = 5
_LEFT_OVER_MAX = 3
_FOR_EVER = 1e9

T = TypeVar("T")
P = ParamSpec("P")


class Figures(msgspec.Struct):
    """What a witness saw since it was last asked, times in milliseconds."""

    commands: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    beats: int
    beat_p99_ms: float
    beat_worst_ms: float
    faults: int
    examples: list[str]


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of them lies; for ever if there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else _FOR_EVER


class Witness(Scoped):
    """The harness's end of the process."""

    def __init__(self, port: int, queue: str = "witness") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.prove.witness", str(port), queue],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.figures()  # it answers once it is at work

    def figures(self) -> Figures:
        """What it saw since it was asked last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Figures)

    def over(self, seconds: float) -> Figures:
        """What it sees from now on, for so long."""
        self.figures()
        time.sleep(seconds)
        return self.figures()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# -- inside the process ------------------------------------------------------------------------


class _Diary:
    """The times and faults of all threads together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.commands: list[float] = []
        self.beats: list[float] = []
        self.faults: list[str] = []

    def note(self, times: list[float], asked: float) -> None:
        with self._lock:
            times.append((time.monotonic() - asked) * 1_000)

    def blame(self, fault: str) -> None:
        with self._lock:
            self.faults.append(fault)

    def read(self) -> Figures:
        with self._lock:
            commands, beats, faults = self.commands, self.beats, self.faults
            self._begin()
        return Figures(
            commands=len(commands),
            p50_ms=percentile(commands, 0.5),
            p99_ms=percentile(commands, 0.99),
            worst_ms=max(commands, default=0.0),
            beats=len(beats),
            beat_p99_ms=percentile(beats, 0.99),
            beat_worst_ms=max(beats, default=0.0),
            faults=len(faults),
            examples=faults[:_FAULTS_KEPT],
        )


class _Client(threading.Thread):
    """One connection that is opened again when it breaks, and what is said on it."""

    def __init__(self, port: int, queue: str, diary: _Diary) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.queue = queue
        self.diary = diary
        self.number = 0

    def run(self) -> None:
        while True:
            try:
                with Faktory(self.port, timeout=_PATIENCE_S) as client:
                    client.hello(wid=self.queue)
                    while True:
                        self.step(client)
                        time.sleep(_PAUSE_S)
            except (OSError, ValueError, FaktoryError) as fault:
                self.diary.blame(f"{type(self).__name__}: {fault!r}")
                time.sleep(_PAUSE_S * 10)

    def step(self, client: Faktory) -> None:
        raise NotImplementedError


class _Worker(_Client):
    def step(self, client: Faktory) -> None:
        self.number += 1
        jid = f"{self.queue}-{self.number:07}"
        self._timed(client.push, job(jid, self.number, queue=self.queue))
        for _ in range(_LEFT_OVER_MAX):
            got = self._timed(client.fetch, self.queue)
            if got is not None:
                self._timed(client.ack, got["jid"])
            # After a broken connection there may be jobs before this one, and that is right.
            if got is None or got["jid"] >= jid:
                break
        if got is None or got["jid"] != jid or got["args"] != [self.number]:
            self.diary.blame(f"pushed {jid}, fetched {str(got)[:200]}")

    def _timed(self, act: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        asked = time.monotonic()
        result = act(*args, **options)
        self.diary.note(self.diary.commands, asked)
        return result


class _Beater(_Client):
    def step(self, client: Faktory) -> None:
        asked = time.monotonic()
        client.beat(self.queue)
        self.diary.note(self.diary.beats, asked)


def main(port: int, queue: str) -> None:
    diary = _Diary()
    for kind in (_Worker, _Beater):
        kind(port, queue, diary).start()
    while not (diary.commands and diary.beats):
        time.sleep(_PAUSE_S)
    for _ in sys.stdin:
        print(msgspec.json.encode(diary.read()).decode(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
