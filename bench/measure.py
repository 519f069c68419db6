"""One run of the load generator against one server, and the figures that come out of it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from bench.servers import Server, ServerFailed

WARM_UP_S = 0.5
LOAD_TIMEOUT_S = 180.0
FOREVER_S = 1e6


@dataclass(frozen=True, slots=True)
class Load:
    """What the load generator is asked for; `bench/load/loop.c` tells what each means."""

    generator: Path
    protocol: str
    producers: int
    consumers: int
    seconds: float
    jobs: int | None = None  # as many as fit in `seconds`, if None
    payload: int = 64
    slots: int = 1
    rate: float | None = None
    queue: str = "bench"
    is_silent: bool = False  # the server does not answer everything that is submitted
    warm_up: float = WARM_UP_S
    depth: int = 1
    patience: float = 20.0

    @property
    def size(self) -> str:
        """The numbers of producers and of jobs that consumers take at once."""
        return f"{self.producers}/{self.consumers * self.slots}"

    def command(self, server: Server) -> list[str]:
        """The generator's command line."""
        limit = f"jobs={self.jobs}" if self.jobs else f"seconds={self.seconds}"
        words = [self.generator, self.protocol, server.port, self.producers, self.consumers, limit]
        words += [f"warm-up={self.warm_up}", f"pid={server.process.pid}", f"payload={self.payload}"]
        words += [f"slots={self.slots}", f"queue={self.queue}", f"silent={int(self.is_silent)}"]
        words += [f"depth={self.depth}", f"patience={self.patience}"]
        if self.rate:
            words.append(f"rate={self.rate}")
        if server.worker_port:
            words.append(f"worker-port={server.worker_port}")
        return list(map(str, words))


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of the load generator showed."""

    size: str  # of the load
    jobs: int
    jobs_per_s: float
    submit_p50_ms: float
    submit_p99_ms: float
    cpu_us_per_job: float | None  # None where the server did something else besides
    loop_lag_p99_ms: float | None
    unanswered: int = 0
    submit_max_ms: float = 0.0
    ratio: float | None = None  # of its rate to that of what it is compared with
    cpu_ratio: float | None = None

    def beside(self, other: Self) -> Self:
        """The same run, with what comes of comparing it with the run of another server."""
        ours, theirs = self.cpu_us_per_job, other.cpu_us_per_job
        return replace(
            self,
            ratio=self.jobs_per_s / other.jobs_per_s,
            cpu_ratio=ours / theirs if ours and theirs else None,
        )


def measure(server: Server, load: Load) -> Run:
    """Drive `server` with `load`, after a short warm-up."""
    try:
        result = subprocess.run(
            load.command(server),
            capture_output=True,
            text=True,
            timeout=LOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServerFailed(f"the load on {server.name} took too long") from None
    if result.returncode != 0:
        raise ServerFailed(f"the load on {server.name} broke off: {result.stderr.strip()}")
    return _read_report(server, load, result.stdout)


@contextmanager
def beside(server: Server, load: Load) -> Iterator[list[Run]]:
    """Keep `load` on the server while the block measures something else.

    How that load itself fared stands in the list after the block.
    """
    process = subprocess.Popen(
        replace(load, seconds=FOREVER_S, jobs=None).command(server),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs: list[Run] = []
    try:
        yield runs
        process.terminate()
        report, complaint = process.communicate(timeout=LOAD_TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise ServerFailed(f"the load beside on {server.name} broke off: {complaint.strip()}")
    runs.append(replace(_read_report(server, load, report), cpu_us_per_job=None))


def _read_report(server: Server, load: Load, report: str) -> Run:
    figures = dict(word.split("=") for word in report.split())
    return Run(
        size=load.size,
        jobs=int(figures["jobs"]),
        jobs_per_s=float(figures["jobs_per_s"]),
        submit_p50_ms=float(figures["p50_ms"]),
        submit_p99_ms=float(figures["p99_ms"]),
        cpu_us_per_job=float(figures["cpu_us"]),
        loop_lag_p99_ms=server.loop_lag_p99_ms(),
        unanswered=int(figures["unanswered"]),
        submit_max_ms=float(figures["max_ms"]),
    )
