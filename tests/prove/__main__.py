"""`python -m tests.prove NAME`: run one proof, or `all` of them with their mutants."""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.prove import registry
from tests.prove.options import Options
from tests.support.server import ROOT

HELD, BROKEN, NOT_CARRIED_OUT = 0, 1, 2


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", epilog=_names())
    parser.add_argument("name", choices=[*registry.MODULES, "all"], metavar="NAME")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--mutant", default=None, help="plant this bug in the server")
    parser.add_argument("--short", action="store_true", help="the sizes of continuous integration")
    parser.add_argument("--keep", type=Path, default=None, help="where to leave evidence")
    known, rest = parser.parse_known_args(argv)
    seed = secrets.randbelow(1_000_000) if known.seed is None else known.seed
    if known.name == "all":
        return run_all(short=known.short, seed=known.seed)
    options = Options(seed, known.mutant, known.short, known.keep, _pairs(parser, rest))
    return run_one(known.name, options)


def run_one(name: str, options: Options) -> int:
    """Run one proof in this process; its exit code."""
    try:
        held = registry.load(name).run(options)
    except Exception:
        traceback.print_exc()
        print(f"{name}: could not be carried out, seed={options.seed}")
        return NOT_CARRIED_OUT
    if not held:
        print(f"{name}: FAILED, seed={options.seed}")
    return HELD if held else BROKEN


# -- all ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """One line of the table at the end."""

    name: str
    mutant: str
    verdict: str
    good: bool
    seconds: float
    summary: str


def run_all(*, short: bool, seed: int | None) -> int:
    """Run every proof and every mutant it must catch, each in a process of its own.

    Those that measure time come last, one by one; the others share the processors. A proof that
    failed is run again only if it measures time. A planted bug that escaped is always run again,
    with another seed unless one was given: whether a search meets it is a matter of chance.
    """
    runs: list[tuple[str, str]] = []
    for name in registry.MODULES:
        left_to_tests = short and name in registry.TESTED
        mutants = () if left_to_tests else registry.load(name).MUTANTS
        runs += [(name, mutant) for mutant in ("", *mutants)]
    timed = [run for run in runs if run[0] in registry.TIMED]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        untimed = [run for run in runs if run[0] not in registry.TIMED]
        running = pool.map(lambda run: _run_apart(*run, short=short, seed=seed), untimed)
        outcomes = [_told(outcome) for outcome in running]
    outcomes += [_told(_run_apart(*run, short=short, seed=seed)) for run in timed]
    for place, outcome in enumerate(outcomes):
        if not outcome.good and (outcome.mutant or outcome.name in registry.TIMED):
            print(f"{outcome.name} {outcome.mutant or '-'}: once more")
            outcomes[place] = _told(
                _run_apart(outcome.name, outcome.mutant, short=short, seed=seed)
            )
    print()
    print(f"{'proof':<20}{'mutant':<44}{'verdict':<12}{'seconds':>8}")
    for outcome in outcomes:
        print(
            f"{outcome.name:<20}{outcome.mutant or '-':<44}"
            f"{outcome.verdict:<12}{outcome.seconds:>8.1f}"
        )
    good = sum(outcome.good for outcome in outcomes)
    print(f"{good} of {len(outcomes)} as they should be")
    return HELD if good == len(outcomes) else BROKEN


def _told(outcome: Outcome) -> Outcome:
    print(f"{outcome.verdict:>10}  {outcome.summary}", flush=True)
    return outcome


def _run_apart(name: str, mutant: str, *, short: bool, seed: int | None) -> Outcome:
    argv = [sys.executable, "-m", "tests.prove", name]
    argv += ["--short"] if short else []
    argv += ["--mutant", mutant] if mutant else []
    argv += ["--seed", str(seed)] if seed is not None else []
    began = time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - began
    lines = done.stdout.splitlines() or ["(said nothing)"]
    good = done.returncode == (BROKEN if mutant else HELD)
    if mutant:
        words = {HELD: "ESCAPED", BROKEN: "caught"}
    else:
        words = {HELD: "held", BROKEN: "BROKEN"}
    verdict = words.get(done.returncode, "NOT RUN")
    if not good:
        print(done.stdout, end="")
    return Outcome(name, mutant, verdict, good, seconds, lines[0])


def _pairs(parser: argparse.ArgumentParser, rest: list[str]) -> dict[str, str]:
    names, values = rest[::2], rest[1::2]
    if len(names) != len(values) or not all(name.startswith("--") for name in names):
        parser.error(f"expected pairs of --name value, got {' '.join(rest)}")
    return {name[2:]: value for name, value in zip(names, values, strict=True)}


def _names() -> str:
    return "NAME is one of: " + ", ".join([*registry.MODULES, "all"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
