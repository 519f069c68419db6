"""`python -m bench eventmq`: REQUEST to a worker and REPLY back, beside the original router.

The router leaves a REQUEST unanswered when it finds no free slot, also later when it has one.
A client of the router therefore goes on as soon as its job has run; a client of ours always awaits
its REPLY too.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.build import load_generator
from bench.command import command_line, conclude, describe_machine, parse, run_rounds
from bench.measure import Load, Run, measure
from bench.peers import start_emq_router
from bench.report import Case, Verdict, at_least, at_most, medians, table
from bench.servers import STORE_FLAGS, franca, running, scratch

CLIENTS = 50
# Like ten job managers with five processes each: of fifty slots, what the router does best with.
MANAGERS, SLOTS_EACH = 10, 5

CPU_RATIO_MAX = 0.5
MEMORY_RATIO_MIN = 2.0
DURABLE_RATIO_MIN = 1.0


def main(arguments: list[str]) -> int:
    """Measure, print, and tell by the exit code whether the targets are met if asked to."""
    options = parse(command_line("eventmq", __doc__), arguments)
    load = Load(
        load_generator(),
        "eventmq",
        CLIENTS,
        MANAGERS,
        options.seconds,
        options.jobs,
        options.payload,
        SLOTS_EACH,
    )
    with scratch(options.dir) as directory:
        print(describe_machine(directory))
        runs = run_rounds(options.rounds, [load], partial(measure_round, directory))
    results = {case: medians(of_case) for case, of_case in runs.items()}
    print()
    print(
        table(
            results,
            ("unanswered", lambda run: run.unanswered / run.jobs, ".0%"),
            ("ratio to the router", lambda run: run.ratio, ".2f"),
            ("CPU to the router's", lambda run: run.cpu_ratio, ".2f"),
        )
    )
    return conclude(options, runs, verdicts(results, load.size))


def measure_round(directory: Path, load: Load) -> dict[str, Run]:
    """One run of the router and one of each store, close to each other in time."""
    with scratch(directory) as path, running(start_emq_router(path)) as router:
        theirs = measure(router, replace(load, is_silent=True))
    of_round = {"emq-router": theirs}
    for store in STORE_FLAGS:
        with franca(store, "eventmq", directory) as server:
            of_round[f"franca {store}"] = measure(server, load).beside(theirs)
    return of_round


def verdicts(results: dict[Case, Run], size: str) -> list[Verdict]:
    """What came of each target."""
    memory, durable = results["franca memory", size], results["franca sqlite", size]
    return [
        at_most("memory: CPU per job, times the router's", memory.cpu_ratio, CPU_RATIO_MAX),
        at_least("memory: rate, times the router's", memory.ratio, MEMORY_RATIO_MIN),
        at_least("durable: rate, times the router's", durable.ratio, DURABLE_RATIO_MIN),
    ]
