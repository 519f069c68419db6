"""T25, the part about disks: on a slow one the server is slow to promise, and never silent.

Every sync takes long, and checkpoints come every few commits. Producers and a consumer speak one command at a
time, some that change something and some that do not (an ACK of an unknown job, a push said twice):
each must be answered, whatever the disk is busy with. A worker's BEAT needs no disk and must not
wait for one.
"""

import threading
import time
from collections.abc import Callable, Iterator

from tests.prove.harness import Options, Result, running
from tests.prove.observe import percentile
from tests.support.faktory import Faktory, job

_PATIENCE_S = 5.0
_BEAT_P99_MAX_MS = 50.0
Script = Callable[[Faktory, str], Iterator[None]]


class Speaker:
    """One connection that asks until told to stop, and knows how long each answer took."""

    def __init__(self, port: int, name: str, script: Script) -> None:
        self.took_ms: list[float] = []
        self.unanswered = 0
        self._port = port
        self._name = name
        self._script = script

    def speak(self, stop: threading.Event) -> None:
        with Faktory(self._port, timeout=_PATIENCE_S) as client:
            script = self._script(client.hello(wid=self._name), self._name)
            while not stop.is_set():
                asked = time.monotonic()
                try:
                    next(script)
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


def run(options: Options) -> Result:
    env = options.disk(slow_sync=options.number("ms", 60))
    with options.server("data", "tiny-log", env=env) as server:
        producers = [Speaker(server.port, f"producer-{n}", _produce) for n in range(3)]
        consumer = Speaker(server.port, "consumer", _consume)
        beats = Speaker(server.port, "worker-1", _beat)
        with running(*(producer.speak for producer in producers)):
            # So that their turns fall differently each time.
            time.sleep(options.rng.uniform(0, 0.1))
            with running(consumer.speak, beats.speak):
                time.sleep(options.number("seconds", 15, short=6))
    speakers = [*producers, consumer]
    unanswered = sum(speaker.unanswered for speaker in (*speakers, beats))
    times = [took for speaker in speakers for took in speaker.took_ms]
    beat_p99 = percentile(beats.took_ms, 0.99)
    return Result(
        unanswered == 0 and len(times) > 20 and beat_p99 <= _BEAT_P99_MAX_MS,
        f"commands={len(times)} unanswered={unanswered} beats={len(beats.took_ms)}"
        f" beat_p99_ms={beat_p99:.1f} slowest_ms={max(times, default=0):.0f}",
    )
