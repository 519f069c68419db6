"""T9: a full disk stops new jobs, not running ones, and when there is room again all goes on by itself.

The data lies on a file system of a few megabytes. Four times in one life of the server:

* somebody else's file fills it to the last byte while few jobs wait, before the store's log has been moved for the
  first time and has room of its own: workers still finish everything; the file goes, and new jobs are taken again;
* the same while many wait;
* its own jobs fill it slowly: below the reserve new jobs are refused; workers finish everything, the room is
  given back, and new jobs are taken again;
* its own jobs fill it in one burst, before anybody has looked how much room there is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from tests.prove.load import BROKEN
from tests.prove.options import Options
from tests.support.faktory import Faktory, FaktoryError, job
from tests.support.server import Server, ServerFailed

NAME = "diskfull"
MUTANTS: tuple[str, ...] = ("no-ballast",)

_MIB = 1 << 20
_LIMITS = {
    "FRANCA_LIMITS__DISK_RESERVE_BYTES": str(1 * _MIB),
    "FRANCA_LIMITS__BALLAST_BYTES": str(_MIB // 2),
    "FRANCA_LIMITS__ENDED_JOBS": "100",
    "FRANCA_LIMITS__WINDOW_JOBS": "500",
    "FRANCA_LIMITS__SUPPLY_JOBS": "100",
}
_RESUMES_WITHIN_S = 10.0
_PUSHES_MAX = 20_000
_FEW, _MANY = 20, 500
_APART = "FRANCA_PROVE_APART"


@dataclass
class Tally:
    """What the client was told, and what became of what it was told."""

    refused: int = 0
    acked: dict[str, str] = field(default_factory=dict)  # pushed, answered, not yet finished
    finished: int = 0
    acks_refused: int = 0
    mangled: int = 0
    resumed: int = 0
    complaints: list[str] = field(default_factory=list)


def run(options: Options) -> bool:
    if os.geteuid() and _APART not in os.environ:
        _run_where_disks_can_be_mounted()
    began = time.monotonic()
    tally = Tally()
    rng = Random(options.seed)
    restarts = 1
    with small_disk(options.text("size", "8m")) as disk:
        server = Server(disk / "data", env=_LIMITS, argv_prefix=options.argv_prefix)
        server.log_path = disk.parent / "stderr"
        with server:
            pid = server.process.pid
            try:
                with Faktory(server.port) as client:
                    client.hello(wid="worker-1")
                    for act in _ACTS:
                        act(client, tally, rng, disk / "somebody-elses")
                        _drain(client, tally)
            except BROKEN as error:
                with contextlib.suppress(ServerFailed):
                    server.wait(_RESUMES_WITHIN_S)
                tally.complaints.append(f"{error}: {server.log_tail()[-300:]}")
            restarts = int(not server.running or server.process.pid != pid)
    lost = len(tally.acked)
    print(
        f"T9 {NAME}: refused={tally.refused} acks_accepted={tally.finished} acks_refused={tally.acks_refused}"
        f" lost={lost} mangled={tally.mangled} resumed={tally.resumed} restarts={restarts}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    for complaint in tally.complaints[:5]:
        print(f"  {complaint}")
    bad = (lost, tally.mangled, tally.acks_refused, restarts)
    return tally.refused > 0 and tally.finished > 0 and tally.resumed == len(_ACTS) and not any(bad)


def _fill_slowly(client: Faktory, tally: Tally, rng: Random, filler: Path) -> None:
    _push_until_refused(client, tally, rng, "slow", pause_s=0.2)
    assert tally.refused, "the disk was never full"
    _drain(client, tally)
    _resume(client, tally, rng, "slow")


def _fill_at_once(client: Faktory, tally: Tally, rng: Random, filler: Path) -> None:
    _push_until_refused(client, tally, rng, "fast", pause_s=0)
    _drain(client, tally)
    _resume(client, tally, rng, "fast")


def _fill_from_outside(
    count: int, client: Faktory, tally: Tally, rng: Random, filler: Path
) -> None:
    name = f"foreign-{count}"
    for number in range(count):
        _push(client, tally, f"{name}-{number:06}", rng)
    _take_every_byte(filler)
    _drain(client, tally)
    filler.unlink()
    _resume(client, tally, rng, name)


_ACTS = (
    partial(_fill_from_outside, _FEW),
    partial(_fill_from_outside, _MANY),
    _fill_slowly,
    _fill_at_once,
)


def _push_until_refused(
    client: Faktory, tally: Tally, rng: Random, name: str, pause_s: float
) -> None:
    for number in range(_PUSHES_MAX):
        if not _push(client, tally, f"{name}-{number:06}", rng):
            return
        if number % 100 == 0:
            time.sleep(pause_s)


def _drain(client: Faktory, tally: Tally) -> None:
    """Finish everything there is; each job must be what was pushed, and no ACK may be refused."""
    while (got := client.fetch("q")) is not None:
        jid: str = got["jid"]
        tally.mangled += tally.acked.get(jid) != got["args"][0]
        try:
            client.ack(jid)
        except FaktoryError as error:
            tally.acks_refused += 1
            tally.complaints.append(f"ACK refused: {error}")
            continue
        tally.finished += 1
        tally.acked.pop(jid, None)


def _resume(client: Faktory, tally: Tally, rng: Random, name: str) -> None:
    """New jobs must be taken again, soon and without anybody's doing."""
    deadline = time.monotonic() + _RESUMES_WITHIN_S
    while not _push(client, tally, f"{name}-after", rng):
        if time.monotonic() > deadline:
            tally.complaints.append(f"{name}: still refused")
            return
        time.sleep(0.1)
    tally.resumed += 1


def _push(client: Faktory, tally: Tally, jid: str, rng: Random) -> bool:
    body = rng.randbytes(rng.choice((100, 1_000, 4_000))).hex()
    try:
        client.push(job(jid, body, queue="q"))
    except FaktoryError:
        tally.refused += 1
        return False
    tally.acked[jid] = body
    return True


def _take_every_byte(path: Path) -> None:
    """Fill the disk with a file."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (65_536, 4_096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A file system of that size, as the only thing in a directory of its own."""
    scratch = Path(tempfile.mkdtemp(prefix="franca-full-"))
    disk = scratch / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
        shutil.rmtree(scratch)


def _run_where_disks_can_be_mounted() -> None:
    """Begin again in a name space of our own, in which everybody may mount; never returns."""
    if shutil.which("unshare") is None:
        raise RuntimeError("a small disk needs root, or `unshare`")
    os.environ[_APART] = "1"
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        sys.executable,
        "-m",
        "tests.prove",
    ]
    os.execvp(command[0], [*command, *sys.argv[1:]])
