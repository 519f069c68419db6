"""T3 as a proof: many seeds, one line. (A row for the table of `tests/prove/registry.py`.)"""

from __future__ import annotations

from collections import Counter

from tests.prove.harness import Options, Result, Tally
from tests.prove.mutants import plant
from tests.sim.mutants import MUTANTS, SEEDS
from tests.sim.run import live


def run(options: Options) -> Result:
    """So many worlds, from the given seed on; a planted bug need only be found once."""
    start = options.seed if "seeds" in options.extra else 0
    seeds, only = range(start, start + options.number("seeds", 1_000, short=100)), ""
    if options.mutant is not None:
        change, seeds = MUTANTS[options.mutant], SEEDS
        plant(change)
        # A bug in the code of one protocol shows only in worlds in which that takes part.
        module = next(iter(change)).partition(":")[0].split(".")
        only = module[1] if module[0] == "protocols" else ""
    tally, hours = Tally("seeds", "jobs", "crashes", "violations"), 0.0
    worlds: Counter[str] = Counter()
    for seed in seeds:
        life = live(seed, only)
        tally["seeds"] += 1
        tally["jobs"] += life.world.tally.jobs
        tally["crashes"] += life.world.tally.crashes
        hours += life.hours
        worlds.update(life.protocols)
        if life.violations:
            tally.note("violations", f"seed {seed}: {life.violations[0]}")
            if options.mutant is not None:
                break
    protocols = ",".join(f"{name}:{count}" for name, count in sorted(worlds.items()))
    figures = f"{tally} sim_hours={hours:.0f} protocols={protocols}"
    return Result(not tally["violations"], figures, tally.examples[:20])
