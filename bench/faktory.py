"""`python -m bench faktory`: what the server reaches, beside what its event loop could reach.

Each round drives a bare echo server and then a fresh Franca server of each store with the same
closed-loop generator and as many connections.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.build import load_generator
from bench.command import (
    add_sizes,
    command_line,
    conclude,
    describe_machine,
    parse,
    run_rounds,
)
from bench.measure import Load, Run, measure
from bench.report import Case, Verdict, at_least, lag_verdict, medians, table
from bench.servers import (
    STORE_FLAGS,
    Server,
    await_ready,
    running,
    scratch,
    start_echo,
    start_franca,
)

# How much of the floor must be left, by store and load.
RATIO_MIN = {("sqlite", "50/50"): 0.30, ("sqlite", "200/200"): 0.30, ("memory", "50/50"): 0.58}

# A job is three round trips of the protocol (PUSH, FETCH, ACK) where an echo is one.
ROUND_TRIPS_PER_JOB = 3


def main(arguments: list[str]) -> int:
    """Measure, print, and tell by the exit code whether the targets are met if asked to."""
    parser = command_line("faktory", __doc__)
    add_sizes(parser)
    parser.add_argument("--stores", type=stores, default=list(STORE_FLAGS), metavar="NAME,NAME")
    options = parse(parser, arguments)
    generator = load_generator()
    loads = [
        Load(generator, "faktory", size, size, options.seconds, options.jobs, options.payload)
        for size in options.sizes
    ]
    with scratch(options.dir) as directory, running(start_echo()) as echo:
        print(describe_machine(directory))
        measured = partial(measure_round, echo, options.stores, directory)
        runs = run_rounds(options.rounds, loads, measured)
    results = {case: medians(of_case) for case, of_case in runs.items()}
    print()
    print(table(results, ("ratio to the floor", lambda run: run.ratio, ".3f")))
    return conclude(options, runs, verdicts(results))


def stores(text: str) -> list[str]:
    """Names of stores with commas between them."""
    names = text.split(",")
    if unknown := set(names) - set(STORE_FLAGS):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return names


def measure_round(echo: Server, names: list[str], directory: Path, load: Load) -> dict[str, Run]:
    """One run of the echo server and one of each store, close to each other in time."""
    everyone = load.producers + load.consumers
    jobs = load.jobs and load.jobs * ROUND_TRIPS_PER_JOB
    echoes = replace(load, protocol="echo", producers=everyone, consumers=0, jobs=jobs)
    floor = replace(measure(echo, echoes), size=load.size)
    of_round = {"echo": floor}
    for store in names:
        # A fresh server each time: no case inherits another's history, pages or lag.
        with scratch(directory) as data, running(start_franca(store, data / "data")) as server:
            await_ready(server)
            run = measure(server, load)
        ratio = ROUND_TRIPS_PER_JOB * run.jobs_per_s / floor.jobs_per_s
        of_round[store] = replace(run, ratio=ratio)
    return of_round


def verdicts(results: dict[Case, Run]) -> list[Verdict]:
    """What came of each target."""
    judged: list[Verdict] = []
    for (store, size), least in RATIO_MIN.items():
        run = results.get((store, size))
        ratio = run.ratio if run else None
        judged.append(at_least(f"{store} {size} ratio to the floor", ratio, least))
    ours = [run for (server, _), run in results.items() if server != "echo"]
    return [*judged, lag_verdict(ours)]
