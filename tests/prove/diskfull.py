"""T9: a full disk stops new jobs, not running ones, and when there is room again all goes on by itself.

The data lies on a file system of a few megabytes. Four times in one life of the server:

* somebody else's file fills it to the last byte while few jobs wait, before the store's log has been moved for the
  first time and has room of its own: workers still finish everything; the file goes, and new jobs are taken again;
* the same while many wait;
* its own jobs fill it slowly: below the reserve new jobs are refused; workers finish everything, the room is
  given back, and new jobs are taken again;
* its own jobs fill it in one burst, before anybody has looked how much room there is.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from tests.prove.harness import Options, Result, Tally, limits, until
from tests.prove.load import BROKEN
from tests.support.faktory import Faktory, FaktoryError, job
from tests.support.server import ServerFailed

_MIB = 1 << 20
_LIMITS = limits(disk_reserve_bytes=_MIB, ballast_bytes=_MIB // 2)
_LIMITS |= limits(ended_jobs=100, window_jobs=500, supply_jobs=100)
_RESUMES_WITHIN_S = 10.0
_PUSHES_MAX = 20_000
_FEW, _MANY = 20, 500
_TIMES_FULL = 4
_APART = "FRANCA_PROVE_APART"


class Client:
    """Pushes and finishes jobs, and keeps count of what it was told and what became of that."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.acked: dict[str, str] = {}  # pushed, answered, not yet finished
        self.tally = Tally(
            "refused", "acks_accepted", "acks_refused", "lost", "mangled", "resumed", "restarts"
        )

    def fill_the_disk(self, faktory: Faktory, filler: Path) -> None:
        """Have it full four times, in the ways that are told above."""
        self.faktory = faktory
        for count in (_FEW, _MANY):
            for number in range(count):
                self._push(f"foreign-{count}-{number:06}")
            _take_every_byte(filler)
            self._drain()
            filler.unlink()
            self._resume(f"foreign-{count}")
        for name, pause_s in (("slow", 0.2), ("fast", 0.0)):
            for number in range(_PUSHES_MAX):
                if not self._push(f"{name}-{number:06}"):
                    break
                if number % 100 == 0:
                    time.sleep(pause_s)
            assert self.tally["refused"], "the disk was never full"
            self._drain()
            self._resume(name)

    def _drain(self) -> None:
        """Finish everything there is; each job must be what was pushed, and no ACK may be refused."""
        while (got := self.faktory.fetch("q")) is not None:
            jid: str = got["jid"]
            self.tally["mangled"] += self.acked.get(jid) != got["args"][0]
            try:
                self.faktory.ack(jid)
            except FaktoryError as error:
                self.tally.note("acks_refused", f"ACK refused: {error}")
                continue
            self.tally["acks_accepted"] += 1
            self.acked.pop(jid, None)

    def _resume(self, name: str) -> None:
        """New jobs must be taken again, soon and without anybody's doing."""
        if not until(lambda: self._push(f"{name}-after"), _RESUMES_WITHIN_S, 0.1):
            self.tally.examples.append(f"{name}: still refused")
            return
        self.tally["resumed"] += 1
        self._drain()

    def _push(self, jid: str) -> bool:
        body = self.rng.randbytes(self.rng.choice((100, 1_000, 4_000))).hex()
        try:
            self.faktory.push(job(jid, body, queue="q"))
        except FaktoryError:
            self.tally["refused"] += 1
            return False
        self.acked[jid] = body
        return True


def run(options: Options) -> Result:
    if os.geteuid() and _APART not in os.environ:
        shutil.rmtree(options.home)  # nobody will come back to it
        _run_where_disks_can_be_mounted()
    client = Client(options.rng)
    tally = client.tally
    with _small_disk(options) as disk:
        server = options.server(disk / "data", env=_LIMITS)
        server.log_path = options.home / "stderr"
        with server:
            try:
                with Faktory(server.port) as faktory:
                    client.fill_the_disk(faktory.hello(wid="worker-1"), disk / "somebody-elses")
            except BROKEN as error:
                with suppress(ServerFailed):
                    server.wait(_RESUMES_WITHIN_S)
                tally.examples.append(f"{error}: {server.log_tail()[-300:]}")
            tally["restarts"] = int(not server.running)
    tally["lost"] = len(client.acked)
    bad = any(tally[kind] for kind in ("lost", "mangled", "acks_refused", "restarts"))
    worked = tally["refused"] and tally["acks_accepted"] and tally["resumed"] == _TIMES_FULL
    return Result(bool(worked) and not bad, str(tally), tally.examples[:5])


def _take_every_byte(path: Path) -> None:
    """Fill the disk with a file."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        for size in (65_536, 4_096, 1):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


@contextmanager
def _small_disk(options: Options) -> Iterator[Path]:
    """A file system of a few megabytes."""
    disk, size = options.home / "disk", options.extra.get("size", "8m")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _run_where_disks_can_be_mounted() -> None:
    """Begin again in a name space of our own, in which everybody may mount; never returns."""
    if shutil.which("unshare") is None:
        raise RuntimeError("a small disk needs root, or `unshare`")
    os.environ[_APART] = "1"
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    os.execvp(apart[0], [*apart, sys.executable, "-m", "tests.prove", *sys.argv[1:]])
