"""`python -m bench memodb`: requests to workers and back, beside a broker made with pynng.

The other broker does the least that a broker must, on NNG's own contexts. Then small requests' p99,
alone and while one client sends 8 MiB jobs back to back.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.build import load_generator
from bench.command import command_line, conclude, describe_machine, parse, run_rounds
from bench.measure import Load, Run, beside, measure
from bench.peers import start_pynng_broker
from bench.report import Case, Verdict, at_least, at_most, medians, table
from bench.servers import franca, running, scratch

CLIENTS = 50
WORKER_CONNECTIONS, WORKERS_EACH = 10, 5
SPARE_CONTEXTS = 8
BULK_BYTES = 8 << 20

CPU_RATIO_MAX = 1 / 3
RATE_RATIO_MIN = 2.0
SLOWDOWN_MAX = 5.0


def main(arguments: list[str]) -> int:
    """Measure, print, and tell by the exit code whether the targets are met if asked to."""
    options = parse(command_line("memodb", __doc__), arguments)
    load = Load(
        load_generator(),
        "memodb",
        CLIENTS,
        WORKER_CONNECTIONS,
        options.seconds,
        options.jobs,
        options.payload,
        WORKERS_EACH,
    )
    with scratch(options.dir) as directory:
        print(describe_machine(directory))
        runs = run_rounds(options.rounds, [load], partial(measure_round, directory))
    results = {case: medians(of_case) for case, of_case in runs.items()}
    print()
    print(
        table(
            results,
            ("ratio to pynng", lambda run: run.ratio, ".2f"),
            ("CPU to pynng's", lambda run: run.cpu_ratio, ".2f"),
        )
    )
    return conclude(options, runs, verdicts(results, load.size))


def measure_round(directory: Path, load: Load) -> dict[str, Run]:
    """One run of each broker, and ours once more beside the bulk."""
    contexts = CLIENTS + WORKER_CONNECTIONS * WORKERS_EACH + SPARE_CONTEXTS
    with scratch(directory) as path, running(start_pynng_broker(contexts, path)) as peer:
        theirs = measure(peer, load)
    bulk = Load(load.generator, "memodb", 1, 1, load.seconds, payload=BULK_BYTES, queue="bulk")
    with franca("sqlite", "memodb", directory) as server:
        ours = measure(server, load)
        with beside(server, bulk) as large:
            crowded = measure(server, load)
    # What the server did for the large ones is not what a small one costs.
    crowded = replace(crowded, cpu_us_per_job=None)
    return {
        "pynng": theirs,
        "franca": ours.beside(theirs),
        "franca, beside 8 MiB jobs": crowded,
        "8 MiB jobs, beside small": large[0],
    }


def verdicts(results: dict[Case, Run], size: str) -> list[Verdict]:
    """What came of each target."""
    ours, crowded = results["franca", size], results["franca, beside 8 MiB jobs", size]
    slowdown = crowded.submit_p99_ms / ours.submit_p99_ms
    return [
        at_most("CPU per request, times pynng's", ours.cpu_ratio, CPU_RATIO_MAX),
        at_least("rate, times pynng's", ours.ratio, RATE_RATIO_MIN),
        at_most(
            "small requests' p99 beside 8 MiB jobs, times that without", slowdown, SLOWDOWN_MAX
        ),
    ]
