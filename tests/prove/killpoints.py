"""T8: nothing that was acknowledged is lost when the server dies at any step of its way to the disk.

Each point is a step of the store (or a reply that is about to leave, or has just left) and how many times it
is passed before the process ends there, as if killed. The server suffers it under the load of T1, is
started again as it is, works on for a moment, and is drained; the clients' history must be clean.
"""

from __future__ import annotations

import time

from tests.prove.harness import Options, Result
from tests.prove.history import Verdict, check
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
    points = acked = lost = 0
    broken: list[str] = []
    for name, counts in _POINTS.items():
        for count in counts if not options.short else counts[:2]:
            if len(broken) < _ENOUGH:
                points += 1
                # Not always the very same moment: over many runs, all of them.
                later = rng.randrange(3) if count > 4 else 0
                verdict, wrong = _die_at(f"{name}:{count + later}", options)
                acked += verdict.accepted
                lost += verdict.counts["lost"]
                broken += wrong
    held = points >= 12 and not lost and not broken
    return Result(held, broken, points=points, lost=lost, broken=len(broken), acked=acked)


def _die_at(point: str, options: Options) -> tuple[Verdict, list[str]]:
    data = options.home / point.replace(":", "-")
    doomed = options.server(
        data, "quick-time", "tiny-log", "kill-point", env={KILL_VARIABLE: point}
    )
    healthy = Server(data, argv_prefix=Options(0).variant("quick-time"), port=doomed.port)
    load = Load(
        Plan(
            doomed.ports,
            options.seed,
            reserve=_RESERVE_S,
            producers=2,
            consumers=2,
            backlog_max=500,
        )
    )
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
    if code == KILLED and drained and verdict.ok:
        return verdict, []
    options.keep_history(load.events)
    said = f"{point}: ended with {code}, drained={drained:d} {verdict.figures()}"
    return verdict, [f"{said} {verdict.examples[:2]} {doomed.log_tail()[-300:]}"]
