"""T3 as a proof: many seeds, one line. (A row for the table of `tests/prove/registry.py`.)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext

from tests.prove.options import Options
from tests.sim.mutants import MUTANTS as PLANTED
from tests.sim.mutants import SEEDS
from tests.sim.run import hunt

NAME = "sim"
MUTANTS = PLANTED.names


def run(options: Options) -> bool:
    """So many worlds, from the given seed on; a planted bug need only be found once."""
    if options.mutant is not None:
        return check(SEEDS, options.mutant)
    start = options.seed if "seeds" in options.extra else 0
    return check(range(start, start + options.number("seeds", 1_000, short=100)))


def check(seeds: Iterable[int], mutant: str | None = None) -> bool:
    """Live through the seeds and say what came of them; True if nothing broke."""
    broken: list[str] = []
    count, jobs, hours, crashes = 0, 0, 0.0, 0
    worlds: Counter[str] = Counter()
    with PLANTED.planted(mutant) if mutant else nullcontext():
        for life in hunt(seeds, first_only=mutant is not None):
            count += 1
            jobs += life.jobs
            hours += life.hours
            crashes += life.crashes
            worlds.update(life.protocols)
            if life.violations:
                broken.append(f"seed {life.seed}: {life.violations[0]}")
    print(
        f"T3 sim: seeds={count} jobs={jobs} sim_hours={hours:.0f} crashes={crashes} "
        f"violations={len(broken)} protocols={','.join(f'{p}:{n}' for p, n in sorted(worlds.items()))}"
    )
    for line in broken[:20]:
        print(f"  {line}")
    return not broken
