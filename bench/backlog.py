"""`python -m bench.backlog`: a backlog far larger than the server's memory, across a kill -9.

Pushes the jobs while it watches the server's memory, kills the server, times how long a new one
takes from its start to the first FETCH answered with a job, then drains the whole queue and
checks that each job came exactly once.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from bench.client import Client, Unexpected
from bench.drain import JID_PREFIX, QUEUE, Drain
from bench.report import Verdict
from bench.servers import ServerFailed, await_ready, running, scratch, start_franca

BATCH = 1_000
PUSHERS = 4
CONSUMERS = 8
WORKER_ID = "backlog-worker"

RSS_MAX_MB = 300.0
RESTART_MAX_S = 3.0


@dataclass(slots=True)
class Figures:
    """What was measured, in the order in which it is printed."""

    jobs: int
    push_per_s: float = 0.0
    rss_max_mb: float = 0.0
    rss_max_after_restart_mb: float = 0.0
    restart_to_first_fetch_s: float = 0.0
    drained: int = 0
    duplicates: int = 0
    missing: int = 0
    drain_per_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"backlog: jobs={self.jobs} push_per_s={self.push_per_s:.0f}"
            f" rss_max_mb={self.rss_max_mb:.0f}"
            f" rss_max_after_restart_mb={self.rss_max_after_restart_mb:.0f}"
            f" restart_to_first_fetch_s={self.restart_to_first_fetch_s:.2f}"
            f" drained={self.drained} duplicates={self.duplicates} missing={self.missing}"
            f" drain_per_s={self.drain_per_s:.0f}"
        )

    def verdicts(self) -> list[Verdict]:
        """What came of each target."""
        restart_s, wrong = self.restart_to_first_fetch_s, self.duplicates + self.missing
        rss_mb = max(self.rss_max_mb, self.rss_max_after_restart_mb)
        return [
            Verdict(f"resident memory < {RSS_MAX_MB:.0f} MB", rss_mb, rss_mb < RSS_MAX_MB),
            Verdict(
                f"restart to first FETCH < {RESTART_MAX_S:.0f} s",
                restart_s,
                restart_s < RESTART_MAX_S,
            ),
            Verdict("jobs delivered not exactly once = 0", wrong, wrong == 0),
        ]


def main(arguments: list[str] | None = None) -> int:
    """Run it all; the exit code tells of missed targets only if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.backlog", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--dir", type=Path, help="where the data goes")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args(arguments)
    figures = Figures(options.jobs)
    try:
        with scratch(options.dir) as directory:
            push_and_kill(figures, directory / "data")
            restart_and_drain(figures, directory / "data")
    except (ServerFailed, Unexpected, OSError) as error:
        print(f"bench.backlog: {error}", file=sys.stderr)
        return 2
    print(figures)
    verdicts = figures.verdicts()
    for verdict in verdicts:
        print(verdict)
    return int(options.check and not all(verdict.is_met for verdict in verdicts))


def push_and_kill(figures: Figures, data: Path) -> None:
    """Push every job, see each batch acknowledged, and kill the server at once."""
    with running(start_franca("sqlite", data)) as server:
        await_ready(server)
        pushers = [Client(server.port) for _ in range(PUSHERS)]
        began = time.monotonic()
        push_all(pushers, pushb_commands(figures.jobs))
        figures.push_per_s = figures.jobs / (time.monotonic() - began)
        figures.rss_max_mb = server.rss_max_mb()
        server.kill()
        for pusher in pushers:
            pusher.close()


def push_all(pushers: list[Client], commands: Iterator[bytes]) -> None:
    """Send every command and see it answered; each pusher has one in flight at all times."""
    in_flight: deque[Client] = deque()
    for pusher, command in zip(cycle(pushers), commands, strict=False):
        if len(in_flight) == len(pushers):
            await_pushed(in_flight.popleft())
        pusher.send(command)
        in_flight.append(pusher)
    for pusher in in_flight:
        await_pushed(pusher)


def await_pushed(pusher: Client) -> None:
    """Wait for the answer to a PUSHB, which must say that no job was refused."""
    pusher.expect(b"$2")
    pusher.expect(b"{}")


def pushb_commands(jobs: int) -> Iterator[bytes]:
    """The PUSHB commands that push jobs 0 to `jobs` - 1."""
    job = (
        f'{{"jid":"{JID_PREFIX}%09d","jobtype":"bench","queue":"{QUEUE}","args":[%d,"{"x" * 64}"]}}'
    )
    for first in range(0, jobs, BATCH):
        numbers = range(first, min(first + BATCH, jobs))
        yield f"PUSHB [{','.join([job % (number, number) for number in numbers])}]".encode()


def restart_and_drain(figures: Figures, data: Path) -> None:
    """Start a server on what the killed one left, and take every job out of it."""
    began = time.monotonic()
    with running(start_franca("sqlite", data)) as server:
        await_ready(server)
        first = Client(server.port, WORKER_ID)
        job = first.fetch(QUEUE.encode())
        figures.restart_to_first_fetch_s = time.monotonic() - began
        consumers = [first] + [Client(server.port, WORKER_ID) for _ in range(CONSUMERS - 1)]
        drain = Drain(figures.jobs, consumers, WORKER_ID)
        if job is not None:
            drain.take(first, job)
        began = time.monotonic()
        drain.run()
        figures.drain_per_s = drain.drained / max(drain.last_job_at - began, 1e-9)
        figures.rss_max_after_restart_mb = server.rss_max_mb()
        figures.drained = drain.drained
        figures.duplicates = drain.duplicates
        figures.missing = drain.missing


if __name__ == "__main__":
    sys.exit(main())
