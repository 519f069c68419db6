"""T5: after a sync that failed, nobody is told that it succeeded, and the next start recovers.

One server for each sync there is: the first runs with its first sync failing, the second with its
second, until a run meets no failure at all. In each, one client speaks one command at a time until
it is cut off. Then

* `false_ok`: something was acknowledged that is not on the disk if the kernel dropped what the
  failed sync was for, as kernels do (`crash.py`);
* `continued_after_error`: the server answered commands that were sent after the failure, or did not
  end by itself with the exit code for a failed disk;
* `recovered`: a server started afterwards, on a healthy disk, serves everything acknowledged.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.prove import shim, trace
from tests.prove.crash import Disk, materialise
from tests.prove.load import BROKEN
from tests.prove.options import Options
from tests.prove.powerloss import look_into
from tests.support.faktory import Faktory, FaktoryError, job
from tests.support.server import Server, ServerFailed

NAME = "fsync-eio"
MUTANTS: tuple[str, ...] = ("ignore-eio",)

_EXIT_DISK = 74
_END_S = 10.0
_PUSHES = 24


@dataclass
class Point:
    """One server whose sync number so-and-so fails."""

    home: Path
    number: int
    acked: set[str] = field(default_factory=set)  # pushed, answered, and not finished since
    ended: set[str] = field(default_factory=set)  # finished, and answered
    unknown: set[str] = field(default_factory=set)
    fetching: bool = False  # cut off while a job may have been on its way to us
    answered_at: float = 0.0  # when the last answered command was sent
    exit_code: int = 0
    complaints: list[str] = field(default_factory=list)

    @property
    def failed_at(self) -> float | None:
        """When the sync failed, in seconds of the shared clock; None if it never came to it."""
        notes = self.home / "notes"
        said = notes.read_text() if notes.exists() else ""
        if not said:
            return None
        _, _, moment, _ = said.split(" ", 3)
        return int(moment) / 1e9

    # -- the run ---------------------------------------------------------------------------

    def suffer(self, library: Path, prefix: tuple[str, ...], rng: Random) -> None:
        """Run the server into its failing sync, or to a graceful stop if it has fewer syncs."""
        (self.home / "data").mkdir(mode=0o700)
        fault = shim.Shim(
            library, self.home / "data", trace=self.home / "trace",
            notes=self.home / "notes", fail_sync=self.number,
        )  # fmt: skip
        server = Server(self.home / "data", env=fault.environment(), argv_prefix=prefix)
        try:
            server.start()
            with suppress(*BROKEN, FaktoryError), Faktory(server.port) as client:
                self._talk(client.hello(wid="worker-eio"), rng)
            if self.failed_at is None and server.running:
                server.terminate()
            self.exit_code = server.wait(_END_S)
        except ServerFailed as failure:
            if server.running or self.failed_at is None:
                self.complaints.append(str(failure).splitlines()[0])
            self.exit_code = server.process.poll() or 0
        finally:
            if server.running:
                server.kill9()

    def _talk(self, client: Faktory, rng: Random) -> None:
        for number in range(_PUSHES):
            jid = f"eio-{self.number:03}-{number:03}"
            self.unknown.add(jid)
            sent_at = time.monotonic()
            client.push(job(jid, "x" * 100, queue="q"))
            self.answered_at = sent_at
            self.unknown.discard(jid)
            self.acked.add(jid)
            if rng.random() < 0.3:
                self._finish_one(client)

    def _finish_one(self, client: Faktory) -> None:
        self.fetching = True
        got = client.fetch("q")
        self.fetching = False
        if got is None:
            return
        jid: str = got["jid"]
        self.acked.discard(jid)
        self.unknown.add(jid)
        sent_at = time.monotonic()
        client.ack(jid)
        self.answered_at = sent_at
        self.unknown.discard(jid)
        self.ended.add(jid)

    # -- the verdict -----------------------------------------------------------------------

    def false_ok(self) -> bool:
        """Whether an answer had left that the disk does not bear out."""
        disk = Disk()
        for record in trace.read(self.home / "trace"):
            disk.feed(record)
        state = self.home / "state"
        state.mkdir()
        materialise(disk.surely(), state)
        found = look_into(state)
        missing, risen = self.acked - found.names, self.ended & found.names
        if missing or risen or found.damage:
            self.complaints.append(
                f"not on the disk: {sorted(missing)[:3]} still there: {sorted(risen)[:3]}"
                f" {found.damage[:100]}"
            )
            return True
        return False

    def continued(self) -> bool:
        """Whether the server went on after the failure as if nothing had happened."""
        failed_at = self.failed_at
        if failed_at is None:
            return False
        if self.answered_at > failed_at:
            self.complaints.append("answered a command sent after the failure")
            return True
        if self.exit_code != _EXIT_DISK:
            self.complaints.append(f"ended with {self.exit_code} instead of {_EXIT_DISK}")
            return True
        return False

    def recovers(self) -> bool:
        """Whether a healthy server serves all that was acknowledged and nothing that was finished."""
        try:
            with Server(self.home / "data") as server, Faktory(server.port) as client:
                client.hello(wid="worker-eio")
                served = self._take_all(client)
                # A job that was being given out when the server fell may be leased, unseen by us.
                running: int = client.info()["faktory"]["tasks"]["Busy"]["size"]
                held = (running - len(served)) * self.fetching
        except (ServerFailed, *BROKEN) as failure:
            self.complaints.append(f"no recovery: {failure}")
            return False
        missing, risen = self.acked - served, served & self.ended
        if len(missing) <= held and not risen:
            return True
        self.complaints.append(f"lost {sorted(missing)[:3]} risen {sorted(risen)[:3]}")
        return False

    def _take_all(self, client: Faktory) -> set[str]:
        served: set[str] = set()
        while sum(client.info()["faktory"]["queues"].values()):
            got = client.fetch("q")
            if got is not None:
                served.add(got["jid"])
        return served


def run(options: Options) -> bool:
    began = time.monotonic()
    limit = options.number("points", 1_000, short=12)
    false_ok = continued = recovered = points = 0
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix="franca-eio-") as scratch:
        home = Path(scratch).resolve()
        library = shim.build(home / "shim")
        for number in range(1, limit + 1):
            (home / str(number)).mkdir()
            point = Point(home / str(number), number)
            point.suffer(library, options.variant("tiny-log"), Random(options.seed))
            points += 1
            false_ok += point.false_ok()
            continued += point.continued()
            recovered += point.recovers()
            complaints += [f"sync {number}: {complaint}" for complaint in point.complaints]
            if point.failed_at is None:
                break
    print(
        f"T5 {NAME}: points={points} false_ok={false_ok} continued_after_error={continued}"
        f" recovered={recovered} seconds={time.monotonic() - began:.0f}"
    )
    for complaint in complaints[:10]:
        print(f"  {complaint}")
    return not false_ok and not continued and recovered == points
