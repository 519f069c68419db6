"""What the benchmarks of the protocols share: their command line, their rounds, what they print."""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from bench.measure import Load, Run
from bench.report import Case, Verdict, medians

SYNC_SAMPLES = 100
BUSY_PER_CORE = 0.4  # of load average: above it, others take a part of what is measured

Runs = dict[Case, list[Run]]
# Measures every server once under one load, close to each other in time: the runs by server.
Round = Callable[[Load], dict[str, Run]]


def command_line(word: str, description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {word}", description=description)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--rounds", type=int, metavar="N", help="5, or 3 with --quick")
    parser.add_argument("--jobs", type=int, metavar="N", help="per run; else as many as fit in 3 s")
    parser.add_argument("--payload", type=int, default=64, metavar="BYTES")
    parser.add_argument("--dir", type=Path, help="where the data goes: the disk to be measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """The option of a benchmark that is run with several numbers of connections."""
    parser.add_argument("--sizes", type=numbers, default=[10, 50, 200], metavar="N,N")


def numbers(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(word) for word in text.split(",")]


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The command line, with --quick turned into what it stands for."""
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.seconds = 1.5 if options.quick else 3.0
    return options


def run_rounds(rounds: int, loads: Sequence[Load], measure_round: Round) -> Runs:
    """The runs of all rounds, by case; a line tells of each while the others are still to come."""
    runs: Runs = {}
    for number in range(1, rounds + 1):
        for load in loads:
            began = time.monotonic()
            of_round = measure_round(load)
            for name, run in of_round.items():
                runs.setdefault((name, run.size), []).append(run)
            shown = [f"{name} {show(run)}" for name, run in of_round.items()]
            took_s = time.monotonic() - began
            print(f"round {number} {load.size}: {', '.join(shown)} in {took_s:.1f} s", flush=True)
    servers = list(dict.fromkeys(server for server, _ in runs))
    return dict(sorted(runs.items(), key=lambda item: servers.index(item[0][0])))


def show(run: Run) -> str:
    """A run in a few words."""
    ratio = f" ({run.ratio:.2f})" if run.ratio else ""
    return f"{run.jobs_per_s:.0f}/s{ratio}"


def conclude(options: argparse.Namespace, runs: Runs, verdicts: Sequence[Verdict]) -> int:
    """Print the verdicts; the exit code, which tells of missed targets only if asked to."""
    print()
    for verdict in verdicts:
        print(verdict)
    if options.json:
        write_json(options.json, runs)
    return int(options.check and not all(verdict.is_met for verdict in verdicts))


def describe_machine(directory: Path) -> str:
    """What the figures hang on besides the server, and a warning when others use the machine."""
    cores, busy = os.cpu_count() or 1, os.getloadavg()[0]
    lines = [
        f"{platform.platform()}, Python {platform.python_version()}, {cores} cores,"
        f" load average {busy:.1f}; a sync of the disk takes {sync_ms(directory):.2f} ms"
    ]
    if busy > BUSY_PER_CORE * cores:
        lines.append("The machine is busy with other work: these figures only hint.")
    return "\n".join(lines)


def sync_ms(directory: Path) -> float:
    """The median time of a small write and its fdatasync: what every durable answer waits for."""
    took: list[float] = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(SYNC_SAMPLES):
            began = time.monotonic()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            took.append(time.monotonic() - began)
    return median(took) * 1e3


def write_json(path: Path, runs: Runs) -> None:
    """Every run and its case's medians, for a program to read."""
    cases = [
        {
            "server": server,
            "clients": size,
            "median": asdict(medians(of_case)),
            "runs": [asdict(run) for run in of_case],
        }
        for (server, size), of_case in runs.items()
    ]
    path.write_text(json.dumps({"cases": cases}, indent=2) + "\n")
