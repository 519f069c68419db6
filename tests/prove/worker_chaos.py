"""T11: a worker that is killed in the middle of a job loses it to another, soon, and nobody else notices.

Workers of every protocol, each a process of its own, are killed with SIGKILL while they work, and others are born in
their place, while producers of every protocol go on and some clients wait for results. A job whose
worker was lost must be with another within two seconds, where a lease ends with its connection; every job is run to its end,
none twice without a cause, and whoever waits hears one end.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from pathlib import Path
from random import Random

from tests.prove.events import HABITS, Event, dump
from tests.prove.history import check
from tests.prove.load import Load, Plan, left_in
from tests.prove.nursery import Child, Nursery
from tests.prove.options import Options
from tests.prove.peers import PROTOCOLS
from tests.prove.witness import percentile
from tests.support.faktory import Faktory
from tests.support.server import Server

NAME = "worker-chaos"
MUTANTS: tuple[str, ...] = ("no-requeue",)

_SHOWN = ("lost", "unexplained_dup", "mangled", "two_leases", "ran_after_ack", "result")
_VICTIMS = 2  # of each protocol, alive at any time
_PAUSE_S = 0.06
_WORK_S = 0.05
_BACKLOG = 40
_RESERVE_S = 3
_REDELIVERY_MAX_S = 2.0
_DRAIN_S = 30.0


def run(options: Options) -> bool:
    kills = options.number("kills", 300, short=80)
    began = time.monotonic()
    rng = Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="franca-chaos-") as scratch:
        home = Path(scratch)
        server = Server(
            home / "data", argv_prefix=options.variant("quick-time"), speaks=PROTOCOLS,
            env={"FRANCA_LIMITS__LEASE_MS": str(_RESERVE_S * 1_000)},
        )  # fmt: skip
        plan = Plan(
            server.ports, options.seed, reserve=_RESERVE_S, producers=2, consumers=1,
            backlog_max=_BACKLOG, work_s=_WORK_S,
        )  # fmt: skip
        load = Load(plan)
        with server, Nursery(plan, home) as nursery:
            load.start()
            with Faktory(server.port).hello() as operator:
                children = _torment(nursery, load, kills, rng, operator)
            drained = load.drain(_DRAIN_S / 2 if options.short else _DRAIN_S)
            load.stop()
        for child in children:
            child.read()
    events = load.events + [event for child in children for event in child.events]
    verdict = check(events, drained=True)
    waits = _redeliveries(events, children)
    p99 = percentile(waits, 0.99) if waits else 0.0
    print(
        f"T11 {NAME}: kills={len(children)} acked={verdict.accepted} {verdict.line(_SHOWN)}"
        f" redelivered={len(waits)} redelivery_p99_s={p99:.2f} protocols={verdict.protocols}"
        f" crossings={verdict.crossings} complaints={len(load.complaints)} drained={drained:d}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    held = verdict.ok and drained and not load.complaints and p99 <= _REDELIVERY_MAX_S
    if not held:
        for samples in verdict.samples.values():
            print(*(f"  {sample}" for sample in samples), sep="\n")
        print(*(f"  {complaint}" for complaint in load.complaints[:10]), sep="\n")
        if options.keep is not None:
            dump(events, options.keep)
    return held and len(waits) > 0


def _torment(
    nursery: Nursery, load: Load, kills: int, rng: Random, operator: Faktory
) -> list[Child]:
    """Let workers be born and die; all of them, killed."""
    alive = [nursery.bear(protocol) for protocol in PROTOCOLS for _ in range(_VICTIMS)]
    dead: list[Child] = []
    while len(dead) < kills - len(alive):
        time.sleep(rng.uniform(0, _PAUSE_S))
        load.measured = left_in(operator.info())
        place = rng.randrange(len(alive))
        alive[place].kill()
        dead.append(alive[place])
        alive[place] = nursery.bear(alive[place].protocol)
    load.draining.set()
    for child in alive:
        child.kill()
    return [*dead, *alive]


def _redeliveries(events: list[Event], children: list[Child]) -> list[float]:
    """How long each job waited whose worker was killed, where it should not wait at all.

    That is where the worker's lease ends with its connection, and the job has no delay of its own.
    """
    runs: dict[str, list[Event]] = defaultdict(list)
    ends: set[tuple[str, str]] = set()
    at_once: set[str] = set()
    for event in events:
        if event.op == "fetch" and event.out == "ok":
            runs[event.jid].append(event)
        elif event.op in ("ack", "fail"):
            ends.add((event.jid, event.conn))
        elif event.op == "push" and not HABITS[event.proto].expiry_fails:
            at_once.add(event.jid)
    waits: list[float] = []
    for child in children:
        if HABITS[child.protocol].grace:
            continue
        assert child.killed is not None
        before, after = child.killed
        for run in child.events:
            if run.op != "fetch" or run.out != "ok" or (run.jid, run.conn) in ends:
                continue
            later = [other.t1 for other in runs[run.jid] if other.t1 > before]
            if run.jid in at_once and later:
                waits.append(max(min(later) - after, 0.0))
    return waits
