"""T1: nothing that was acknowledged is lost when the server is killed at any moment.

A real server under a load of producers and consumers is killed with SIGKILL at a random moment up to 0.3 s
after it began to serve, and started again, many times. At the end every queue is drained, and the
clients' history is held against every promise (`history.py`).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

from tests.prove.events import Event, dump
from tests.prove.history import Verdict, check
from tests.prove.load import Load, Plan
from tests.prove.options import Options
from tests.prove.peers import PROTOCOLS
from tests.support.server import Server

NAME = "kill9"
MUTANTS: tuple[str, ...] = ("ack-before-commit",)

_SHOWN = ("lost", "unexplained_dup", "mangled", "two_leases", "ran_after_ack", "ghost", "fifo")
_KILL_AFTER_S = 0.3
# A lease, and the longest waits after a first, second and third failure.
_DRAIN_S = 60 + 44 + 74 + 120


def run(options: Options) -> bool:
    rounds = options.number("rounds", 200, short=20)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="franca-kill9-") as scratch:
        # In a short run leases and retries are short too, or the drain would be most of it.
        prefix = options.variant("quick-time") if options.short else options.argv_prefix
        reserve = 5 if options.short else 60
        # Jobs that have no lease of their own, in the hands of workers that have no link.
        env = {"FRANCA_LIMITS__LEASE_MS": str(reserve * 1_000)}
        data = Path(scratch) / "data"
        server = Server(data, argv_prefix=prefix, env=env, speaks=PROTOCOLS)
        # A short backlog: who waits for a result stands behind all of it.
        plan = Plan(server.ports, options.seed, reserve=reserve, backlog_max=300)
        load = Load(plan)
        with server:
            load.start()
            _torment(server, load, rounds, Random(options.seed))
            killed = time.monotonic()
            drained = load.drain(_DRAIN_S)
            load.stop()
        events = load.events
    verdict = check(events, drained=True)
    accepted = verdict.accepted
    print(
        f"T1 {NAME}: rounds={rounds} acked={accepted} {verdict.line(_SHOWN)}"
        f" protocols={verdict.protocols} crossings={verdict.crossings}"
        f" complaints={len(load.complaints)}"
        f" drained={int(drained)} deliveries={verdict.deliveries} recovered={verdict.recovered}"
        f" round_s={(killed - began) / max(rounds, 1):.2f} seconds={time.monotonic() - began:.0f}"
    )
    held = verdict.ok and drained and not load.complaints
    if not held:
        _show(verdict)
        for complaint in load.complaints[:10]:
            print(f"  {complaint}")
        if options.keep is not None:
            dump(events, options.keep)
    return held


def _torment(server: Server, load: Load, rounds: int, rng: Random) -> None:
    """Kill and restart; what happened in between is for the clients to say."""
    for _ in range(rounds):
        time.sleep(rng.uniform(0, _KILL_AFTER_S))
        before = time.monotonic()
        server.restart()
        load.noted.append(Event("restart", t0=before, t1=time.monotonic()))


def _show(verdict: Verdict) -> None:
    for samples in verdict.samples.values():
        for sample in samples:
            print(f"  {sample}")
