"""`python -m bench.idle`: what thousands of idle connections cost, in memory and to a busy client.

The idle ones have said HELLO without a worker's id, as producers do that keep a pool open.
"""

import argparse
import resource
import select
import sys
import time
from pathlib import Path
from statistics import median

from bench.client import Client, Unexpected
from bench.report import Verdict
from bench.servers import STORE_FLAGS, ServerFailed, await_ready, running, scratch, start_franca

PASSES = 7
PUSHES_PER_PASS = 1_000
SPARE_FILES = 200

RSS_MAX_MB = 200.0
SLOWDOWN_MAX = 2.0


def main(arguments: list[str] | None = None) -> int:
    """Run it all; the exit code tells of missed targets only if asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__)
    parser.add_argument("--connections", type=int, default=5_000, metavar="N")
    parser.add_argument("--store", choices=STORE_FLAGS, default="sqlite")
    parser.add_argument("--dir", type=Path, help="where the data goes")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args(arguments)
    try:
        verdicts = measure(options.connections, options.store, options.dir)
    except (ServerFailed, Unexpected, OSError) as error:
        print(f"bench.idle: {error}", file=sys.stderr)
        return 2
    for verdict in verdicts:
        print(verdict)
    return int(options.check and not all(verdict.is_met for verdict in verdicts))


def measure(connections: int, store: str, directory: Path | None) -> list[Verdict]:
    """Measure a busy client alone, then beside the idle ones; print the line of figures."""
    allow_files(connections + SPARE_FILES)
    with scratch(directory) as path, running(start_franca(store, path / "data")) as server:
        await_ready(server)
        with Client(server.port) as busy:
            push_p99_ms(busy)  # a warm-up, not counted
            before_ms = median(push_p99_ms(busy) for _ in range(PASSES))
            idle = [Client(server.port) for _ in range(connections)]
            with_ms = median(push_p99_ms(busy) for _ in range(PASSES))
            rss_mb = server.rss_mb()
            lost = count_closed(idle)
    print(
        f"idle: connections={connections} lost={lost} rss_mb={rss_mb:.0f}"
        f" p99_before_ms={before_ms:.2f} p99_with_ms={with_ms:.2f}"
    )
    slowdown = with_ms / before_ms
    return [
        Verdict(f"resident memory < {RSS_MAX_MB:.0f} MB", rss_mb, rss_mb < RSS_MAX_MB),
        Verdict(
            f"busy client's p99 < {SLOWDOWN_MAX:.0f} times as long",
            slowdown,
            slowdown < SLOWDOWN_MAX,
        ),
        Verdict("idle connections lost = 0", lost, lost == 0),
    ]


def allow_files(count: int) -> None:
    """Let this process, and the server it starts, have that many open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    if hard < count:
        raise ServerFailed(
            f"{count} open files are needed and the machine allows {hard}: ulimit -n"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def push_p99_ms(busy: Client) -> float:
    """The p99 of a PUSH's round trip, one at a time."""
    push = b'PUSH {"jid":"idle%%d-%d","jobtype":"bench","queue":"idle","args":[1]}' % time.time_ns()
    took: list[float] = []
    for number in range(PUSHES_PER_PASS):
        began = time.perf_counter()
        busy.send(push % number)
        busy.expect(b"+OK")
        took.append(time.perf_counter() - began)
    took.sort()
    return took[int(len(took) * 0.99)] * 1e3


def count_closed(idle: list[Client]) -> int:
    """How many of the connections the server has closed, or said something on unasked."""
    poll = select.poll()
    for client in idle:
        poll.register(client.sock, select.POLLIN)
    return len(poll.poll(0))


if __name__ == "__main__":
    sys.exit(main())
