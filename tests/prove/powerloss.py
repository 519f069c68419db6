"""T2: what was acknowledged survives a power cut at any moment, and what was finished stays finished.

A server runs once under the shim, which records every write, sync and reply. From the record, crash
states are built: the power goes at a random point, and of what was not synced the disk keeps
nothing, everything, a random part, or a part with one torn write (`crash.py`). Each state is opened with SQLite,
checked, and compared with the replies that had left by then:

* a job whose submit had been answered is there, unless its end may have been on its way;
* a job whose end had been answered is not, in protocols in which that is a promise.

Each connection of the load has one command under way at a time, so the n-th reply that the server
sent to its port answers its n-th command.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path
from random import Random

from tests.prove import shim, trace
from tests.prove.aftermath import crash_states, fates, judge_states
from tests.prove.crash import Disk
from tests.prove.options import Options
from tests.prove.talks import PROTOCOLS, Dialogue, of
from tests.support.server import Server

NAME = "powerloss"
MUTANTS: tuple[str, ...] = ("sync-normal",)

_BATCH = 10
_PRODUCERS, _WORKERS = 2, 2


# -- the load ----------------------------------------------------------------------------------


def _produce(talk: Dialogue, name: str, count: int) -> None:
    """Push one at a time, and every tenth time ten at once."""
    for number in range(count):
        size = _BATCH if number % _BATCH == _BATCH - 1 else 1
        talk.push([f"{name}-{number:05}-{place}" for place in range(size)])


def _consume(talk: Dialogue, rng: Random, stop: threading.Event) -> None:
    """Finish most of what comes, fail some, and keep some for ever."""
    while not stop.is_set():
        name = talk.take()
        if name is None:
            time.sleep(0.002)  # some protocols say so at once
            continue
        choice = rng.random()
        if choice < 0.6:
            talk.finish(name)
        elif choice < 0.7:
            talk.fail(name)


def record_run(server: Server, rng: Random, pushes: int) -> list[Dialogue]:
    """Serve a load from start to graceful stop; what each connection said."""
    with server:
        talks: list[Dialogue] = []
        workers: list[Dialogue] = []
        for protocol, port in server.ports.items():
            talk = of(protocol).talk
            talks += [talk(port) for _ in range(_PRODUCERS)]
            workers += [talk(port, f"worker-{number}") for number in range(_WORKERS)]
        stop = threading.Event()
        producing = [
            threading.Thread(target=_produce, args=(talk, f"job-{n}", pushes // len(talks)))
            for n, talk in enumerate(talks)
        ]
        consuming = [
            threading.Thread(target=_consume, args=(worker, Random(rng.random()), stop))
            for worker in workers
        ]
        for thread in (*producing, *consuming):
            thread.start()
        for thread in producing:
            thread.join()
        stop.set()
        for thread in consuming:
            thread.join()
        for dialogue in (*talks, *workers):
            dialogue.leave()
        server.terminate()
    return [*talks, *workers]


def run(options: Options) -> bool:
    began = time.monotonic()
    rng = Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="franca-powerloss-") as scratch:
        home = Path(scratch).resolve()
        (home / "data").mkdir(mode=0o700)
        library = shim.build(home / "shim")
        recorder = shim.Shim(library, home / "data", trace=home / "trace")
        server = Server(
            home / "data",
            env=recorder.environment(),
            argv_prefix=options.variant("small-log"),
            speaks=PROTOCOLS,
        )
        dialogues = record_run(server, rng, options.number("pushes", 3_000, short=900))
        records = trace.read(home / "trace")
        jobs = fates(records, dialogues)
        assert sum(fate.pushed is not None for fate in jobs.values()) >= 100, "hardly any load"
        states = options.number("states", 2_000, short=200)
        serve_every = states // options.number("served", 20, short=5)
        tally = judge_states(crash_states(records, states, rng, Disk()), jobs, serve_every)
        if options.keep is not None and not tally.ok:
            shutil.copy(home / "trace", options.keep)
    syncs = sum(record.kind is trace.Kind.SYNC for record in records)
    print(
        f"T2 {NAME}: states={tally.states} lost_acked={tally.lost_acked}"
        f" resurrected={tally.resurrected} corrupt={tally.corrupt}"
        f" served={tally.served} refused={tally.refused} jobs={len(jobs)}"
        f" records={len(records)} syncs={syncs} jobs_lost={tally.jobs_lost}"
        f" protocols={','.join(PROTOCOLS)} seconds={time.monotonic() - began:.0f}"
    )
    for example in tally.examples[:5]:
        print(f"  {example}")
    return tally.ok
