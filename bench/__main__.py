"""`python -m bench`: what the server reaches, beside what its event loop could reach at all.

Each round drives a bare echo server and then a fresh Franca server of each store with the same
closed-loop generator and as many connections. Rounds alternate and medians are printed, because
machines are noisy; a ratio only ever compares two runs of the same round.
"""

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from bench.build import CannotBuild, load_generator
from bench.measure import Load, Run, measure, ratio_to_floor
from bench.report import Case, medians, table, verdicts
from bench.servers import (
    STORE_FLAGS,
    Server,
    ServerFailed,
    await_ready,
    running,
    scratch,
    start_echo,
    start_franca,
)

SYNC_SAMPLES = 100
BUSY_PER_CORE = 0.4  # of load average: above it, others take a part of what is measured


def main() -> int:
    """Measure, print, and tell by the exit code whether the targets are met if asked to."""
    options = parse_options()
    try:
        generator = load_generator()
        runs = measure_rounds(options, generator)
    except (CannotBuild, ServerFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    results = {case: medians(of_case) for case, of_case in runs.items()}
    judged = verdicts(results)
    print()
    print(table(results))
    print()
    for verdict in judged:
        print(verdict)
    if options.json:
        write_json(options.json, runs, results)
    return int(options.check and not all(verdict.is_met for verdict in judged))


def parse_options() -> argparse.Namespace:
    """The command line, with --quick turned into what it stands for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, about 40 s")
    parser.add_argument("--sizes", type=numbers, default=[10, 50, 200], metavar="N,N")
    parser.add_argument("--rounds", type=int, metavar="N", help="5, or 3 with --quick")
    parser.add_argument("--jobs", type=int, metavar="N", help="per run; else as many as fit in 3 s")
    parser.add_argument("--stores", type=stores, default=list(STORE_FLAGS), metavar="NAME,NAME")
    parser.add_argument("--payload", type=int, default=64, metavar="BYTES")
    parser.add_argument("--dir", type=Path, help="where the data goes: the disk to be measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.seconds = 1.5 if options.quick else 3.0
    return options


def numbers(text: str) -> list[int]:
    """Numbers with commas between them."""
    return [int(word) for word in text.split(",")]


def stores(text: str) -> list[str]:
    """Names of stores with commas between them."""
    names = text.split(",")
    if unknown := set(names) - set(STORE_FLAGS):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return names


def measure_rounds(options: argparse.Namespace, generator: Path) -> dict[Case, list[Run]]:
    """The runs of all rounds, by case."""
    runs: dict[Case, list[Run]] = {}
    with scratch(options.dir) as directory, running(start_echo()) as echo:
        print(describe_machine(directory))
        for number in range(1, options.rounds + 1):
            for size in options.sizes:
                load = Load(generator, size, size, options.payload, options.seconds, options.jobs)
                began = time.monotonic()
                of_round = measure_round(echo, load, options.stores, directory)
                for store, run in of_round.items():
                    runs.setdefault((store, size), []).append(run)
                print(progress(number, size, of_round, time.monotonic() - began), flush=True)
    return dict(sorted(runs.items(), key=lambda item: order(item[0], options.stores)))


def order(case: Case, names: list[str]) -> tuple[int, int]:
    """Cases are shown store by store, the floor first."""
    store, size = case
    return (names.index(store) if store in names else -1, size)


def measure_round(echo: Server, load: Load, names: list[str], directory: Path) -> dict[str, Run]:
    """One run of the echo server and one of each store, close to each other in time."""
    everyone = load.producers + load.consumers
    jobs = load.jobs and load.jobs * 3
    floor = measure(echo, "echo", replace(load, producers=everyone, consumers=0, jobs=jobs))
    of_round = {"echo": floor}
    for store in names:
        # A fresh server each time: no case inherits another's history, pages or lag.
        with scratch(directory) as data, running(start_franca(store, data / "data")) as server:
            await_ready(server)
            run = measure(server, "faktory", load)
        ratio = ratio_to_floor(run.jobs_per_s, floor.jobs_per_s)
        of_round[store] = replace(run, ratio=ratio)
    return of_round


def progress(number: int, size: int, of_round: dict[str, Run], took_s: float) -> str:
    """A line that tells how one round went, while the others are still to come."""
    shown = [
        f"{name} {run.jobs_per_s:.0f}/s" + (f" ({run.ratio:.2f})" if run.ratio else "")
        for name, run in of_round.items()
    ]
    return f"round {number} {size}/{size}: {', '.join(shown)} in {took_s:.1f} s"


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


def write_json(path: Path, runs: dict[Case, list[Run]], results: dict[Case, Run]) -> None:
    """Every run and its case's medians, for a program to read."""
    cases = [
        {
            "store": store,
            "producers": size,
            "consumers": size,
            "median": asdict(results[store, size]),
            "runs": [asdict(run) for run in of_case],
        }
        for (store, size), of_case in runs.items()
    ]
    path.write_text(json.dumps({"cases": cases}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
