"""T2: what was acknowledged survives a power cut at any moment, and what was finished stays finished.

A server runs once under the shim, which records every write, sync and reply. From the record, crash
states are built: the power goes at a random point, and of what was not synced the disk keeps
nothing, everything, a random part, or a part with one torn write (`crash.py`). Each state is opened with SQLite,
checked, and compared with the replies that had left by then:

* a job whose submit had been answered is there, unless its end may have been on its way;
* a job whose end had been answered is not, in protocols in which that is a promise.
"""

import shutil
import threading
import time
from functools import partial
from random import Random

from tests.prove.crash import Disk, Kind, read_trace
from tests.prove.crash_states import NEVER, StateTally, crash_states, fates
from tests.prove.dialogues import PROTOCOLS, Dialogue
from tests.prove.harness import Options, Result, running
from tests.support.server import Server

_BATCH = 10
_PRODUCERS, _WORKERS = 2, 2


def _produce(dialogue: Dialogue, name: str, count: int, stop: threading.Event) -> None:
    """Push so many, one at a time, and every tenth time ten at once."""
    for number in range(count):
        size = _BATCH if number % _BATCH == _BATCH - 1 else 1
        dialogue.push([f"{name}-{number:05}-{place}" for place in range(size)])


def _consume(dialogue: Dialogue, rng: Random, stop: threading.Event) -> None:
    """Finish most of what comes, fail some, and keep some for ever."""
    while not stop.is_set():
        name = dialogue.take()
        if name is None:
            time.sleep(0.002)  # some protocols say so at once
            continue
        choice = rng.random()
        if choice < 0.6:
            dialogue.report(name)
        elif choice < 0.7:
            dialogue.report(name, "fail")


def _serve_a_load(server: Server, rng: Random, pushes: int) -> list[Dialogue]:
    """Serve a load from start to graceful stop; what each connection said."""
    with server:
        producers: list[Dialogue] = []
        workers: list[Dialogue] = []
        for protocol, port in server.ports.items():
            producers += [Dialogue(protocol, port) for _ in range(_PRODUCERS)]
            workers += [Dialogue(protocol, port, f"worker-{n}") for n in range(_WORKERS)]
        each = pushes // len(producers)
        produce = [partial(_produce, p, f"job-{n}", each) for n, p in enumerate(producers)]
        consume = [partial(_consume, worker, Random(rng.random())) for worker in workers]
        with running(*consume), running(*produce):
            pass
        for dialogue in (*producers, *workers):
            dialogue.close()
        server.terminate()
    return [*producers, *workers]


def run(options: Options) -> Result:
    rng, recorded = options.rng, options.home / "trace"
    server = options.server("data", "small-log", env=options.disk(trace=recorded), speaks=PROTOCOLS)
    dialogues = _serve_a_load(server, rng, options.number("pushes", 3_000, short=900))
    records = read_trace(recorded)
    jobs = fates(records, dialogues)
    assert sum(fate["push"] < NEVER for fate in jobs.values()) >= 100, "hardly any load"
    states = options.number("states", 2_000, short=200)
    serve_every = states // options.number("served", 20, short=5)
    tally = StateTally()
    tally.judge(crash_states(records, states, rng, Disk()), jobs, serve_every=serve_every)
    if options.keep is not None and not tally.ok:
        shutil.copy(recorded, options.keep)
    syncs = sum(record.kind is Kind.SYNC for record in records)
    figures = f"{tally} jobs={len(jobs)} records={len(records)} syncs={syncs}"
    return Result(tally.ok, f"{figures} protocols={','.join(PROTOCOLS)}", tally.examples[:5])
