"""A process that does nothing but fork workers, so that they can be killed by the hundred.

`python -m tests.prove.nursery` reads one order a line: whose worker it is to be, and where it keeps its diary.
The answer is the worker's process id. A worker is a consumer of `peers/` alone in its process; each thing
that it is about to say, and what came of it, is in its diary before it goes on, so that SIGKILL takes nothing
with it but what was under way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from tests.prove import peers
from tests.prove.events import Event
from tests.prove.load import Load, Plan
from tests.support.scoped import Scoped
from tests.support.server import ROOT

_POLL_S = 0.001
_GONE_WITHIN_S = 10.0


class Order(msgspec.Struct):
    """One worker to be born."""

    protocol: str
    number: int
    diary: str
    ports: dict[str, int]
    queue: str
    work_s: float
    seed: int


class Entry(msgspec.Struct):
    """One line of a diary: the same number twice is the same event, first begun and then over."""

    number: int
    event: Event


class Child:
    """A worker's process, seen from outside."""

    def __init__(self, pid: int, protocol: str, diary: Path) -> None:
        self.pid = pid
        self.protocol = protocol
        self.diary = diary
        self.killed: tuple[float, float] | None = None
        self.events: list[Event] = []

    def kill(self) -> None:
        """End it as the kernel would, and wait until it is gone."""
        before = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        while Path(f"/proc/{self.pid}").exists():
            if time.monotonic() - before > _GONE_WITHIN_S:
                raise RuntimeError(f"worker {self.pid} does not die")
            time.sleep(_POLL_S)
        self.killed = (before, time.monotonic())

    def read(self) -> None:
        """Take in its diary, after its death."""
        self.events = list(self._events())

    def _events(self) -> Iterator[Event]:
        """What it saw; what was under way when it died may have happened or not."""
        assert self.killed is not None
        if not self.diary.exists():
            return  # it died before it was awake
        found: dict[int, Event] = {}
        decode = msgspec.json.Decoder(Entry).decode
        for line in self.diary.read_bytes().split(b"\n")[:-1]:
            entry = decode(line)
            found[entry.number] = entry.event
        last = ""
        for event in found.values():
            last = event.conn or last
            if event.t1 < event.t0:
                event.t1, event.out = self.killed[1], "maybe"
            yield event
        if last:
            yield Event("close", self.protocol, last, t0=self.killed[0], t1=self.killed[1])


class Nursery(Scoped):
    """The harness's end of the process."""

    def __init__(self, plan: Plan, home: Path) -> None:
        self._plan = plan
        self._home = home
        self._born = 0
        self._rng = Random(plan.seed)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.prove.nursery"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def bear(self, protocol: str) -> Child:
        """A new worker of that protocol."""
        self._born += 1
        diary = self._home / f"{self._born}.diary"
        plan = self._plan
        order = Order(
            protocol, self._born, str(diary), dict(plan.ports), plan.queue, plan.work_s,
            self._rng.getrandbits(32),
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order).decode() + "\n")
        self._process.stdin.flush()
        return Child(int(self._process.stdout.readline()), protocol, diary)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# -- inside the processes ----------------------------------------------------------------------


class _Diary(list[Event]):
    """Keeps events in a file instead of in memory."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._encode = msgspec.json.Encoder().encode
        self._numbers: dict[int, int] = {}
        self._count = 0

    def begun(self, event: Event) -> None:
        """Write it down as something of which nothing is known yet."""
        self._count += 1
        self._numbers[id(event)] = self._count
        self._write(self._count, msgspec.structs.replace(event, t1=-1.0))

    def append(self, event: Event) -> None:
        """Write down what came of it."""
        number = self._numbers.pop(id(event), 0)
        if not number:
            self._count += 1
            number = self._count
        self._write(number, event)

    def _write(self, number: int, event: Event) -> None:
        os.write(self._file, self._encode(Entry(number, event)) + b"\n")


def _live(order: Order) -> None:
    load = Load(Plan(order.ports, order.seed, queue=order.queue, work_s=order.work_s))
    rng = Random(order.seed)
    (actor,) = peers.of(order.protocol).consumers(load, 1, rng, first=order.number)
    diary = _Diary(order.diary)
    actor.events = diary
    actor.begun = diary.begun
    actor.run()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for protocol in peers.PROTOCOLS:
        peers.of(protocol)  # once, and not in every child
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            try:
                _live(order)
            finally:
                os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
