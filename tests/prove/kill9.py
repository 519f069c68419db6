"""T1: nothing that was acknowledged is lost when the server is killed at any moment.

A real server under a load of producers and consumers is killed with SIGKILL at a random moment up to 0.3 s
after it began to serve, and started again, many times. At the end every queue is drained, and the
clients' history is held against every promise (`history.py`).
"""

import time

from tests.prove.harness import Options, Result, limits
from tests.prove.history import check
from tests.prove.load import Load, Plan
from tests.support.protocols import PROTOCOLS

_SHOWN = ("lost", "unexplained_dup", "mangled", "two_leases", "ran_after_ack", "ghost", "fifo")
_KILL_AFTER_S = 0.3
# A lease, and the longest waits after a first, second and third failure.
_DRAIN_S = 60 + 44 + 74 + 120


def run(options: Options) -> Result:
    rounds = options.number("rounds", 200, short=20)
    # In a short run leases and retries are short too, or the drain would be most of it.
    reserve, tweaks = (5, ["quick-time"]) if options.short else (60, [])
    # Jobs that have no lease of their own, held by workers that have no link.
    env = limits(lease_ms=reserve * 1_000)
    server = options.server("data", *tweaks, env=env, speaks=PROTOCOLS)
    # A short backlog: whoever waits for a result stands behind all of it.
    load = Load(Plan(server.ports, options.seed, reserve=reserve, backlog_max=300))
    rng, began = options.rng, time.monotonic()
    with server:
        load.start()
        for _ in range(rounds):
            time.sleep(rng.uniform(0, _KILL_AFTER_S))
            with load.restarting():
                server.restart()
        round_s = (time.monotonic() - began) / max(rounds, 1)
        drained = load.drain(_DRAIN_S)
        load.stop()
    verdict = check(load.events, drained=True)
    held = verdict.ok and drained and not load.complaints
    if not held:
        options.keep_history(load.events)
    figures = f"rounds={rounds} {verdict.figures(_SHOWN)} complaints={len(load.complaints)}"
    figures += f" drained={drained:d} round_s={round_s:.2f}"
    return Result(held, figures, [*verdict.examples, *load.complaints[:10]])
