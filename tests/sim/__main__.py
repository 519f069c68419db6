"""`python -m tests.sim`: replay a seed, or hunt through many. Planted bugs: `make prove`.

python -m tests.sim --seed 17              one world, and the fingerprint of its history
python -m tests.sim --seeds 1000           T3; the seeds in which something broke are named
python -m tests.sim model --examples 20000 T7
"""

from __future__ import annotations

import argparse
import sys
from random import randrange

from tests.prove.__main__ import run_one
from tests.prove.harness import Options
from tests.sim.run import live
from tests.sim.world import fingerprint


def main(argv: list[str]) -> int:
    """What the words say; 0 if everything held, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("what", nargs="?", choices=["model"], help="T7 instead of T3")
    parser.add_argument("--seed", type=int, help="replay one world")
    parser.add_argument("--seeds", default="100", help="how many worlds to hunt through")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--examples", default="2000", help="how many examples T7 tries")
    options = parser.parse_args(argv)
    if options.what == "model":
        seed = randrange(1_000_000) if options.seed is None else options.seed
        return run_one("model", Options(seed, extra={"examples": options.examples}))
    if options.seed is not None:
        return _replay(options.seed)
    return run_one("sim", Options(options.start, extra={"seeds": options.seeds}))


def _replay(seed: int) -> int:
    life = live(seed)
    history, tally = life.world.history, life.world.tally
    deliveries = sum(event.op == "fetch" and event.out == "ok" for event in history)
    print(
        f"seed={seed} history={fingerprint(history)} jobs={tally.jobs} deliveries={deliveries} "
        f"sim_hours={life.hours:.1f} crashes={tally.crashes} "
        f"protocols={','.join(life.protocols)} violations={len(life.violations)}",
        *life.violations,
        sep="\n  ",
    )
    return 1 if life.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
