"""`python -m tests.sim`: replay a seed, or hunt through many. Planted bugs: `make prove`.

python -m tests.sim --seed 17              one world, and the fingerprint of its history
python -m tests.sim --seeds 1000           T3; the seeds in which something broke are named
python -m tests.sim model --examples 20000 T7
"""

from __future__ import annotations

import argparse
import sys

from tests.core import proof as model_proof
from tests.prove.harness import Result
from tests.sim import proof
from tests.sim.run import live
from tests.sim.world import fingerprint


def main(argv: list[str]) -> int:
    """What the words say; 0 if everything held, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("what", nargs="?", choices=["model"], help="T7 instead of T3")
    parser.add_argument("--seed", type=int, help="replay one world")
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds to hunt through")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--examples", type=int, default=2_000, help="how many examples T7 tries")
    options = parser.parse_args(argv)
    if options.what == "model":
        return _told("T7 model", model_proof.check(options.examples, options.seed))
    if options.seed is not None:
        return _replay(options.seed)
    seeds = range(options.start, options.start + options.seeds)
    return _told("T3 sim", proof.check(seeds))


def _told(name: str, result: Result) -> int:
    print(f"{name}: {result.figures}")
    for detail in result.details:
        print(f"  {detail}")
    return 0 if result.held else 1


def _replay(seed: int) -> int:
    life = live(seed)
    history, tally = life.world.history, life.world.tally
    deliveries = sum(event.op == "fetch" and event.out == "ok" for event in history)
    print(
        f"seed={seed} history={fingerprint(history)} jobs={tally.jobs} deliveries={deliveries} "
        f"sim_hours={life.hours:.1f} crashes={tally.crashes} "
        f"protocols={','.join(life.protocols)} violations={len(life.violations)}"
    )
    for violation in life.violations:
        print(f"  {violation}")
    return 1 if life.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
