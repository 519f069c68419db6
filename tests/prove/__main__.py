"""`python -m tests.prove NAME`: run one proof, or `all` of them with their planted bugs."""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.prove.harness import Options
from tests.prove.registry import PROOFS
from tests.support.server import ROOT

HELD, BROKEN, NOT_CARRIED_OUT, IN_PART = 0, 1, 2, 3
PARTLY = "IN PART"


def main(argv: list[str]) -> int:
    names = [*PROOFS, "all"]
    parser = argparse.ArgumentParser(
        prog="python -m tests.prove", epilog=f"NAME is one of: {', '.join(names)}"
    )
    parser.add_argument("name", choices=names, metavar="NAME")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--mutant", default=None, help="plant this bug in the server")
    parser.add_argument("--short", action="store_true", help="the sizes of continuous integration")
    parser.add_argument("--require", action="store_true", help="all that held in part is a failure")
    parser.add_argument("--keep", type=Path, default=None, help="where to leave evidence")
    known, rest = parser.parse_known_args(argv)
    flags, values = rest[::2], rest[1::2]
    if len(flags) != len(values) or not all(flag.startswith("--") for flag in flags):
        parser.error(f"expected pairs of --name value, got {' '.join(rest)}")
    if known.name == "all":
        return run_all(short=known.short, seed=known.seed, require=known.require)
    seed = secrets.randbelow(1_000_000) if known.seed is None else known.seed
    extra = {flag[2:]: value for flag, value in zip(flags, values, strict=True)}
    with tempfile.TemporaryDirectory(prefix=f"franca-{known.name}-") as scratch:
        home = Path(scratch).resolve()
        options = Options(seed, known.mutant, known.short, known.keep, extra, home)
        return run_one(known.name, options)


def run_one(name: str, options: Options) -> int:
    """Run one proof in this process; its exit code."""
    proof = PROOFS[name]
    began = time.monotonic()
    try:
        result = proof.run(options)
    except Exception:
        traceback.print_exc()
        print(f"{name}: could not be carried out, seed={options.seed}")
        return NOT_CARRIED_OUT
    print(f"{proof.label} {name}: {result.figures} seconds={time.monotonic() - began:.0f}".lstrip())
    for detail in result.details:
        print(f"  {detail}")
    if not result.held:
        print(f"{name}: FAILED, seed={options.seed}")
        return BROKEN
    if result.missing:
        print(f"{name}: held in part only, {result.missing}")
        return IN_PART
    return HELD


# -- all ---------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """One row of the table at the end."""

    name: str
    mutant: str
    verdict: str
    seconds: float

    @property
    def good(self) -> bool:
        return self.verdict == ("caught" if self.mutant else "held")


def run_all(*, short: bool, seed: int | None, require: bool) -> int:
    """Run every proof and every planted bug it must catch, each in a process of its own.

    Those that measure time come last, one by one; the others share the processors. A proof that
    failed is run again only if it measures time. A planted bug that escaped is always run again,
    with another seed unless one was given: whether a search meets it is a matter of chance.
    What held in part is not counted, and fails the whole if it is required.
    """

    def run(one: tuple[str, str]) -> Outcome:
        return _run_apart(*one, short=short, seed=seed)

    runs = [(name, mutant) for name, p in PROOFS.items() for mutant in ("", *p.mutants)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        outcomes = list(pool.map(run, [r for r in runs if not PROOFS[r[0]].timed]))
    outcomes += [run(timed) for timed in runs if PROOFS[timed[0]].timed]
    for place, outcome in enumerate(outcomes):
        if not outcome.good and (outcome.mutant or PROOFS[outcome.name].timed):
            print(f"{outcome.name} {outcome.mutant or '-'}: once more")
            outcomes[place] = run((outcome.name, outcome.mutant))
    print(f"\n{'proof':<20}{'mutant':<48}{'verdict':<12}{'seconds':>8}")
    for name, mutant, verdict, seconds in outcomes:
        print(f"{name:<20}{mutant or '-':<48}{verdict:<12}{seconds:>8.1f}")
    good = sum(outcome.good for outcome in outcomes)
    print(
        f"{len(PROOFS)} proofs and {len(runs) - len(PROOFS)} planted bugs:"
        f" {good} of {len(outcomes)} as they should be"
    )
    in_part = [outcome.name for outcome in outcomes if outcome.verdict == PARTLY]
    if in_part:
        print(f"held in part only: {', '.join(in_part)}")
    suffices = good == len(outcomes) if require else good + len(in_part) == len(outcomes)
    return HELD if suffices else BROKEN


def _run_apart(name: str, mutant: str, *, short: bool, seed: int | None) -> Outcome:
    argv = [sys.executable, "-m", "tests.prove", name]
    argv += ["--short"] if short else []
    argv += ["--mutant", mutant] if mutant else []
    argv += ["--seed", str(seed)] if seed is not None else []
    began = time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    words = ("ESCAPED", "caught") if mutant else ("held", "BROKEN")
    verdicts = {HELD: words[0], BROKEN: words[1], IN_PART: words[0] if mutant else PARTLY}
    verdict = verdicts.get(done.returncode, "NOT RUN")
    outcome = Outcome(name, mutant, verdict, time.monotonic() - began)
    lines = done.stdout.splitlines() or ["(said nothing)"]
    print(f"{verdict:>10}  {lines[0] if outcome.good else done.stdout}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
