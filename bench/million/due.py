"""B5: how late jobs become ready whose time has come, one after the other and all at once.

Jobs become ready in the order of their times, so the number that still waits tells which is next,
and so how late it is.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.findings import Finding, Setup
from bench.million.fill import Part, fill
from bench.passes import Passes
from bench.servers import Server, ServerFailed, running, start_all
from tests.support.faktory import Faktory

JOBS, SPAN_S, LATE_MAX_S = 400_000, 40.0, 3.0
HERD, RATE_MIN = 100_000, 10_000
PASS_MAX_MS = 100.0

PUSHED_PER_S = 6_000  # at the least: what is due must be there before its time
SPARE_S = 5.0
SAMPLE_S = 0.01
PATIENCE_S = 120.0


@dataclass(slots=True)
class Seen:
    """What looking at the count of waiting jobs has shown."""

    late_max_s: float = 0.0
    ready_at: float = 0.0
    left: int = 0


def due(setup: Setup) -> Iterator[Finding]:
    """Jobs that fall due evenly, then as many as one moment may bring."""
    with (
        Passes(setup.directory / "passes") as passes,
        running(start_all(setup.directory / "data", extra=passes.environment)) as server,
    ):
        seen = _released(server, passes, setup.sized(JOBS), SPAN_S)
        more = f"pass_cpu_ms={passes.cpu_max_ms:.1f} left={seen.left}"
        yield Finding("due-evenly", "late_max_s", seen.late_max_s, LATE_MAX_S, more=more)
        yield Finding("due-evenly", "pass_cpu_ms", passes.cpu_max_ms, PASS_MAX_MS)
        herd = setup.sized(HERD)
        seen = _released(server, passes, herd, 0.0)
        rate = (herd - seen.left) / seen.late_max_s
        yield Finding("due-at-once", "ready_per_s", rate, RATE_MIN, at_least=True)
        yield Finding("due-at-once", "pass_cpu_ms", passes.cpu_max_ms, PASS_MAX_MS)


def _released(server: Server, passes: Passes, jobs: int, span_s: float) -> Seen:
    """Push jobs that fall due within the span, and watch them become ready."""
    begins = time.time() + jobs / PUSHED_PER_S + SPARE_S
    part = Part(
        f"due{int(begins)}-",
        jobs,
        lambda _: "due",
        at=lambda number: begins + number / jobs * span_s,
    )
    fill(server, part)
    if time.time() > begins:
        raise ServerFailed("this machine is too slow: the jobs fell due before they were pushed")
    passes.reset()
    return _watch(server, jobs, begins, span_s)


def _watch(server: Server, jobs: int, begins: float, span_s: float) -> Seen:
    seen = Seen(left=jobs)
    deadline = begins + span_s + PATIENCE_S
    with Faktory(server.port, timeout=PATIENCE_S) as peer:
        peer.hello()
        while seen.left and time.time() < deadline:
            seen.left = peer.info()["faktory"]["sets"]["scheduled"]
            now = time.time()
            # The last that was seen waiting became ready since; at worst, just now.
            next_due = begins + (jobs - max(seen.left, 1)) / jobs * span_s
            seen.late_max_s = max(seen.late_max_s, now - next_due)
            time.sleep(SAMPLE_S)
    return seen
