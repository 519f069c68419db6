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
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.prove import shim, trace
from tests.prove.aftermath import Tally, fates, look_into
from tests.prove.crash import Disk, materialise
from tests.prove.load import BROKEN
from tests.prove.options import Options
from tests.prove.talks import Dialogue
from tests.prove.talks.faktory import talk
from tests.support.faktory import Faktory, FaktoryError
from tests.support.server import Server, ServerFailed

NAME = "fsync-eio"
MUTANTS: tuple[str, ...] = ("ignore-eio",)

_EXIT_DISK = 74
_END_S = 3.0
_PUSHES = 24
_CUTS = 6

T = TypeVar("T")


@dataclass
class Point:
    """One server whose sync number so-and-so fails."""

    home: Path
    number: int
    talks: list[Dialogue] = field(default_factory=list)
    answered_at: float = 0.0  # when the last answered command was sent
    exit_code: int | None = None
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
            with (
                suppress(*BROKEN, FaktoryError),
                closing(talk(server.port, "worker-eio")) as dialogue,
            ):
                self._talk(dialogue, rng)
            if self.failed_at is None:
                server.terminate()
            self.exit_code = server.wait(_END_S)
        except ServerFailed as failure:
            # A start that fails because of us is in order; one that hangs is not.
            self.exit_code = server.process.poll()
            if self.exit_code != _EXIT_DISK:
                self.complaints.append(str(failure).splitlines()[0])
        finally:
            server.kill9()

    def _talk(self, talk: Dialogue, rng: Random) -> None:
        self.talks.append(talk)
        for number in range(_PUSHES):
            self._timed(talk.push, [f"eio-{self.number:03}-{number:03}"])
            if rng.random() < 0.3 and (name := talk.take()) is not None:
                self._timed(talk.finish, name)

    def _timed(self, say: Callable[[T], None], what: T) -> None:
        sent_at = time.monotonic()
        say(what)
        self.answered_at = sent_at

    # -- the verdict -----------------------------------------------------------------------

    def false_ok(self) -> bool:
        """Whether an answer had left that the disk does not bear out."""
        records = trace.read(self.home / "trace")
        jobs = fates(records, self.talks)
        tally = Tally()
        for cut, disk in self._moments(records):
            with tempfile.TemporaryDirectory(dir=self.home) as state:
                tally.judge(cut, look_into(materialise(disk.surely(), Path(state))), jobs)
        self.complaints += tally.examples[:1]
        return not tally.ok

    @staticmethod
    def _moments(records: list[trace.Record]) -> Iterator[tuple[int, Disk]]:
        """The disk after each of the first replies since the failure, and at the end."""
        disk = Disk()
        failed, seen = False, 0
        for number, record in enumerate(records):
            disk.feed(record)
            failed = failed or record.kind is trace.Kind.FAILED_SYNC
            if failed and record.kind is trace.Kind.SEND and seen < _CUTS:
                seen += 1
                yield number + 1, disk
        yield len(records), disk

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
        records = trace.read(self.home / "trace")
        jobs, end = fates(records, self.talks), len(records)
        wanted = {jid for jid, f in jobs.items() if f.must_be_there(end) and f.fetched is None}
        gone = {jid for jid, fate in jobs.items() if fate.must_be_gone(end)}
        try:
            with Server(self.home / "data") as server, Faktory(server.port) as client:
                served, unseen = self._take_all(client.hello(wid="worker-eio"))
        except (ServerFailed, *BROKEN) as failure:
            self.complaints.append(f"no recovery: {str(failure).splitlines()[0]}")
            return False
        missing = wanted - served
        # A job that was being given out when the server fell may be leased, unseen by us.
        if len(missing) <= unseen and not served & gone:
            return True
        self.complaints.append(f"lost {sorted(missing)[:3]} risen {sorted(served & gone)[:3]}")
        return False

    def _take_all(self, client: Faktory) -> tuple[set[str], int]:
        """The jobs that are served, and how many are leased beyond those anybody saw."""
        seen = {
            jid for talk in self.talks for c in talk.said if c.verb == "fetch" for jid in c.jobs
        }
        served: set[str] = set()
        while sum((facts := client.info()["faktory"])["queues"].values()):
            got = client.fetch("q")
            if got is not None:
                served.add(got["jid"])
        unsettled = seen - {
            jid for t in self.talks for c in t.said if c.verb == "ack" for jid in c.jobs
        }
        running: int = facts["tasks"]["Busy"]["size"]
        return served, running - len(served) - len(unsettled - served)


def run(options: Options) -> bool:
    began = time.monotonic()
    limit = options.number("points", 1_000, short=22)
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
