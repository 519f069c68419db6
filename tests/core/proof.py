"""T7 as a proof: many examples, one line. (A row for the table of `tests/prove/registry.py`.)"""

from __future__ import annotations

import traceback

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.core.machine import BrokerMachine
from tests.core.mutants import MUTANTS as PLANTED
from tests.core.mutants import is_caught
from tests.prove.options import Options

NAME = "model"
MUTANTS = PLANTED.names


def run(options: Options) -> bool:
    """So many examples drawn from the seed; of a planted bug, fewer will do."""
    if options.mutant is not None:
        caught = is_caught(options.mutant, examples=1_000)
        print(f"T7 model: mutant={options.mutant} failures={int(caught)}")
        return not caught
    return check(options.number("examples", 20_000, short=1_000), options.seed)


def check(examples: int, from_seed: int | None = None) -> bool:
    """Try the examples and say what came of them; True if nothing broke."""
    effort = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    machine = BrokerMachine if from_seed is None else seed(from_seed)(BrokerMachine)
    try:
        run_state_machine_as_test(machine, settings=effort)
    except Exception:
        traceback.print_exc()
        print(f"T7 model: examples={examples} failures=1")
        return False
    print(f"T7 model: examples={examples} failures=0")
    return True
