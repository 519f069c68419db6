"""Queues, types, workers and schedules."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field


class Recent(Struct):
    """Samples 15 s apart, the newest last."""

    into: list[float | None] = field(name="in")
    out: list[float | None]
    depth: list[int | None]


class QueueRow(Struct, kw_only=True):
    """A queue. `oldest_ms` is for how long its next job has been ready."""

    queue: str
    paused: bool
    paused_until: str | None
    ready: int
    running: int
    leased: int
    """The same as `running`, for scripts that know it by its older name."""
    scheduled: int
    retrying: int
    dead: int
    oldest_ms: int | None
    into: float | None = field(name="in")
    out: float | None
    failed: float | None
    wait_p95_ms: int | None
    ran_p95_ms: int | None
    workers: int
    recent: Recent | None


class QueueList(Struct):
    """Every queue, by name."""

    queues: list[QueueRow]


class TypeShare(Struct, kw_only=True):
    """A type among the jobs of a queue that ended in the range."""

    type: str
    share: float
    failed: float
    p50_ms: int | None
    p95_ms: int | None


class Series(Struct, kw_only=True):
    """Numbers over time; `t` is in seconds since 1970, None is a gap."""

    t: list[int]
    done: list[float | None] | UnsetType = UNSET
    failed: list[float | None] | UnsetType = UNSET
    pushed: list[float | None] | UnsetType = UNSET
    ready: list[int | None] | UnsetType = UNSET
    into: list[float | None] | UnsetType = field(name="in", default=UNSET)
    out: list[float | None] | UnsetType = UNSET
    wait_p95_ms: list[int | None] | UnsetType = UNSET
    commit_p99_ms: list[float | None] | UnsetType = UNSET
    loop_lag_ms: list[float | None] | UnsetType = UNSET


class Queue(QueueRow, kw_only=True):
    """A queue with what happened in it and who serves it."""

    types: list[TypeShare]
    series: Series
    serving: list[str]


class RecentRuns(Struct):
    """Runs that ended, in equal parts of the range."""

    done: list[int]
    failed: list[int]


class TypeRow(Struct, kw_only=True):
    """What is known of the jobs of one type that ended in the range."""

    type: str
    queues: list[str]
    done: int
    failed: int
    dead: int
    share: float
    wait_p95_ms: int | None
    ran_p50_ms: int | None
    ran_p95_ms: int | None
    ran_p99_ms: int | None
    recent: RecentRuns


class TypeList(Struct):
    """Every type that is known, those with most jobs first."""

    types: list[TypeRow]


class Running(Struct):
    """A job that a worker runs now."""

    id: int
    type: str
    queue: str
    started_at: str | None


class Worker(Struct, kw_only=True):
    """A worker of any protocol. `fetched_at` is when it last asked for a job."""

    name: str
    protocol: str
    host: str
    pid: int
    labels: list[str]
    state: str
    running: list[Running]
    queues: list[str]
    started_at: str | None
    seen_at: str | None
    fetched_at: str | None
    rss_kb: int
    connections: int


class WorkerList(Struct):
    """The workers that any protocol knows of; of very many some, and how many there are in all."""

    workers: list[Worker]
    total: int


class LastRun(Struct, kw_only=True):
    """The last job that a schedule made."""

    id: int
    state: str
    started_at: str | None
    ran_ms: int | None


class Schedule(Struct, kw_only=True):
    """A rule that makes jobs. `upcoming_at` are its next moments."""

    id: str
    queue: str
    type: str
    cron: str
    every_ms: int
    timezone: str
    args: str | None
    next_at: str | None
    upcoming_at: list[str]
    runs_left: int
    paused: bool
    source: str
    last: LastRun | None


class ScheduleList(Struct):
    """Every schedule, the next one to run first."""

    schedules: list[Schedule]
