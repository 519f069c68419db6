"""`python -m bench beanstalkd`: jobs from end to end, beside beanstalkd in the same round.

Ours are durable; the original has its log (`-b`) and an fsync for each write (`-f0`). Then what
a job of a backlog costs if each has a priority of its own, beside one priority for all.
"""

import socket
from functools import partial
from pathlib import Path
from statistics import median

from bench.build import load_generator
from bench.client import Unexpected
from bench.command import (
    add_sizes,
    command_line,
    conclude,
    describe_machine,
    parse,
    run_rounds,
)
from bench.measure import Load, Run, measure
from bench.peers import start_beanstalkd
from bench.report import Case, Verdict, at_least, at_most, medians, table
from bench.servers import franca, running, scratch

RATIO_MIN = 2.5
COST_MAX = 3.0
BACKLOG = 20_000
BATCH = 500
STEP = 7_919
"""Each number below the backlog comes once, and neighbours are far apart."""


def main(arguments: list[str]) -> int:
    """Measure, print, and tell by the exit code whether the targets are met if asked to."""
    parser = command_line("beanstalkd", __doc__)
    add_sizes(parser)
    options = parse(parser, arguments)
    generator = load_generator()
    loads = [
        Load(generator, "beanstalkd", size, size, options.seconds, options.jobs, options.payload)
        for size in options.sizes
    ]
    with scratch(options.dir) as directory:
        print(describe_machine(directory))
        runs = run_rounds(options.rounds, loads, partial(measure_round, directory))
        one, many = (
            median(cost_of_backlog(directory, count) for _ in range(options.rounds))
            for count in (1, BACKLOG)
        )
    results = {case: medians(of_case) for case, of_case in runs.items()}
    print()
    print(table(results, ("ratio", lambda run: run.ratio, ".2f")))
    print(f"a job of a backlog: {one * 1e6:.0f} us of one priority, {many * 1e6:.0f} us of many")
    return conclude(options, runs, verdicts(results, one, many))


def measure_round(directory: Path, load: Load) -> dict[str, Run]:
    """One run of each server, ours right after the one that it is compared with."""
    with scratch(directory) as path, running(start_beanstalkd(path)) as peer:
        theirs = measure(peer, load)
    with franca("sqlite", "beanstalkd", directory) as server:
        ours = measure(server, load)
    return {"beanstalkd -b -f0": theirs, "franca": ours.beside(theirs)}


def cost_of_backlog(directory: Path, priorities: int) -> float:
    """Processor time of the server for each of many jobs that were all put before one is taken."""
    with franca("sqlite", "beanstalkd", directory) as server:
        before = server.cpu_s()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
            replies = peer.makefile("rb")
            for first in range(0, BACKLOG, BATCH):
                numbers = range(first, first + BATCH)
                puts = (f"put {n * STEP % priorities} 0 60 4\r\nwork\r\n" for n in numbers)
                peer.sendall("".join(puts).encode())
                for _ in numbers:
                    replies.readline()
            last = -1
            for number in range(BACKLOG):
                peer.sendall(b"reserve\r\n")
                job_id = int(replies.readline().split()[1])
                replies.readline()
                priority = (job_id - 1) * STEP % priorities
                if priority < last:
                    raise Unexpected(f"priority {priority} came after {last}, as job {number}")
                last = priority
                peer.sendall(b"delete %d\r\n" % job_id)
                replies.readline()
        return (server.cpu_s() - before) / BACKLOG


def verdicts(results: dict[Case, Run], one: float, many: float) -> list[Verdict]:
    """What came of each target."""
    run = results.get(("franca", "50/50"))
    return [
        at_least("50/50 ratio to beanstalkd -b -f0", run.ratio if run else None, RATIO_MIN),
        at_most(f"cost of {BACKLOG:,} priorities, times that of one", many / one, COST_MAX),
    ]
