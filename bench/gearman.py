"""`python -m bench gearman`: background jobs from end to end, beside gearmand in the same round.

Durable ones against gearmand with its SQLite queue, the others against gearmand without a queue on
disk. Then a foreground job's round trip: on an idle server, and while durable background jobs run
at half of the rate that was measured. It needs no disk, so it must not wait for one.
"""

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
from bench.measure import Load, Run, beside, measure
from bench.peers import start_gearmand
from bench.report import Case, Verdict, at_least, at_most, medians, table
from bench.servers import franca, running, scratch

# Our store, the queue of gearmand that promises as much, and by load how many times theirs our
# rate must be.
CONTESTS = [
    ("sqlite", "libsqlite3", {"10/10": 7.0, "50/50": 12.0, "200/200": 12.0}),
    ("memory", "builtin", {"10/10": 0.5, "50/50": 0.5, "200/200": 0.5}),
]
SLOWDOWN_MAX = 3.0
HELD_MIN = 0.9
ECHOES_PER_S = 200.0


def main(arguments: list[str]) -> int:
    """Measure, print, and tell by the exit code whether the targets are met if asked to."""
    parser = command_line("gearman", __doc__)
    add_sizes(parser)
    # As fast as they can, they would fill the gaps between the others and measure those, and keep
    # the others from their rate.
    parser.add_argument("--echoes", type=float, default=ECHOES_PER_S, help="a second; 0: no limit")
    options = parse(parser, arguments)
    generator = load_generator()
    loads = [
        Load(generator, "gearman", size, size, options.seconds, options.jobs, options.payload)
        for size in options.sizes
    ]
    with scratch(options.dir) as directory:
        print(describe_machine(directory))
        runs = run_rounds(options.rounds, loads, partial(measure_round, directory))
        background = loads[len(loads) // 2]
        half = medians(runs["franca sqlite", background.size]).jobs_per_s / 2
        echoes = partial(measure_echoes, directory, replace(background, rate=half))
        echo = Load(
            generator, "gearman-echo", 1, 1, options.seconds, queue="echo", rate=options.echoes
        )
        runs |= run_rounds(options.rounds, [echo], echoes)
    results = {case: medians(of_case) for case, of_case in runs.items()}
    print()
    print(table(results, ("ratio", lambda run: run.ratio, ".2f")))
    return conclude(options, runs, verdicts(results))


def measure_round(directory: Path, load: Load) -> dict[str, Run]:
    """One run of each server, ours right after the one that it is compared with."""
    of_round: dict[str, Run] = {}
    for store, queue, _ in CONTESTS:
        with scratch(directory) as path, running(start_gearmand(queue, path)) as peer:
            theirs = measure(peer, load)
        with franca(store, "gearman", directory) as server:
            ours = measure(server, load)
        of_round |= {f"gearmand {queue}": theirs, f"franca {store}": ours.beside(theirs)}
    return of_round


def measure_echoes(directory: Path, background: Load, echo: Load) -> dict[str, Run]:
    """Foreground jobs, one at a time: alone on a durable server, and beside the background ones."""
    with franca("sqlite", "gearman", directory) as server:
        idle = measure(server, echo)
        with beside(server, background) as durable:
            busy = measure(server, echo)
    # What the server did for the others is not what an echo costs.
    busy = replace(busy, cpu_us_per_job=None)
    assert background.rate is not None
    held = durable[0].jobs_per_s / background.rate
    return {
        "echo, idle": idle,
        "echo, beside durable": busy,
        "durable, beside echo": replace(durable[0], ratio=held),
    }


def verdicts(results: dict[Case, Run]) -> list[Verdict]:
    """What came of each target."""
    judged: list[Verdict] = []
    for store, queue, targets in CONTESTS:
        for size, least in targets.items():
            run = results.get((f"franca {store}", size))
            ratio = run.ratio if run else None
            judged.append(at_least(f"{store} {size} ratio to gearmand {queue}", ratio, least))
    idle, busy = results["echo, idle", "1/1"], results["echo, beside durable", "1/1"]
    held = next(run.ratio for (name, _), run in results.items() if name.startswith("durable"))
    slowdown = busy.submit_p50_ms / idle.submit_p50_ms
    return [
        *judged,
        at_most("foreground p50 beside durable jobs, times that of idle", slowdown, SLOWDOWN_MAX),
        at_least("durable jobs beside it, of half the rate", held, HELD_MIN),
    ]
