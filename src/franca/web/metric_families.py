"""Every metric: its name, its type, what it says, and its samples."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from franca.control.measured import Measured, Spread
from franca.core.history import OTHER, Past, Tallies
from franca.core.model import Millis
from franca.web.metric_queues import STATES, QueueLine
from franca.web.metric_tallies import cumulated

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
INFO: Final = "info"
HISTORY_STATES: Final = ("done", "cancelled")

Sample = tuple[str, dict[str, str], float]
"""What is added to the family's name, the labels, the value."""


class Family(Struct):
    """One metric, without the ending that is its type's."""

    name: str
    kind: str
    text: str
    samples: Iterable[Sample]


class Look(Struct, kw_only=True):
    """Everything that was found out for one scrape."""

    queues: dict[str, QueueLine]
    waits: Tallies
    types: Tallies
    past: Past
    measured: Measured
    workers: Mapping[tuple[str, str], int]
    connections: Mapping[str, int]
    crossings: Mapping[tuple[str, str], int]
    scheduler_lag_ms: Millis
    refusing_new: bool
    unhandled: int


def families(look: Look) -> Iterator[Family]:
    """All of them. The samples of each are made when they are asked for."""
    measured = look.measured
    build = {
        "version": measured.version,
        "python": platform.python_version(),
        "store": measured.store,
    }
    yield Family("franca_build", INFO, "Which server this is.", [("_info", build, 1)])
    yield from _of_jobs(look)
    yield from _of_queues(look.queues)
    yield from _of_tallies(look)
    yield Family(
        "franca_workers",
        GAUGE,
        "Workers, by what they do.",
        [("", {"protocol": p, "state": s}, n) for (p, s), n in look.workers.items()],
    )
    yield Family(
        "franca_connections",
        GAUGE,
        "Peers that are connected.",
        [("", {"protocol": name}, count) for name, count in look.connections.items()],
    )
    yield from _of_server(look)
    yield from _of_process(measured)


# -- jobs and queues ------------------------------------------------------------------------------


def _of_jobs(look: Look) -> Iterator[Family]:
    jobs = dict.fromkeys(STATES, 0)
    for line in look.queues.values():
        for state, count in zip(STATES, line.jobs, strict=True):
            jobs[state] += count
    jobs |= {"done": look.past.done, "cancelled": look.past.cancelled}
    yield Family(
        "franca_jobs",
        GAUGE,
        "Jobs by state; done and cancelled ones as far as they are remembered.",
        [("", {"state": state}, count) for state, count in jobs.items()],
    )
    yield Family(
        "franca_jobs_crossed",
        COUNTER,
        "Jobs done, by the protocol they came over and that of the worker.",
        [("_total", {"via": v, "by": b}, n) for (v, b), n in look.crossings.items()],
    )
    yield Family(
        "franca_history_bytes",
        GAUGE,
        "What is remembered of ended jobs.",
        [("", {}, look.past.bytes)],
    )


def _of_queues(queues: Mapping[str, QueueLine]) -> Iterator[Family]:
    lines = [({"queue": name}, line) for name, line in queues.items()]

    def each(name: str, kind: str, text: str, pick: Callable[[QueueLine], float]) -> Family:
        ending = "_total" if kind == COUNTER else ""
        return Family(name, kind, text, ((ending, labels, pick(line)) for labels, line in lines))

    came, done = "Jobs that came into a queue.", "Jobs that were done."
    yield each("franca_jobs_pushed", COUNTER, came, lambda line: line.pushed)
    yield each("franca_jobs_completed", COUNTER, done, lambda line: line.done)
    yield each("franca_jobs_failed", COUNTER, "Runs that failed.", lambda line: line.failed)
    yield each("franca_jobs_dead", COUNTER, "Jobs that were given up.", lambda line: line.died)
    yield Family(
        "franca_queue_jobs",
        GAUGE,
        "Jobs in a queue by state.",
        (
            ("", labels | {"state": state}, count)
            for labels, line in lines
            for state, count in zip(STATES, line.jobs, strict=True)
        ),
    )
    age = "For how long the next job of a queue has been ready; 0 if none is."
    seconds = "franca_queue_oldest_job_age_seconds"
    yield each(seconds, GAUGE, age, lambda line: line.oldest_ms / 1_000)
    yield each("franca_queue_paused", GAUGE, "1 if it is paused.", lambda line: line.paused)
    yield Family(
        "franca_queue_workers",
        GAUGE,
        "Workers that take jobs of a queue.",
        (("", labels, line.workers) for labels, line in lines if labels["queue"] != OTHER),
    )


def _of_tallies(look: Look) -> Iterator[Family]:
    types = [({"type": name}, tally) for name, tally in look.types.items()]
    yield Family(
        "franca_type_jobs_completed",
        COUNTER,
        "Jobs of a type that were done, in whole minutes.",
        (("_total", labels, tally.done) for labels, tally in types),
    )
    yield Family(
        "franca_type_jobs_failed",
        COUNTER,
        "Runs of jobs of a type that failed, in whole minutes.",
        (("_total", labels, tally.failed) for labels, tally in types),
    )
    yield Family(
        "franca_type_jobs_dead",
        COUNTER,
        "Jobs of a type that were given up, in whole minutes.",
        (("_total", labels, tally.dead) for labels, tally in types),
    )
    for prefix, label, tallies in (
        ("franca_job", "queue", look.waits),
        ("franca_type_job", "type", look.types),
    ):
        yield Family(
            f"{prefix}_wait_seconds",
            HISTOGRAM,
            f"How long jobs that are done were ready before they ran, by {label}.",
            _spans({name: tally.waits for name, tally in tallies.items()}, label),
        )
        yield Family(
            f"{prefix}_duration_seconds",
            HISTOGRAM,
            f"How long the last run of jobs that are done took, by {label}.",
            _spans({name: tally.runs for name, tally in tallies.items()}, label),
        )


def _spans(by_name: Mapping[str, dict[int, int]], label: str) -> Iterator[Sample]:
    for name, buckets in by_name.items():
        if buckets:
            for bound, count in cumulated(buckets):
                yield "_bucket", {label: name, "le": bound}, count


# -- the server -----------------------------------------------------------------------------------


def _of_server(look: Look) -> Iterator[Family]:
    measured = look.measured
    yield from _of_store(measured)
    full = "1 if new jobs are refused: the disk is full."
    yield _single("franca_refusing_new_jobs", GAUGE, full, int(look.refusing_new))
    overdue = "For how long the next job or schedule has been overdue."
    yield _single("franca_scheduler_lag_seconds", GAUGE, overdue, look.scheduler_lag_ms / 1_000)
    lag = "99th percentile of the event loop's lag in the last minute."
    yield _single("franca_event_loop_lag_seconds", GAUGE, lag, measured.loop_lag_s)
    refused = "Peers that were refused something, or cut off."
    yield _single("franca_peers_refused", COUNTER, refused, measured.peers_refused)
    errors = "Errors of the server that ended a connection."
    yield _single("franca_unhandled_errors", COUNTER, errors, look.unhandled)


def _of_store(measured: Measured) -> Iterator[Family]:
    commits, groups = measured.commits, measured.groups
    durable = "Groups of changes made durable."
    yield _single("franca_store_commits", COUNTER, durable, sum(commits.counts))
    took, changed = "How long a commit took.", "Jobs that had changed in a commit."
    yield Family("franca_store_commit_duration_seconds", HISTOGRAM, took, _spread(commits))
    yield Family("franca_store_batch_jobs", HISTOGRAM, changed, _spread(groups))
    for name, text, value in (
        ("franca_store_bytes", "The store's files.", measured.store_bytes),
        ("franca_disk_size_bytes", "The disk of the data directory.", measured.disk_bytes),
        ("franca_disk_free_bytes", "Room on it for the server.", measured.disk_free_bytes),
    ):
        if value is not None:
            yield _single(name, GAUGE, text, value)


def _of_process(measured: Measured) -> Iterator[Family]:
    yield _single(
        "franca_process_resident_memory_bytes",
        GAUGE,
        "Memory of the process.",
        measured.resident_bytes,
    )
    yield _single(
        "franca_process_cpu_seconds",
        COUNTER,
        "Processor time, the system's for it included.",
        measured.cpu_s,
    )
    yield _single(
        "franca_process_start_time_seconds",
        GAUGE,
        "When the server started, since 1970.",
        measured.started_at_s,
    )


def _single(name: str, kind: str, text: str, value: float) -> Family:
    return Family(name, kind, text, [("_total" if kind == COUNTER else "", {}, value)])


def _spread(spread: Spread) -> Iterator[Sample]:
    count = 0
    for bound, more in zip(spread.bounds, spread.counts, strict=False):
        count += more
        yield "_bucket", {"le": str(float(bound))}, count
    count += spread.counts[-1]
    yield "_bucket", {"le": "+Inf"}, count
    yield "_count", {}, count
    yield "_sum", {}, spread.sum
