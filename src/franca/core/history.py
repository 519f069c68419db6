"""What may be asked of all the jobs that a store knows, and what it answers.

Searches over live and ended jobs, how much of the past is kept, and rates: how many jobs of a queue
or a kind ended in each minute, how long they waited, and how long they ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from franca.core.errors import Refused
from franca.core.model import KEPT_MS, NEVER, Job, JobId, Millis, State

LOOK_MAX: Final = 20_000
"""Rows that a search looks at, as a rule, before it says how far it has come."""
SHOWN_BYTES: Final = 512
MINUTE_MS: Final[Millis] = 60_000
HOUR_MS: Final[Millis] = 3_600_000
RATE_NAMES: Final = 1_000
OTHER: Final = "*other*"
"""Under this name is the sum of queues, or kinds, beyond `RATE_NAMES`."""
BUCKETS_MAX: Final = 72
"""What took longer than two years has no bucket: its beginning is not known."""


class BadCursor(Refused):
    """A search is to go on from a place that no answer has named."""

    code = "bad-cursor"


class Search(Struct, frozen=True):
    """Which jobs to find, live or ended: all given conditions hold.

    Entries of `queues` and `kinds` that end in `*` stand for all names that begin so. `retried`
    tells waiting jobs apart: those that failed or were lost before, or those that never were.
    `since` and `until` are about the moment at which a job ended or died; others have none.
    `fits` is asked last, of what all other conditions hold for; it must be pure.

    Done and cancelled jobs come by when they ended, the newest first; waiting ones by when they
    run; all others, and mixtures, by id, the newest first. `cursor` is that of the page before.
    About `look_max` rows are looked at. Bodies are cut to `body_bytes`; -1 leaves them whole, and
    one that lies apart is then there for `fits` too. A large one is only read if they are not cut.
    """

    states: tuple[State, ...] = ()
    queues: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    ids: tuple[JobId, ...] = ()
    retried: bool | None = None
    since: Millis = NEVER
    until: Millis = NEVER
    fits: Callable[[Job], bool] | None = None
    cursor: str = ""
    limit: int = 100
    look_max: int = LOOK_MAX
    body_bytes: int = SHOWN_BYTES


class Found(Struct):
    """A page of jobs, and where the next one begins: "" if this is the last.

    A page may have few jobs, or none, and be followed by others: `looked_at` rows were looked at
    for it, of so many that there are (`of`, at most). `total` is how many jobs fit in all, if that
    is known without looking at them.
    """

    jobs: list[Job]
    cursor: str = ""
    looked_at: int = 0
    of: int = 0
    total: int | None = None


class Past(Struct, frozen=True):
    """What is kept of ended jobs. Those `unindexed` are found as well, only more slowly.

    `behind_ms` is for how long the oldest of these has waited for it.
    """

    done: int = 0
    cancelled: int = 0
    bytes: int = 0
    oldest_at: Millis = NEVER
    unindexed: int = 0
    behind_ms: Millis = 0


class Tally(Struct, array_like=True, gc=False):
    """What happened to the jobs of a queue or a kind in some time.

    `waits` and `runs` count done jobs by how long they waited and ran (`bucket_of`). `pushed` and
    `depth` are what whoever runs the store has noted, if it has: -1 is unknown.
    """

    done: int = 0
    cancelled: int = 0
    failed: int = 0
    dead: int = 0
    pushed: int = 0
    depth: int = -1
    waits: dict[int, int] = {}
    runs: dict[int, int] = {}

    def add(self, other: Tally) -> None:
        """Count what another one has counted, later than this."""
        self.done += other.done
        self.cancelled += other.cancelled
        self.failed += other.failed
        self.dead += other.dead
        self.pushed += other.pushed
        if other.depth >= 0:
            self.depth = other.depth
        for mine, theirs in ((self.waits, other.waits), (self.runs, other.runs)):
            for bucket, count in theirs.items():
                mine[bucket] = mine.get(bucket, 0) + count


Tallies = dict[str, Tally]
"""By the names of queues or kinds, with `OTHER` among them."""


class Rates(Struct):
    """What happened in each step of some time; None is a gap, of which nothing is known."""

    step_ms: Millis
    at: list[Millis]
    steps: list[Tallies | None]

    def names(self) -> list[str]:
        """All that anything is known of, `OTHER` at the end."""
        known = {name for step in self.steps if step is not None for name in step}
        return sorted(known, key=lambda name: (name == OTHER, name))

    def of(self, name: str) -> Iterator[Tally | None]:
        """Step by step what happened to one of them."""
        for step in self.steps:
            yield None if step is None else step.get(name) or Tally()

    def total(self, name: str) -> Tally:
        """What happened to one of them in all the time."""
        total = Tally()
        for step in self.steps:
            if step is not None and name in step:
                total.add(step[name])
        return total


class RatesQuery(Struct, frozen=True):
    """Rates of what, from when until when, and in which steps.

    `of` is "queue", "kind", or "all", which has one name, "". Without `names` all are meant. Steps
    are whole minutes; whole hours reach back further, and fives are read sooner.
    """

    since: Millis
    until: Millis
    step_ms: Millis = MINUTE_MS
    of: str = "all"
    names: tuple[str, ...] = ()


def end_of(job: Job) -> Millis:
    """When a job ended or died; NEVER if it lives."""
    if job.state is State.DEAD:
        return job.run_at % KEPT_MS  # what the store has of it
    return job.ended_at if job.state in (State.DONE, State.CANCELLED) else NEVER


def bucket_of(span_ms: Millis) -> int:
    """Half an octave: all spans whose squares have as many binary digits."""
    return (span_ms * span_ms).bit_length()


def percentile(buckets: dict[int, int], part: float) -> Millis | None:
    """The span that this part of all did not exceed, roughly; None if there are none."""
    left = part * sum(buckets.values())
    if not buckets:
        return None
    for bucket in sorted(buckets):
        if buckets[bucket] >= left:
            break
        left -= buckets[bucket]
    if bucket <= 1:
        return bucket
    low: float = 2.0 ** ((bucket - 1) / 2)
    high: float = 2.0 ** (bucket / 2)
    return int(low + (high - low) * left / buckets[bucket] + 0.5)
