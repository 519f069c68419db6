"""`python -m tests.sim`: replay a seed, hunt through many, or see whether planted bugs are caught.

python -m tests.sim --seed 17              one world, and the fingerprint of its history
python -m tests.sim --seeds 1000           T3; the seeds in which something broke are named
python -m tests.sim --mutants              T3's planted bugs
python -m tests.sim model --examples 20000 T7
python -m tests.sim model --mutants        T7's planted bugs
"""

from __future__ import annotations

import argparse
import sys

from tests.core import mutants as model_mutants
from tests.core import proof as model_proof
from tests.sim import mutants, proof
from tests.sim.run import live


def main(argv: list[str]) -> int:
    """What the words say; 0 if everything held, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("what", nargs="?", choices=["model"], help="T7 instead of T3")
    parser.add_argument("--seed", type=int, help="replay one world")
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds to hunt through")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--examples", type=int, default=2_000, help="how many examples T7 tries")
    parser.add_argument("--mutants", action="store_true", help="plant the bugs, one by one")
    options = parser.parse_args(argv)
    if options.what == "model":
        if options.mutants:
            return _model_mutants()
        return 0 if model_proof.check(options.examples, options.seed) else 1
    if options.mutants:
        return _mutants()
    if options.seed is not None:
        return _replay(options.seed)
    return 0 if proof.check(range(options.start, options.start + options.seeds)) else 1


def _replay(seed: int) -> int:
    life = live(seed)
    print(
        f"seed={seed} history={life.fingerprint} jobs={life.jobs} deliveries={life.deliveries} "
        f"sim_hours={life.hours:.1f} crashes={life.crashes} "
        f"protocols={','.join(life.protocols)} violations={len(life.violations)}"
    )
    for violation in life.violations:
        print(f"  {violation}")
    return 1 if life.violations else 0


def _mutants() -> int:
    names = mutants.MUTANTS.names
    caught = 0
    for name in names:
        seed = mutants.caught_by(name)
        caught += seed is not None
        print(f"  {name:<40} {'ESCAPED' if seed is None else f'caught by seed {seed}'}", flush=True)
    print(f"T3 sim: mutants={caught}/{len(names)}")
    return 0 if caught == len(names) else 1


def _model_mutants() -> int:
    names = model_mutants.MUTANTS.names
    caught = 0
    for name in names:
        is_caught = model_mutants.is_caught(name, examples=1_000)
        caught += is_caught
        print(f"  {name:<40} {'caught' if is_caught else 'ESCAPED'}", flush=True)
    print(f"T7 model: mutants={caught}/{len(names)}")
    return 0 if caught == len(names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
