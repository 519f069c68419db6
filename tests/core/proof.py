"""T7 as a proof: many examples, one line. (A row for the table of `tests/prove/registry.py`.)"""

import traceback
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.core.machine import BrokerMachine
from tests.core.mutants import MUTANTS
from tests.prove.harness import Options, Result
from tests.prove.mutants import plant


def run(options: Options) -> Result:
    """So many examples drawn from the seed; of a planted bug, fewer will do."""
    if options.mutant is not None:
        plant(MUTANTS[options.mutant])
        quick: dict[str, Any] = {"phases": [Phase.generate], "report_multiple_bugs": False}
        quick |= {"max_examples": 1_500, "stateful_step_count": 50, "derandomize": True}
        caught = not _holds(BrokerMachine, **quick)
        return Result(not caught, f"mutant={options.mutant} failures={caught:d}")
    examples = options.number("examples", 20_000, short=1_000)
    machine = seed(options.seed)(BrokerMachine)
    held = _holds(machine, max_examples=examples, stateful_step_count=30, print_error=True)
    return Result(held, f"examples={examples} failures={not held:d}")


def _holds(machine: type[BrokerMachine], *, print_error: bool = False, **effort: Any) -> bool:
    chosen = settings(deadline=None, database=None, suppress_health_check=[*HealthCheck], **effort)
    try:
        run_state_machine_as_test(machine, settings=chosen)
    except Exception:
        if print_error:
            traceback.print_exc()
        return False
    return True
