"""C13: whether the store's files give back the room of jobs that are gone."""

import time
from collections.abc import Iterator
from pathlib import Path

from bench.backlog import PUSHERS, push_all
from bench.bounds.common import Asking, memory
from bench.client import Client
from bench.drain import JID_PREFIX, QUEUE, Drain
from bench.findings import Finding, Setup, guarded
from bench.million.fill import Part
from bench.passes import Passes
from bench.servers import Server, running, scratch, start_all

JOBS = 300_000
BATCH = 200
BODY = "x" * 1_500
LEFT_MAX_PERCENT = 10.0
SPARE_BYTES = 16 << 20  # of a file that is never made smaller, whatever was in it
PATIENCE_S = 180.0
STILL_S = 20.0  # without a change: no more will come
PASS_MAX_MS = 100.0
CONSUMERS = 8
WORKER_ID = "space"


def space(setup: Setup) -> Iterator[Finding]:
    """A backlog that is flushed, and one that is worked off."""
    for name in ("flushed", "drained"):
        with scratch(setup.directory) as directory, Passes(directory / "passes") as passes:
            started = start_all(directory / "data", extra=passes.environment)
            with running(started) as server:
                given_back = _given_back(name, server, passes, setup.sized(JOBS))
                yield from guarded(f"space-{name}", given_back)


def _given_back(name: str, server: Server, passes: Passes, jobs: int) -> Iterator[Finding]:
    _fill(server, jobs)
    before = _file_bytes(server)
    passes.reset()
    with Asking(server) as asking:
        if name == "flushed":
            with Client(server.port) as client:
                client.send(b"FLUSH")
                client.expect(b"+OK")
        else:
            consumers = [Client(server.port, WORKER_ID) for _ in range(CONSUMERS)]
            Drain(jobs, consumers, WORKER_ID).run()
        began = time.monotonic()
        after = _await_small(server, before)
        took_s = time.monotonic() - began
    percent = 100 * max(after - SPARE_BYTES, 0) / before
    more = f"before_mb={before / 1e6:.0f} after_mb={after / 1e6:.0f} took_s={took_s:.0f}"
    yield Finding(f"space-{name}", "left_percent", percent, LEFT_MAX_PERCENT, more=more)
    yield Finding(f"space-{name}", "pass_cpu_ms", passes.cpu_max_ms, PASS_MAX_MS)
    yield asking.finding(f"space-{name}")
    yield memory(f"space-{name}", server)


def _fill(server: Server, jobs: int) -> None:
    part = Part(JID_PREFIX, jobs, lambda _: QUEUE, body=BODY)
    pushers = [Client(server.port) for _ in range(PUSHERS)]
    push_all(pushers, part.commands(BATCH))
    for pusher in pushers:
        pusher.close()


def _await_small(server: Server, before: int) -> int:
    """The size of the files when they have become small enough, or no longer change."""
    began = changed_at = time.monotonic()
    size = _file_bytes(server)
    while 100 * max(size - SPARE_BYTES, 0) / before > LEFT_MAX_PERCENT:
        now = time.monotonic()
        if now - changed_at > STILL_S or now - began > PATIENCE_S:
            break
        time.sleep(0.5)
        last, size = size, _file_bytes(server)
        if size != last:
            changed_at = time.monotonic()
    return size


def _file_bytes(server: Server) -> int:
    """The store's files, the log included; not the ballast, which is there to be given up."""
    assert server.data is not None
    files: list[Path] = [path for path in server.data.iterdir() if path.is_file()]
    return sum(path.stat().st_size for path in files if path.name != "ballast")
