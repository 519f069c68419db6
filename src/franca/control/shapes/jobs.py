"""Jobs, and what was done to them."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType


class Counts(Struct):
    """How many jobs are in each state; done and cancelled ones as far as they are remembered."""

    scheduled: int = 0
    retrying: int = 0
    ready: int = 0
    running: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0


class Progress(Struct):
    """How far a run has come, as its worker says."""

    n: int | float | None = None
    of: int | float | None = None
    text: str = ""
    at: str | None = None


class JobRow(Struct, kw_only=True):
    """One line of a list of jobs. `args` is how its arguments begin; None if that is not known."""

    id: int
    name: str
    queue: str
    type: str
    state: str
    via: str
    by: str
    attempts: int
    failures: int
    losses: int
    retries: int | None
    created_at: str | None
    run_at: str | None
    ready_at: str | None
    started_at: str | None
    ended_at: str | None
    ran_ms: int | None
    worker: str | None
    progress: Progress | None
    error: str | None
    args: str | None


class Body(Struct, kw_only=True):
    """A body or a result: text if it is UTF-8, else base64; `bytes` is its whole size.

    One that is `cut` has only its beginning here.
    """

    media: str
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    bytes: int
    cut: bool


class Attempt(Struct, kw_only=True):
    """One run of a job."""

    number: int
    worker: str
    by: str
    started_at: str | None
    ended_at: str | None
    outcome: str
    error: str
    text: str
    trace: list[str]


class JobPolicy(Struct, kw_only=True):
    """What the submitter chose: how often it is tried, for how long it is leased."""

    max_failures: int
    max_losses: int
    lease_ms: int
    backoff: str
    bury: bool
    keep_dead: bool


class Job(JobRow, kw_only=True):
    """Everything that is known of a job. Of an ended one less is remembered.

    `body` is what was submitted; `envelope` what the server keeps, if its protocol puts more around
    the arguments.
    """

    key: str
    priority: int
    durable: bool
    lease_until: str | None
    failed_at: str | None
    body: Body | None
    envelope: Body | None
    result: Body | None
    attempt_log: list[Attempt]
    policy: JobPolicy | None
    error_class: str | None
    queue_paused: bool = False


class JobPage(Struct, kw_only=True):
    """Jobs in order. `scanned` of `of` were looked at; `next` and `prev` lead to other pages."""

    jobs: list[JobRow]
    total: int
    total_exact: bool
    scanned: int
    of: int
    next: str | None
    prev: str | None


class Submitted(Struct, omit_defaults=True):
    """A job that was taken in, or why it was not.

    It is `replayed` if its idempotency key came with it before; there is no `state` if it has left
    the history since.
    """

    id: int | None = None
    name: str | None = None
    state: str | None = None
    replayed: bool = False
    error: str | None = None


class SubmittedMany(Struct):
    """Of each job that was submitted, in the same order."""

    jobs: list[Submitted]


class Acted(Struct):
    """What became of an action; one on many jobs goes on as the operation of this id."""

    changed: int
    skipped: int
    operation: str | None = None


class Operation(Struct, kw_only=True):
    """An action on many jobs, as background work."""

    id: str
    action: str
    total: int
    done: int
    failed: int
    ended_at: str | None


class OperationList(Struct):
    """Actions on many jobs that are under way or ended lately, the newest first."""

    operations: list[Operation]
