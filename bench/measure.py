"""One run of the load generator against one server, and the figures that come out of it."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.servers import Server, ServerFailed

WARM_UP_JOBS = 5_000
LOAD_TIMEOUT_S = 120.0

# A job is three round trips of the protocol (PUSH, FETCH, ACK) where an echo is one.
ROUND_TRIPS_PER_JOB = 3

REPORT = re.compile(r"(\d+) jobs/s, .* p50 ([\d.]+) ms p99 ([\d.]+) ms")


@dataclass(frozen=True, slots=True)
class Load:
    """What the load generator is asked for."""

    generator: Path
    producers: int
    consumers: int
    payload: int
    seconds: float
    jobs: int | None = None  # as many as fit in `seconds`, if None


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the load generator showed."""

    jobs: int
    jobs_per_s: float
    submit_p50_ms: float
    submit_p99_ms: float
    cpu_us_per_job: float
    loop_lag_p99_ms: float | None
    ratio: float | None = None


def measure(server: Server, protocol: str, load: Load) -> Run:
    """Drive `server` with `load`, after a short warm-up that also tells how many jobs fit."""
    warm_up = _generate(server, protocol, load, WARM_UP_JOBS)
    jobs = load.jobs or max(WARM_UP_JOBS, int(warm_up[0] * load.seconds))
    cpu_before_s = server.cpu_s()
    jobs_per_s, p50_ms, p99_ms = _generate(server, protocol, load, jobs)
    cpu_s = server.cpu_s() - cpu_before_s
    lag_ms = server.loop_lag_p99_ms()
    return Run(jobs, jobs_per_s, p50_ms, p99_ms, cpu_s / jobs * 1e6, lag_ms)


def ratio_to_floor(jobs_per_s: float, echoes_per_s: float) -> float:
    """How much of what a bare echo server reaches is left when the round trips carry jobs."""
    return ROUND_TRIPS_PER_JOB * jobs_per_s / echoes_per_s


def _generate(server: Server, protocol: str, load: Load, jobs: int) -> tuple[float, float, float]:
    """Run the generator once: jobs/s, and the p50 and p99 of a submission in milliseconds."""
    depth = 1
    counts = (server.port, jobs, load.producers, load.consumers, depth, load.payload)
    try:
        result = subprocess.run(
            [load.generator, protocol, *map(str, counts)],
            capture_output=True,
            text=True,
            timeout=LOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServerFailed(f"{jobs} jobs through {server.name} took too long") from None
    report = REPORT.search(result.stdout)
    if result.returncode != 0 or report is None:
        raise ServerFailed(f"the load on {server.name} broke off: {result.stderr.strip()}")
    jobs_per_s, p50_ms, p99_ms = map(float, report.groups())
    return jobs_per_s, p50_ms, p99_ms
