"""T3 as a proof: so many worlds, one line. (A row for the table of `tests/prove/registry.py`.)

`--seed 17 --seeds 1` runs one world again; `history` is the fingerprint of all that its peers saw.
"""

import hashlib
from collections import Counter

import msgspec

from tests.prove.harness import Options, Result, Tally
from tests.prove.mutants import plant
from tests.sim.mutants import MUTANTS, SEEDS
from tests.sim.run import live
from tests.sim.world import HOUR, START


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
    tally, worlds = Tally("seeds", "jobs", "crashes", "violations"), Counter[str]()
    hours, seen = 0.0, hashlib.blake2b(digest_size=8)
    for seed in seeds:
        life = live(seed, only)
        tally.update(seeds=1, jobs=life.world.tally.jobs, crashes=life.world.tally.crashes)
        hours += (life.world.now - START) / HOUR
        worlds.update(life.protocols)
        seen.update(msgspec.json.encode(life.world.history))
        if life.violations:
            tally.note("violations", f"seed {seed}: {'; '.join(life.violations)}")
            if options.mutant is not None:
                break
    protocols = ",".join(f"{name}:{count}" for name, count in sorted(worlds.items()))
    figures = f"{tally} sim_hours={hours:.1f} protocols={protocols} history={seen.hexdigest()}"
    return Result(not tally["violations"], figures, tally.examples[:20])
