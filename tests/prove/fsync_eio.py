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

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from random import Random

from tests.prove.crash import Disk, Kind, Record, read_trace
from tests.prove.crash_states import NEVER, State, StateTally, fates
from tests.prove.dialogues import Dialogue
from tests.prove.harness import Options, Result, Tally
from tests.prove.load import BROKEN
from tests.support.faktory import Faktory, FaktoryError
from tests.support.server import Server, ServerFailed

_EXIT_DISK = 74
_END_S = 3.0
_PUSHES = 24
_CUTS = 6


class Point:
    """One server whose sync number so-and-so fails."""

    def __init__(self, options: Options, name: str, number: int) -> None:
        self.options = options
        self.number = number
        self.home = options.home / name
        self.data = self.home / "data"
        self.dialogues: list[Dialogue] = []
        self.answered_at = 0.0  # when the last answered command was sent
        self.exit_code: int | None = None
        self.complaints: list[str] = []

    @property
    def failed_at(self) -> float | None:
        """When the sync failed, in seconds of the shared clock; None if it never came to it."""
        notes = self.home / "notes"
        said = notes.read_text() if notes.exists() else ""
        return int(said.split(" ")[2]) / 1e9 if said else None

    def records(self) -> list[Record]:
        return read_trace(self.home / "trace")

    # -- the run ---------------------------------------------------------------------------

    def run(self, rng: Random) -> None:
        """Run the server into its failing sync, or to a graceful stop if it has fewer syncs."""
        trace, notes = self.home / "trace", self.home / "notes"
        env = self.options.disk(self.data, trace=trace, notes=notes, fail_sync=self.number)
        server = self.options.server(self.data, "tiny-log", env=env)
        try:
            server.start()
            with (
                suppress(*BROKEN, FaktoryError),
                closing(Dialogue("faktory", server.port, "worker-eio")) as dialogue,
            ):
                self._speak(dialogue, rng)
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

    def _speak(self, dialogue: Dialogue, rng: Random) -> None:
        self.dialogues.append(dialogue)
        for number in range(_PUSHES):
            sent_at = time.monotonic()
            dialogue.push([f"eio-{self.number:03}-{number:03}"])
            self.answered_at = sent_at
            if rng.random() < 0.3 and (name := dialogue.take()) is not None:
                sent_at = time.monotonic()
                dialogue.report(name)
                self.answered_at = sent_at

    # -- the verdict -----------------------------------------------------------------------

    def false_ok(self) -> bool:
        """Whether an answer had left that the disk does not bear out."""
        tally = StateTally()
        tally.judge(self._surely_there(), fates(self.records(), self.dialogues))
        self.complaints += tally.examples[:1]
        return not tally.ok

    def _surely_there(self) -> Iterator[State]:
        """What the disk has after each of the first replies since the failure, and at the end."""
        disk, records = Disk(), self.records()
        failed, seen = False, 0
        for number, record in enumerate(records, 1):
            disk.feed(record)
            failed = failed or record.kind is Kind.FAILED_SYNC
            if failed and record.kind is Kind.SEND and seen < _CUTS:
                seen += 1
                yield number, disk.surely()
        yield len(records), disk.surely()

    def continued(self) -> bool:
        """Whether the server went on after the failure as if nothing had happened."""
        if self.failed_at is None:
            return False
        if self.answered_at > self.failed_at:
            self.complaints.append("answered a command sent after the failure")
            return True
        if self.exit_code != _EXIT_DISK:
            self.complaints.append(f"ended with {self.exit_code} instead of {_EXIT_DISK}")
        return self.exit_code != _EXIT_DISK

    def recovers(self) -> bool:
        """Whether a healthy server serves all that was acknowledged and nothing that was finished."""
        records = self.records()
        jobs, end = fates(records, self.dialogues), len(records)
        wanted = {jid for jid, f in jobs.items() if f.must_be_there(end) and f["fetch"] == NEVER}
        gone = {jid for jid, fate in jobs.items() if fate.must_be_gone(end)}
        try:
            with Server(self.data) as server, Faktory(server.port) as client:
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
        served: set[str] = set()
        while sum((facts := client.info()["faktory"])["queues"].values()):
            got = client.fetch("q")
            if got is not None:
                served.add(got["jid"])
        has_follow_up = self._said("fetch") - self._said("ack")
        return served, facts["tasks"]["Busy"]["size"] - len(served) - len(has_follow_up - served)

    def _said(self, verb: str) -> set[str]:
        said = [command for dialogue in self.dialogues for command in dialogue.said]
        return {jid for command in said if command.verb == verb for jid in command.jobs}


def run(options: Options) -> Result:
    tally = Tally("points", "false_ok", "continued_after_error", "recovered")
    for number in range(1, options.number("points", 1_000, short=22) + 1):
        point = Point(options, str(number), number)
        point.run(options.rng)
        tally["points"] += 1
        tally["false_ok"] += point.false_ok()
        tally["continued_after_error"] += point.continued()
        tally["recovered"] += point.recovers()
        tally.examples += [f"sync {number}: {complaint}" for complaint in point.complaints]
        if point.failed_at is None:
            break
    bad = tally["false_ok"] + tally["continued_after_error"]
    held = not bad and tally["recovered"] == tally["points"]
    return Result(held, str(tally), tally.examples[:10])
