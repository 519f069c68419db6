"""T2, the second fall: the power goes while a server heals what a failed sync left behind.

A server runs into a failed sync and stops. The next one finds its mark, copies the store into a fresh
file and puts it in place; every moment of that is a moment at which the power may go. In each crash
state all that the first server acknowledged must still be there, and what it saw finished must not.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

from tests.prove import shim, trace
from tests.prove.aftermath import Fate, Tally, crash_states, fates, judge_states
from tests.prove.crash import Disk
from tests.prove.fsync_eio import Point
from tests.prove.options import Options
from tests.support.server import Server

NAME = "powerloss-heal"
MUTANTS: tuple[str, ...] = ("heal-unsynced",)

_FIRST_SYNC, _LAST_SYNC = 20, 45  # after the start, before the stop


def run(options: Options) -> bool:
    began = time.monotonic()
    rng = Random(options.seed)
    falls = options.number("falls", 10, short=3)
    states = options.number("states", 1_000, short=200) // falls
    total = Tally()
    jobs_seen = healed = 0
    with tempfile.TemporaryDirectory(prefix="franca-heal-") as scratch:
        home = Path(scratch).resolve()
        library = shim.build(home / "shim")
        for number in range(falls):
            place = home / str(number)
            place.mkdir()
            jobs = _fall(place, library, rng)
            jobs_seen += len(jobs)
            before = _files(place / "data")
            healed += "suspect" in before
            records = _heal(place, library, options)
            disk = Disk.holding(before)
            total.add(judge_states(crash_states(records, states, rng, disk), jobs, states // 2))
    print(
        f"T2 {NAME}: states={total.states} lost_acked={total.lost_acked}"
        f" resurrected={total.resurrected} corrupt={total.corrupt}"
        f" served={total.served} refused={total.refused} falls={falls} healed={healed}"
        f" jobs={jobs_seen} seconds={time.monotonic() - began:.0f}"
    )
    for example in total.examples[:5]:
        print(f"  {example}")
    return total.ok and healed == falls


def _fall(place: Path, library: Path, rng: Random) -> dict[str, Fate]:
    """Let a server meet a failed sync; what it had promised by then, put before all that follows."""
    point = Point(place, rng.randint(_FIRST_SYNC, _LAST_SYNC))
    point.suffer(library, ("-m", "tests.prove.mutants", "tiny-log"), rng)
    assert point.failed_at is not None, "the load was too small for this sync"
    jobs = fates(trace.read(place / "trace"), point.talks)
    return {jid: _long_ago(fate) for jid, fate in jobs.items()}


def _long_ago(fate: Fate) -> Fate:
    """The same fate, seen from a trace that began after it."""
    return Fate(
        pushed=None if fate.pushed is None else -1,
        fetched=None if fate.fetched is None else -1,
        ack_sent=fate.ack_sent,
        ended=None if fate.ended is None else -1,
    )


def _heal(place: Path, library: Path, options: Options) -> list[trace.Record]:
    recorder = shim.Shim(library, place / "data", trace=place / "second")
    # Under --mutant the server that heals is the one with the bug.
    with Server(
        place / "data", env=recorder.environment(), argv_prefix=options.argv_prefix
    ) as server:
        server.terminate()
    return trace.read(place / "second")


def _files(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.is_file() and not path.name.endswith("-shm")
    }
