"""The nouns of the core: what a job is, who may hold it, who waits for it.

Values only; the broker alone changes them. What is made per job is a msgspec Struct, because
it is created in a quarter of the time of a slotted dataclass; policies are shared by all jobs
like it. Every moment is whole milliseconds since 1970, every span is named `_ms`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from franca.core.events import Event

Millis = int
JobId = int
SessionId = int

NEVER: Final[Millis] = 0
"""A moment that has not come, or never will: no lease end, not started, no deadline."""
PAST: Final[Millis] = 1
"""A moment that is over: a demand until then is answered at once."""


class State(IntEnum):
    """Where a job is in its life. DONE, DEAD and CANCELLED are ends; DEAD can be retried."""

    WAITING = 0
    READY = 1
    LEASED = 2
    DONE = 3
    DEAD = 4
    CANCELLED = 5


class Shelf(IntEnum):
    """Where the store keeps a job's row: among those held in memory, or in the backlog."""

    NOWHERE = 0
    HELD = 1
    BACKLOG = 2


class OnConflict(IntEnum):
    """What a submit does when a live job of its queue already has its key.

    REPLACE takes that job's place: at once while it waits, else as soon as its run is over.
    """

    JOIN = 0
    REPLACE = 1
    REFUSE = 2


class OnHangUp(IntEnum):
    """What becomes of a session's leases when the session closes."""

    KEEP = 0
    RETURN = 1
    FAIL = 2


class Choice(IntEnum):
    """How a demand over several queues picks its next job.

    Of the most urgent ones, PRIORITY takes one queue after the other, OLDEST the oldest job.
    """

    LISTED = 0
    PRIORITY = 1
    OLDEST = 2


class Backoff(IntEnum):
    """How the delay before the next try grows with the number of failures."""

    FIXED = 0
    POWER = 1
    DOUBLING = 2


class Outcome(StrEnum):
    """How a run ended that did not end its job. The values are stored, and shown to operators."""

    FAILED = "failed"
    RELEASED = "released"
    LOCKED_OUT = "locked out"
    TAKEN_AWAY = "taken away"
    EXPIRED = "expired"
    LOST = "lost"


class Policy(Struct, frozen=True, gc=False, array_like=True):
    """What the submitter chose for a job, shared by all jobs that chose the same.

    `max_failures` and `max_losses` are how many reported failures and unclean ends are made good by
    another run. -1 failures are without limit; with -1 losses the submitter's protocol says
    nothing of them, and the server's own limit holds, unless the job is `never_given_up`.
    `bury` keeps a job that is given up in the dead set. With `expiry_is_failure` only a vanished
    worker is a loss: a lease that ran out is a failure. The end of a job that `tells_end` is told
    to whoever listens for its origin. A job that `keeps_place` has the place among others of its
    priority that it was submitted with, whenever it becomes ready again. With `keep_dead` it stays
    in the dead set until somebody takes it out.
    """

    max_failures: int = 0
    max_losses: int = -1
    loss_is_failure: bool = False
    bury: bool = True
    backoff: Backoff = Backoff.FIXED
    delay_ms: int = 0
    lease_ms: int = 0
    durable: bool = True
    dies_unwatched: bool = False
    no_retry_if_watched: bool = False
    expiry_is_failure: bool = False
    never_given_up: bool = False
    tells_end: bool = False
    keeps_place: bool = False
    keep_dead: bool = False


class NewJob(Struct, gc=False):
    """A job as its submitter describes it. `body` is the submitter's bytes, never changed.

    `extra` is the submitter's protocol's own and opaque. With `once`, a submit with the name,
    queue, kind, time and `digest` of a job that nobody has run yet is that job, said again.
    `failures` are those that it had elsewhere: the policy counts them too.
    """

    queue: str
    kind: str
    body: bytes
    policy: Policy
    name: str = ""
    media: str = "bytes"
    origin: str = ""
    key: str = ""
    on_conflict: OnConflict = OnConflict.JOIN
    priority: int = 0
    run_at: Millis = NEVER
    start_by: Millis = NEVER
    created_at: Millis = NEVER
    extra: bytes = b""
    digest: int = 0
    once: bool = False
    failures: int = 0


class Progress(Struct, frozen=True, gc=False, array_like=True):
    """How far a run is, as its worker says: `n` of `of`, in words, and when it said so.

    `said` is the same in the worker's own bytes, where its protocol tells them as they were sent.
    """

    n: int | float | None = None
    of: int | float | None = None
    text: str = ""
    at: Millis = NEVER
    said: bytes = b""


class Attempt(Struct, gc=False, array_like=True):
    """One run of a job that did not end it: who ran it, when, and why it ended; `by` as a job's."""

    holder: str
    started_at: Millis
    ended_at: Millis
    outcome: Outcome
    error_kind: str = ""
    error_text: str = ""
    trace: list[str] = []
    by: int = 0


HISTORY_BODY_BYTES = 4_096
HISTORY_RESULT_BYTES = 65_536
"""What the history of ended jobs keeps of a body and of a result."""


KEPT_MS: Final[Millis] = 1 << 52
"""What is added to the time of death of a job that is kept for good: those that may go come first
in the order of time, and are counted apart from these."""
FIXED_FIELDS: Final = ("id", "queue", "kind", "name", "key", "media", "origin", "created_at")
"""Fields of a job that are as they were submitted; of all others the store writes every change."""


class Job(Struct, gc=False, eq=False, array_like=True):
    """A piece of work and everything the server knows of it.

    `id` is the server's own and never used twice; `name` is what its protocol calls it and may
    repeat. `place` orders jobs of one queue and priority; it is kept when a job is returned and
    renewed when it is queued again. `run_at` is when a WAITING job becomes ready and when a
    DEAD one died, `KEPT_MS` later if it is kept for good; `until` is when a lease ends, and a
    `bound` lease ends with its session too. `timed` leases are on the clock.
    `shelf` says where the store has its row. The body of a job that is `away` is in the store
    only; it is read again before the job is given to anybody.
    `by` is the number of the protocol whose worker ran it last, 0 if nobody did.
    `weight` is what the job counts for where memory is bounded by bytes; set anew (`weights.py`)
    when the body, `extra` or the attempt log has changed. `FIXED_FIELDS` never change.
    """

    id: JobId
    queue: str
    kind: str
    name: str
    key: str
    body: bytes
    media: str
    origin: str
    policy: Policy
    priority: int
    created_at: Millis
    extra: bytes = b""
    state: State = State.READY
    place: int = 0
    run_at: Millis = NEVER
    ready_at: Millis = NEVER
    start_by: Millis = NEVER
    started_at: Millis = NEVER
    until: Millis = NEVER
    holder: str = ""
    bound: bool = False
    timed: bool = False
    attempts: int = 0
    failures: int = 0
    losses: int = 0
    failed_at: Millis = NEVER
    attempt_log: list[Attempt] | None = None
    ended_at: Millis = NEVER
    result: bytes = b""
    reported: Progress | bytes | None = None
    shelf: Shelf = Shelf.NOWHERE
    digest: int = 0
    away: bool = False
    weight: int = 0
    expiries: int = 0
    by: int = 0

    @property
    def progress(self) -> Progress | None:
        """How far its run is. (In rows of earlier versions are bytes, of runs that are over.)"""
        return self.reported if isinstance(self.reported, Progress) else None


class Failure(Struct, gc=False):
    """What a worker said when it reported a failure.

    `data` is the same in the worker's own bytes, for those who watch the job; it is not kept.
    One that is `final` ends the job whatever its policy says: another run would fare no better.
    """

    kind: str = ""
    text: str = ""
    trace: list[str] = []
    data: bytes = b""
    final: bool = False


class EventSink(Protocol):
    """Whoever is told what happens to the sessions that it opened."""

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """Something happened to a session of this sink."""


class Session(Struct, eq=False):
    """One party as the broker sees it. `holder` names it in leases and is unique over restarts.

    One whose leases outlive the session, and that no peer has named, is called `PROTOCOL link ID`:
    commands that settle jobs by their names leave the leases of other protocols alone.
    Sessions whose leases end with them (`on_hang_up` other than KEEP) list them in `leases`.
    `awaits` lists the jobs whose beginning it wants to hear of.
    `woken` names the queue that has work for it, from being told so until it asks again.
    `by` is the number of its protocol; whoever opens it knows what it stands for.
    `owner` is told what happens to the session; the broker never looks into it. The two know each
    other, so that only the garbage collector, which must see this type, can let them go.
    """

    id: SessionId
    holder: str
    on_hang_up: OnHangUp
    owner: EventSink | None = None
    serves: dict[str, None] = {}
    leases: dict[JobId, Job] = {}
    demands: dict[Demand, None] = {}
    watches: dict[JobId, None] = {}
    awaits: dict[JobId, None] = {}
    rotation: int = 0
    woken: str = ""
    open: bool = True
    by: int = 0


class Demand(Struct, gc=False, eq=False):
    """Session S would take one job from these queues, until this moment (`NEVER`: no end).

    `PAST` asks for an answer now. `only_wake` asks to be told that there is work,
    not to be given it. `lease_ms` overrides the job's own lease where a worker may say so.
    `ranks` are the queues whose jobs go to this session before those of lower rank, or after
    those of higher; most have none, which is rank 0.
    With `wake_always` it is told of work whoever else was.
    """

    session: Session
    queues: tuple[str, ...]
    until: Millis = NEVER
    choice: Choice = Choice.LISTED
    only_wake: bool = False
    lease_ms: dict[str, int] | None = None
    tag: bytes = b""
    bucket: int = -1
    ranks: dict[str, int] | None = None
    wake_always: bool = False


class LastRun(Struct, gc=False, array_like=True):
    """The job that a rule made last, and when; the others are set whenever that job has ended."""

    job_id: JobId
    fired_at: Millis
    state: State = State.READY
    started_at: Millis = NEVER
    ended_at: Millis = NEVER


class Schedule(Struct, gc=False):
    """A rule that makes jobs: every `every_ms`, or by `cron` in `timezone`; -1 runs: for ever.

    One that is `paused` fires only when it is told to. `source` is who made it: a protocol, or the
    part of the server that operators use.
    """

    id: str
    job: NewJob
    every_ms: int = 0
    cron: str = ""
    timezone: str = "UTC"
    runs_left: int = -1
    next_at: Millis = NEVER
    paused: bool = False
    last: LastRun | None = None
    source: str = ""


class BacklogCount(Struct, gc=False):
    """How many jobs of a queue are where in the backlog; WAITING is split by whether one failed.

    `first` is the (priority, place) of the first ready one, `levels` are the ready ones by their
    priority, `kept_dead` the dead ones that are kept for good.
    """

    queue: str
    scheduled: int = 0
    retrying: int = 0
    ready: int = 0
    leased: int = 0
    dead: int = 0

    first: tuple[int, int] | None = None
    levels: dict[int, int] = {}
    kept_dead: int = 0


class JobQuery(Struct, frozen=True):
    """Which jobs to find: all given conditions hold. `after` pages by id, ascending.

    `by_time` goes by `run_at` instead, earliest first, and does not page; only jobs that wait
    for their time and dead ones can be asked for so. Without `with_bodies` a job may come without
    its body, to be looked at and not to be changed.
    """

    states: tuple[State, ...] = ()
    queue: str = ""
    kind: str = ""
    names: tuple[str, ...] = ()
    ids: tuple[JobId, ...] = ()
    after: JobId = 0
    limit: int = 100
    newest_first: bool = False
    by_time: bool = False
    with_bodies: bool = True
