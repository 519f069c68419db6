"""Error classes: what stops jobs, how often in each of the last 24 hours, and which jobs it holds.

Failures are noted as they happen, behind the turns in which they do (`note`). Which jobs are dead
or retrying now is found by looking at them (`fold`), as many as `LOOKED_AT_MAX`, again when there
may be others.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from franca.control import shapes
from franca.control.fill import by_of, row_of
from franca.control.grouping import TROUBLES, class_id, common_text, last_trouble
from franca.control.views import moment
from franca.core.model import Attempt, Job, Millis, State

CLASSES_MAX = 500
"""Error classes that are remembered; the one seen longest ago goes first."""
LOOKED_AT_MAX = 20_000
"""Dead and retrying jobs that are looked at, half of them of each kind."""
NAMES_MAX = 20
SAMPLES = 3
"""Of a class: types, queues and jobs that are told."""
HOURS = 24
HOUR_MS = 3_600_000
DAY_MS = HOURS * HOUR_MS
NEW_MS = HOUR_MS
"""For so long an error is new that was not seen in the day before."""


class Seen(Struct):
    """When failures of a class came: in each of the last hours, the newest last."""

    first_at: Millis
    last_at: Millis
    new_at: Millis
    hour: int
    hours: list[int] = field(default_factory=lambda: [0] * HOURS)

    def note(self, at: Millis) -> None:
        """One more."""
        if at - self.last_at > DAY_MS:
            self.new_at = at
        self.last_at = max(self.last_at, at)
        self.turn_to(at)
        back = self.hour - at // HOUR_MS
        if 0 <= back < HOURS:
            self.hours[HOURS - 1 - back] += 1

    def turn_to(self, now: Millis) -> None:
        """Let old hours go."""
        passed = now // HOUR_MS - self.hour
        if passed > 0:
            self.hours = [*self.hours, *[0] * min(passed, HOURS)][-HOURS:]
            self.hour += passed


class Group(Struct):
    """The jobs of a class that are dead or retrying."""

    error: str
    text: str
    where: str = ""
    retrying: int = 0
    dead: int = 0
    first_at: Millis = 0
    last_at: Millis = 0
    types: dict[str, None] = {}
    queues: dict[str, None] = {}
    by: dict[str, None] = {}
    failed_at: list[Millis] = []
    samples: list[Job] = []


class ErrorClasses:
    """All error classes. Failures before `since` are known of jobs alone that are still there."""

    def __init__(self, since: Millis = 0) -> None:
        self.since = since
        self.seen: dict[str, Seen] = {}
        self.groups: dict[str, Group] = {}
        self.looked_at = 0

    def note(self, attempt: Attempt) -> None:
        """A run is over that did not end its job: it counts if it failed or was lost."""
        if attempt.outcome not in TROUBLES:
            return
        name = class_id(attempt.error_kind, attempt.error_text)
        at = attempt.ended_at
        seen = self.seen.pop(name, None)
        if seen is None:
            seen = Seen(first_at=at, last_at=at, new_at=at, hour=at // HOUR_MS)
            if len(self.seen) >= CLASSES_MAX:
                del self.seen[next(iter(self.seen))]
        self.seen[name] = seen  # the one seen last is last
        seen.note(at)

    def take(self, groups: dict[str, Group], looked_at: int) -> None:
        """What was found by looking at all jobs that are dead or retrying."""
        self.groups = groups
        self.looked_at = looked_at
        for name, group in groups.items():
            seen = self.seen.get(name)
            if seen is not None and 0 < group.first_at < seen.first_at:
                seen.first_at = seen.new_at = group.first_at

    def new_at(self, name: str) -> Millis:
        """Since when there is such an error that was not there in the day before."""
        seen = self.seen.get(name)
        return self.groups[name].first_at if seen is None else seen.new_at

    def told(self, now: Millis, of: int) -> shapes.ErrorList:
        """All classes that have jobs, the largest first."""
        named = sorted(self.groups.items(), key=lambda one: -(one[1].dead + one[1].retrying))
        classes = [self._shape(name, group, now) for name, group in named[:CLASSES_MAX]]
        return shapes.ErrorList(classes, self.looked_at, max(of, self.looked_at))

    def _shape(self, name: str, group: Group, now: Millis) -> shapes.ErrorClass:
        seen = self.seen.get(name)
        return shapes.ErrorClass(
            id=name,
            error=group.error,
            text=group.text,
            where=group.where,
            retrying=group.retrying,
            dead=group.dead,
            types=list(group.types),
            queues=list(group.queues),
            by=list(group.by),
            first_at=moment(group.first_at if seen is None else seen.first_at),
            last_at=moment(group.last_at if seen is None else max(seen.last_at, group.last_at)),
            hours=self._hours(seen, group, now),
            samples=[row_of(job) for job in group.samples],
        )

    def _hours(self, seen: Seen | None, group: Group, now: Millis) -> list[int]:
        """Failures since the start, and before it those of jobs that are still there."""
        hours = [0] * HOURS
        if seen is not None:
            seen.turn_to(now)
            hours = list(seen.hours)
        for at in group.failed_at:
            back = now // HOUR_MS - at // HOUR_MS
            if at < self.since and 0 <= back < HOURS:
                hours[HOURS - 1 - back] += 1
        return hours


def fold(jobs: Iterable[Job], groups: dict[str, Group]) -> int:
    """Put dead and retrying jobs into their classes; how many were looked at."""
    looked_at = 0
    for job in jobs:
        looked_at += 1
        trouble = last_trouble(job)
        if trouble is None:
            continue
        name = class_id(trouble.error_kind, trouble.error_text)
        group = groups.get(name)
        if group is None:
            group = groups[name] = Group(
                error=trouble.error_kind, text=common_text(trouble.error_text)
            )
        _put(group, job, trouble)
    return looked_at


def _put(group: Group, job: Job, trouble: Attempt) -> None:
    if job.state is State.DEAD:
        group.dead += 1
    else:
        group.retrying += 1
    for names, name in ((group.types, job.kind), (group.queues, job.queue)):
        if len(names) < NAMES_MAX:
            names[name] = None
    if by := by_of(trouble) or by_of(job):
        group.by[by] = None
    if not group.where and trouble.trace:
        group.where = trouble.trace[0]
    if len(group.samples) < SAMPLES:
        group.samples.append(job)
    name = class_id(trouble.error_kind, trouble.error_text)
    for attempt in job.attempt_log or ():
        is_same = attempt is trouble or (
            (attempt.error_kind or attempt.error_text)
            and class_id(attempt.error_kind, attempt.error_text) == name
        )
        if is_same:
            at = attempt.ended_at
            group.failed_at.append(at)
            group.first_at = min(group.first_at or at, at)
            group.last_at = max(group.last_at, at)
