"""T8: nothing that was acknowledged is lost when the server dies at any step of its way to the disk.

Each point is a step of the store (or a reply that is about to leave, or has just left) and how many times it
is passed before the process ends there, as if killed. The server suffers it under the load of T1, is
started again as it is, works on for a moment, and is drained; the clients' history must be clean.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.prove.events import Event, dump
from tests.prove.history import Verdict, check
from tests.prove.load import Load, Plan
from tests.prove.options import Options
from tests.prove.store_bugs import KILL_VARIABLE, KILLED
from tests.support.server import Server

NAME = "killpoints"
MUTANTS: tuple[str, ...] = ("skip-commit",)

_POINTS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("before-begin", (1, 20, 60)),
    ("before-commit", (1, 2, 25, 70)),
    ("after-commit", (1, 2, 30, 80)),
    ("before-checkpoint", (1, 4)),
    ("after-checkpoint", (1, 4)),
    ("before-reply", (10, 150)),
    ("after-reply", (11, 200)),
    ("migrate", (1,)),
)
_DIES_WITHIN_S = 30.0
_WORKS_ON_S = 0.4
_DRAIN_S = 60.0
_RESERVE_S = 2
_ENOUGH = 3  # points that broke a promise: more would say no more


@dataclass
class Tally:
    """What came of all points together."""

    points: int = 0
    acked: int = 0
    lost: int = 0
    broken: int = 0
    complaints: list[str] = field(default_factory=list)


def run(options: Options) -> bool:
    began = time.monotonic()
    rng = Random(options.seed)
    tally = Tally()
    for name, counts in _POINTS:
        for count in counts if not options.short else counts[:2]:
            if tally.broken < _ENOUGH:
                # Not always the very same moment: over many runs, all of them.
                later = rng.randrange(3) if count > 4 else 0
                _suffer(f"{name}:{count + later}", tally, options)
    print(
        f"T8 {NAME}: points={tally.points} lost={tally.lost} broken={tally.broken}"
        f" acked={tally.acked} seconds={time.monotonic() - began:.0f}"
    )
    for complaint in tally.complaints[:10]:
        print(f"  {complaint}")
    return tally.points >= 12 and not tally.lost and not tally.broken


def _suffer(point: str, tally: Tally, options: Options) -> None:
    tally.points += 1
    with tempfile.TemporaryDirectory(prefix="franca-point-") as scratch:
        data = Path(scratch) / "data"
        doomed = Server(
            data, argv_prefix=options.variant("quick-time", "tiny-log", "kill-point"),
            env={KILL_VARIABLE: point},
        )  # fmt: skip
        heir = Server(
            data, argv_prefix=("-m", "tests.prove.mutants", "quick-time"), port=doomed.port
        )
        plan = Plan(
            doomed.ports,
            options.seed,
            reserve=_RESERVE_S,
            producers=2,
            consumers=2,
            backlog_max=500,
        )
        load = Load(plan)
        load.start()
        doomed.launch()
        code = doomed.wait(_DIES_WITHIN_S)
        before = time.monotonic()
        if code != KILLED:
            tally.broken += 1
            tally.complaints.append(f"{point}: ended with {code}: {doomed.log_tail()[-300:]}")
        with heir:
            load.noted.append(Event("restart", t0=before, t1=time.monotonic()))
            time.sleep(_WORKS_ON_S)
            drained = load.drain(_DRAIN_S)
            load.stop()
    verdict = check(load.events, drained=drained)
    tally.acked += verdict.accepted
    tally.lost += verdict.counts["lost"]
    if not drained or not verdict.ok:
        tally.broken += 1
        tally.complaints.append(f"{point}: {_said(verdict, drained)}")
        if options.keep is not None:
            dump(load.events, options.keep)


def _said(verdict: Verdict, drained: bool) -> str:
    wrong = {name: count for name, count in verdict.counts.items() if count}
    examples = [sample for samples in verdict.samples.values() for sample in samples[:1]]
    return f"drained={drained:d} {wrong} {examples[:2]}"
