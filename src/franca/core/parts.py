"""What the broker is made of, and which methods of its parts are its own verbs."""

from __future__ import annotations

from random import Random

from franca.core.backlog import Backlog
from franca.core.changes import Totals
from franca.core.dispatch import Dispatch
from franca.core.leases import Leases
from franca.core.lifecycle import Lifecycle
from franca.core.limits import Limits
from franca.core.purges import Purges
from franca.core.sessions import Sessions
from franca.core.shared import Shared

AMPLE_BYTES = 1 << 62


class Parts:
    """The parts, and those of their methods and records that others use.

    While it is `refusing_new`, new jobs that the store must have are refused; `room_bytes` is how
    much room the disk has for them. Whoever asks where an exception came from finds all `parts`.
    """

    def __init__(self, limits: Limits, rng: Random, totals: Totals | None = None) -> None:
        self.limits = limits
        self.totals = totals or Totals()
        self.refusing_new = False
        self.room_bytes = AMPLE_BYTES
        shared = Shared(limits, self.totals)
        self.events = shared.events
        self.index = shared.index
        self.changelog = shared.changelog
        self.queue_list = shared.queues
        self.runs_over = shared.runs_over
        self.watches = shared.watches
        self.locks = shared.locks
        self.volatile = shared.volatile
        self.schedules = shared.schedules
        self.backlog = Backlog(shared)
        self.leases = Leases(shared, self.backlog)
        self.dispatch = Dispatch(shared, self.backlog, self.leases)
        parts = shared, self.backlog, self.leases, self.dispatch
        self.lifecycle = Lifecycle(*parts, rng)
        self.sessions = Sessions(shared, self.leases, self.dispatch, self.lifecycle)
        self.purges = Purges(shared)
        self.parts: tuple[object, ...] = (self, *vars(shared).values(), *parts, self.lifecycle)
        self.parts += (self.backlog.wants, self.sessions, self.purges)
        self._bind_records()
        self._bind_verbs()

    def _bind_records(self) -> None:
        """What others read and look up, and what the store is asked for."""
        index, backlog, wants = self.index, self.backlog, self.backlog.wants
        self.jobs = index.jobs
        self.keys = index.keys
        self.keyed = index.keys.get
        self.sole = index.sole
        self.ids_named = index.ids_named
        self.first_named = index.first_named
        self.last_named = index.last_named
        self.held_as = index.held_as
        self.running_as = index.running_as
        self.returned_as = index.returned_as
        self.queues = self.queue_list.by_name
        self.queue = self.queue_list.listed
        self.list_queue = self.queue_list.list_all
        self.waiting = backlog.waiting
        self.wants = wants.all
        self.has_wants = wants.has_any
        self.take_wants = wants.take
        self.want_again = wants.put_back
        self.recall = wants.recall
        self.page_of = wants.page_of
        self.supplied_waiting = backlog.take_waiting
        self.is_behind = self.changelog.is_behind
        self.listeners = self.watches.listeners
        self.crossings = self.lifecycle.crossings

    def _bind_verbs(self) -> None:
        """Verbs that concern one part alone."""
        lifecycle, sessions = self.lifecycle, self.sessions
        self.wall = lifecycle.wall
        self.finish = lifecycle.finish
        self.finish_late = lifecycle.finish_late
        self.fail = lifecycle.fail
        self.release = lifecycle.release
        self.give_back = lifecycle.give_back
        self.lock = lifecycle.lock
        self.unlock = lifecycle.unlock
        self.extend = self.leases.extend
        self.demand = self.dispatch.demand
        self.peek = self.dispatch.peek
        self.withdraw = self.dispatch.withdraw
        self.wake_another = self.dispatch.wake_another
        self.pause = self.dispatch.pause
        self.resume = self.dispatch.resume
        self.open_session = sessions.open_session
        self.close_session = sessions.close_session
        self.sessions_of = sessions.sessions_of
        self.serve = sessions.serve
        self.unserve = sessions.unserve
        self.serve_nothing = sessions.serve_nothing
        self.serves = sessions.serves
        self.watch = sessions.watch
        self.unwatch = sessions.unwatch
        self.amend_schedule = self.schedules.amend
        self.drop_schedule = self.schedules.drop
        self.pause_schedule = self.schedules.pause
        self.watchers_of = self.watches.of
        self.await_begin = self.watches.await_begin

    @property
    def wall_ahead_ms(self) -> int:
        """How far the wall clock is ahead of `now`."""
        return self.lifecycle.wall_ahead_ms

    @wall_ahead_ms.setter
    def wall_ahead_ms(self, ahead_ms: int) -> None:
        """Follow the wall clock, which people may set."""
        self.lifecycle.wall_ahead_ms = ahead_ms

    @property
    def pending_bytes(self) -> int:
        """What new jobs, results and failures take that wait for the disk."""
        return self.changelog.pending_bytes

    @property
    def pending_jobs(self) -> int:
        """How many jobs have changed since the last drain."""
        return len(self.changelog.dirty)
