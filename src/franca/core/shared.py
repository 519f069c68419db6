"""What all parts of the broker work on."""

from __future__ import annotations

from collections import deque

from franca.core.changelog import Changelog
from franca.core.changes import Totals
from franca.core.events import Event
from franca.core.index import Index
from franca.core.limits import Limits
from franca.core.locks import Locks
from franca.core.model import Attempt, Session
from franca.core.queues import Queues
from franca.core.schedules import Schedules
from franca.core.volatile import VolatileJobs
from franca.core.watches import Watches

RUNS_OVER_MAX = 10_000
"""Runs that are remembered until somebody has looked at them; the oldest go first."""


class Shared:
    """The records of the broker, which decide nothing; each keeps to itself how it is kept.

    `events` is what sessions are still to be told, `runs_over` the last runs that did not end their
    jobs.
    """

    def __init__(self, limits: Limits, totals: Totals) -> None:
        self.limits = limits
        self.totals = totals
        self.runs_over: deque[Attempt] = deque(maxlen=RUNS_OVER_MAX)
        self.events: list[tuple[Session, Event]] = []
        self.index = Index(limits)
        self.changelog = Changelog(limits, totals, self.index.jobs)
        self.queues = Queues(limits, self.changelog, self.index.keys)
        self.schedules = Schedules(self.changelog.schedules)
        self.watches = Watches(limits, self.events)
        self.locks = Locks()
        self.volatile = VolatileJobs(limits)


class Part:
    """A part of the broker that works on the records of all, under these names."""

    def __init__(self, shared: Shared) -> None:
        self._limits = shared.limits
        self._totals = shared.totals
        self._events = shared.events
        self._runs_over = shared.runs_over
        self._index = shared.index
        self._jobs = shared.index.jobs
        self._changelog = shared.changelog
        self._dirty = shared.changelog.dirty
        self._queues = shared.queues
        self._by_name = shared.queues.by_name
        self._schedules = shared.schedules
        self._watches = shared.watches
        self._locks = shared.locks
        self._volatile = shared.volatile
