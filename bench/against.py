"""`python -m bench against COMMIT`: what a job costs the server, beside what it cost at COMMIT.

Each round starts fresh servers of one protocol: one of this tree and two of COMMIT. They take turns
under the same load, a fraction of a second each and in every order equally often, so that whatever
else the machine does it does to all three. This tree and the first of COMMIT are a pair. The two of
COMMIT are another one, which tells whether the comparison can be trusted.
Both commits run with this tree's environment and load generator.

No server has a web side; with --web that of this tree has, and nobody asks it anything: `against
HEAD --web` measures, in a tree without changes, what it costs to have it on.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from itertools import permutations
from pathlib import Path
from statistics import median

from bench import eventmq, memodb
from bench.build import ROOT, CannotBuild, load_generator
from bench.command import describe_machine
from bench.interval import Ratio, pairs_needed, ratio_of
from bench.measure import Load, Run, measure
from bench.report import Verdict
from bench.servers import environment, franca, scratch

CLIENTS = 50
PAIRS = 12
SECONDS = 0.25  # of submissions in each turn; what has piled up by then is also run
WARM_UP_S = 0.05
NEW, OLD, AGAIN = "new", "old", "again"
ORDERS = list(permutations((NEW, OLD, AGAIN)))

PROBABILITY = 0.95
CPU_RATIO_MAX = 1.03

# Consumers, and the jobs that each takes at once, as in the benchmark of each protocol. All but
# MemoDB's are durable.
SHAPES = {
    "faktory": (CLIENTS, 1),
    "gearman": (CLIENTS, 1),
    "periodic": (CLIENTS, 1),
    "memodb": (memodb.WORKER_CONNECTIONS, memodb.WORKERS_EACH),
    "eventmq": (eventmq.MANAGERS, eventmq.SLOTS_EACH),
}


# The runs of each server in the order of their turns, for each round.
Rounds = list[dict[str, list[Run]]]
Figure = Callable[[Run], float]


@dataclass(frozen=True, slots=True)
class Compared:
    """The ratios of one protocol's pairs."""

    cpu: Ratio
    rate: Ratio


def main(arguments: list[str]) -> int:
    """Measure, print, and tell by the exit code whether the targets are met if asked to."""
    parser = command_line()
    options = parser.parse_args(arguments)
    least = pairs_needed(joint_probability(options.only))
    if options.pairs < least:
        parser.error(f"at least {least} pairs make an interval")
    generator = load_generator()
    loads = [
        Load(generator, name, CLIENTS, consumers, options.seconds, slots=slots, warm_up=WARM_UP_S)
        for name, (consumers, slots) in SHAPES.items()
        if name in options.only
    ]
    with scratch(options.dir) as directory:
        sources = {NEW: directory / NEW, OLD: directory / OLD}
        take_this_tree(sources[NEW])
        take_commit(options.commit, sources[OLD])
        print(describe_machine(directory))
        with_web = {NEW} if options.web else set[str]()
        sources[AGAIN] = sources[OLD]
        rounds = run_rounds(options.pairs, loads, sources, directory, with_web)
    return conclude(options, rounds)


def command_line() -> argparse.ArgumentParser:
    """The options of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench against", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--pairs", type=int, default=PAIRS, metavar="N", help=f"{PAIRS}")
    parser.add_argument("--only", type=protocols, default=list(SHAPES), metavar="NAME,NAME")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="of submissions"
    )
    parser.add_argument("--web", action="store_true", help="this tree's servers have a web side")
    parser.add_argument("--dir", type=Path, help="where the data goes: the disk to be measured")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser


def protocols(text: str) -> list[str]:
    """Names of protocols with commas between them."""
    names = text.split(",")
    if unknown := set(names) - set(SHAPES):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return names


# -- both commits ---------------------------------------------------------------------------------


def take_this_tree(target: Path) -> None:
    """A copy, so that nothing changes in it while it is measured."""
    shutil.copytree(ROOT / "src", target, ignore=shutil.ignore_patterns("__pycache__"))
    prepare(target)


def take_commit(commit: str, target: Path) -> None:
    """The package as it is at `commit`."""
    git = ["git", "-C", str(ROOT), "archive", "--format=tar", f"{commit}:src"]
    archive = subprocess.run(git, capture_output=True, check=False)
    if archive.returncode != 0:
        raise CannotBuild(f"{commit} cannot be had: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(target, filter="data")
    prepare(target)


def prepare(source: Path) -> None:
    """Compile a package, and make sure that it is the one that its servers will run."""
    program = "import franca.node.run; print(franca.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment(source=source),
        check=False,
    )
    if not found.stdout.startswith(str(source)):
        raise CannotBuild(f"{source} does not run: {found.stdout}{found.stderr}")


# -- the rounds -----------------------------------------------------------------------------------


def run_rounds(
    count: int,
    loads: Sequence[Load],
    sources: dict[str, Path],
    directory: Path,
    with_web: Collection[str],
) -> dict[str, Rounds]:
    """The runs of each protocol; a line tells of each round while others are still to come."""
    rounds: dict[str, Rounds] = {load.protocol: [] for load in loads}
    for number in range(1, count + 1):
        for load in loads:
            began = time.monotonic()
            turns = run_round(load, sources, directory, with_web)
            rounds[load.protocol].append(turns)
            shown = [
                f"{name} {median(map(cpu_us, runs)):.1f} us, {median(map(rate, runs)):.0f}/s"
                for name, runs in turns.items()
            ]
            took_s = time.monotonic() - began
            print(
                f"round {number} {load.protocol}: {'; '.join(shown)} in {took_s:.1f} s", flush=True
            )
    return rounds


def run_round(
    load: Load, sources: dict[str, Path], directory: Path, with_web: Collection[str]
) -> dict[str, list[Run]]:
    """The turns of servers that are started afresh."""
    turns: dict[str, list[Run]] = {name: [] for name in sources}
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(
                franca("sqlite", load.protocol, directory, source, has_web=name in with_web)
            )
            for name, source in sources.items()
        }
        for server in servers.values():
            measure(server, load)  # not counted: in its first turn a server has much to set up
        for order in ORDERS:
            for name in order:
                turns[name].append(measure(servers[name], load))
    return turns


def cpu_us(run: Run) -> float:
    """Microseconds of the server for each job, user and system."""
    assert run.cpu_us_per_job is not None
    return run.cpu_us_per_job


def rate(run: Run) -> float:
    """Jobs a second from the first submission to the last completion."""
    return run.jobs_per_s


def joint_probability(protocols: Collection[str]) -> float:
    """How probable each interval of COMMIT and itself must be.

    Both of every protocol must include 1.00. At 95 % each, one of ten would not in four runs of
    ten; so each is as wide as it takes for 95 % of all together.
    """
    return 1 - (1 - PROBABILITY) / (2 * len(protocols))


def compared(rounds: Rounds, first: str, second: str, probability: float) -> Compared:
    """The ratios of the first's figures to the second's."""

    def ratio(figure: Figure) -> Ratio:
        # A round has one pair of servers and so one ratio, the median of its turns'.
        ratios = [
            median(figure(a) / figure(b) for a, b in zip(turns[first], turns[second], strict=True))
            for turns in rounds
        ]
        return ratio_of(ratios, probability)

    return Compared(ratio(cpu_us), ratio(rate))


# -- what came of it ------------------------------------------------------------------------------


def conclude(options: argparse.Namespace, rounds: dict[str, Rounds]) -> int:
    """Print the ratios and the verdicts; the exit code tells of missed targets if asked to."""
    together = joint_probability(rounds)
    news = {name: compared(r, NEW, OLD, PROBABILITY) for name, r in rounds.items()}
    selves = {name: compared(r, AGAIN, OLD, together) for name, r in rounds.items()}
    print(f"\n{options.pairs} pairs each; in brackets the interval of {PROBABILITY:.0%}")
    if options.web:
        print("this tree's servers have a web side that nobody asks")
    tell(f"this tree, times {options.commit}", news)
    print(f"\nand of {together:.1%}: {PROBABILITY:.0%} for all of these together")
    tell(f"{options.commit}, times itself", selves)
    print()
    judged = verdicts(news, selves)
    for verdict in judged:
        print(verdict)
    return int(options.check and not all(verdict.is_met for verdict in judged))


def tell(what: str, results: dict[str, Compared]) -> None:
    """A line for each protocol."""
    print(f"{what:<28} {'CPU per job':<24} jobs/s")
    for name, result in results.items():
        print(f"  {name:<26} {result.cpu!s:<24} {result.rate}")


def verdicts(news: dict[str, Compared], selves: dict[str, Compared]) -> list[Verdict]:
    """What came of each target."""
    most = f"CPU per job reaches down to {CPU_RATIO_MAX:.2f} or below"
    costs = [
        Verdict(f"{name}: {most}", result.cpu.low, result.cpu.low <= CPU_RATIO_MAX)
        for name, result in news.items()
    ]
    wrong = sum(
        not ratio.includes(1.0) for result in selves.values() for ratio in (result.cpu, result.rate)
    )
    return [*costs, Verdict("intervals of itself without 1.00 = 0", wrong, wrong == 0)]
