"""T8: nothing that was acknowledged is lost when the server dies at any step of its way to the disk.

Each point is a step of the store (or a reply that is about to leave, or has just left) and how many times it
is passed before the process ends there, as if killed. The server dies there under the load of T1, is
started again as it is, works on for a moment, and is drained; the clients' history must be clean.
"""

import time

from tests.prove.harness import Options, Result, Tally
from tests.prove.history import check
from tests.prove.load import Load, Plan
from tests.prove.mutants import KILL_VARIABLE, KILLED
from tests.support.server import Server

_POINTS: dict[str, tuple[int, ...]] = {
    "before-begin": (1, 20, 60),
    "before-commit": (1, 2, 25, 70),
    "after-commit": (1, 2, 30, 80),
    "before-checkpoint": (1, 4),
    "after-checkpoint": (1, 4),
    "before-reply": (10, 150),
    "after-reply": (11, 200),
    "migrate": (1,),
}
_DIES_WITHIN_S = 30.0
_WORKS_ON_S = 0.4
_DRAIN_S = 60.0
_RESERVE_S = 2
_ENOUGH = 3  # points that broke a promise: more would say no more


def run(options: Options) -> Result:
    rng = options.rng
    tally = Tally("points", "lost", "broken", "acked")
    for name, counts in _POINTS.items():
        for count in counts if not options.short else counts[:2]:
            if tally["broken"] < _ENOUGH:
                # Not always the very same moment: over many runs, all of them.
                later = rng.randrange(3) if count > 4 else 0
                _die_at(f"{name}:{count + later}", options, tally)
    held = tally["points"] >= 12 and not tally["lost"] and not tally["broken"]
    return Result(held, str(tally), tally.examples)


def _die_at(point: str, options: Options, tally: Tally) -> None:
    data = options.home / point.replace(":", "-")
    env = {KILL_VARIABLE: point}
    doomed = options.server(data, "quick-time", "tiny-log", "kill-point", env=env)
    healthy = Server(data, argv_prefix=Options(0).variant("quick-time"), port=doomed.port)
    plan = Plan(doomed.ports, options.seed, reserve=_RESERVE_S, backlog_max=500)
    plan.producers = plan.consumers = 2
    load = Load(plan)
    load.start()
    doomed.launch()
    code = doomed.wait(_DIES_WITHIN_S)
    with load.restarting():
        healthy.start()
    with healthy:
        time.sleep(_WORKS_ON_S)
        drained = load.drain(_DRAIN_S)
        load.stop()
    verdict = check(load.events, drained=drained)
    tally["points"] += 1
    tally["acked"] += verdict.accepted
    tally["lost"] += verdict.counts["lost"]
    if code != KILLED or not drained or not verdict.ok:
        options.keep_history(load.events)
        said = f"{point}: ended with {code}, drained={drained:d} {verdict.figures()}"
        tally.note("broken", f"{said} {verdict.examples[:2]} {doomed.log_tail()[-300:]}")
