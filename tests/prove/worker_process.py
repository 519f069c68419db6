"""Workers in processes of their own, so that they can be killed by the hundred.

`python -m tests.prove.worker_process` forks one for each order it reads, and answers with its process id. A
worker is a consumer of `load.py` alone in its process; each thing that it is about to say, and what came of
it, is in its diary before it goes on, so that SIGKILL takes nothing with it but what was under way.
"""

import os
import signal
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.prove.events import Event
from tests.prove.harness import SideProcess, until
from tests.prove.load import Consumer, Load, Plan

_POLL_S = 0.001
_GONE_WITHIN_S = 10.0
_UNKNOWN_YET = -1.0


class Order(msgspec.Struct):
    """One worker to be started."""

    protocol: str
    number: int
    diary: str
    plan: Plan


class WorkerProcess:
    """A worker, seen from outside."""

    def __init__(self, pid: int, order: Order) -> None:
        self.protocol = order.protocol
        self.killed = (0.0, 0.0)
        self._pid = pid
        self._diary = Path(order.diary)

    def kill(self) -> None:
        """End it as the kernel would, and wait until it is gone."""
        before = time.monotonic()
        os.kill(self._pid, signal.SIGKILL)
        process = Path(f"/proc/{self._pid}")
        if not until(lambda: not process.exists(), _GONE_WITHIN_S, _POLL_S):
            raise RuntimeError(f"worker {self._pid} does not die")
        self.killed = (before, time.monotonic())

    def events(self) -> list[Event]:
        """What it saw, after its death; what was under way then may have happened or not."""
        if not self._diary.exists():
            return []  # it died before it was awake
        decode = msgspec.json.Decoder(Event).decode
        written = [decode(line) for line in self._diary.read_bytes().split(b"\n")[:-1]]
        # Each is written when it begins and again when it is over: the later line says more.
        found = list({(event.op, event.conn, event.t0): event for event in written}.values())
        for event in found:
            if event.t1 == _UNKNOWN_YET:
                event.t1, event.out = self.killed[1], "maybe"
        last = next((event.conn for event in reversed(found) if event.conn), None)
        if last is not None:
            found.append(Event("close", self.protocol, last, t0=self.killed[0], t1=self.killed[1]))
        return found


class WorkerProcesses(SideProcess):
    """The process that forks them."""

    def __init__(self, plan: Plan, home: Path) -> None:
        super().__init__(__name__)
        self._plan = plan
        self._home = home
        self._started = 0
        self._rng = Random(plan.seed)

    def start(self, protocol: str) -> WorkerProcess:
        self._started += 1
        plan = msgspec.structs.replace(self._plan, seed=self._rng.getrandbits(32))
        order = Order(protocol, self._started, str(self._home / f"{self._started}.diary"), plan)
        return WorkerProcess(int(self.ask(msgspec.json.encode(order).decode())), order)


# -- inside the processes ----------------------------------------------------------------------


class _Worker(Consumer):
    """Writes each event down before it goes on."""

    def begin(self, op: Any, jid: str = "", **fields: Any) -> Event:
        event = super().begin(op, jid, **fields)
        self.events.append(msgspec.structs.replace(event, t1=_UNKNOWN_YET))
        return event


class _Diary(list[Event]):
    """Keeps events in a file instead of in memory."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, event: Event) -> None:
        os.write(self._file, msgspec.json.encode(event) + b"\n")


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            try:
                rng = Random(order.plan.seed)
                actor = _Worker(Load(order.plan), order.protocol, order.number, rng)
                actor.events = _Diary(order.diary)
                actor.run()
            finally:
                os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
