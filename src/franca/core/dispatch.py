"""Dispatch: the one place where ready jobs and demands meet.

Nothing stays ready in memory while an open demand asks for its queue. A queue with a backlog gives
only what its window holds; the store is asked for more before the window runs dry.
"""

from __future__ import annotations

from franca.core.backlog import Backlog
from franca.core.events import Granted, Unmet, Woken
from franca.core.index import READY
from franca.core.leases import Leases
from franca.core.model import NEVER, Choice, Demand, Job, Millis, Session
from franca.core.queues import Queue
from franca.core.shared import Part, Shared
from franca.core.timers import Buckets

LISTED = Choice.LISTED
OLDEST = Choice.OLDEST
DEMAND_TICK_MS = 50
MATCHED_BYTES = 4 * 1024 * 1024
"""Bodies that are given to waiting demands at once: each must be written for its worker."""
NAMES_AT_ONCE = 20_000
"""Queues that are looked up in one tick for demands that end."""
ENDED_AT_ONCE = 1_000
"""Leases, watches, demands and pauses that end in one tick; the next one goes on."""


class Dispatch(Part):
    """Demands that wait, pauses, and the meeting of demands with ready jobs.

    `wakeups` are the sleepers that are told of each job. Queues in `_unmatched` have ready jobs and
    demands that could not meet because too much ran, or was given, at once.
    """

    def __init__(self, shared: Shared, backlog: Backlog, leases: Leases) -> None:
        super().__init__(shared)
        self.wakeups = 1
        self.demand_ends: Buckets[Demand] = Buckets(DEMAND_TICK_MS)
        self.pause_ends: Buckets[str] = Buckets(DEMAND_TICK_MS)
        self._new_demands: list[Demand] = []
        self._unmatched: dict[str, None] = {}
        self._windows = shared.queues.windows
        self._backlog = backlog
        self._large = backlog.large
        self._wants = backlog.wants
        self._leases = leases

    # -- ready jobs -----------------------------------------------------------------------

    def take_place(self, job: Job) -> None:
        """Give a job the last place of all."""
        totals = self._totals
        totals.last_place = job.place = totals.last_place + 1

    def enqueue(self, job: Job, queue: Queue, now: Millis) -> None:
        """Put a job behind all others of its queue and priority, unless it has a place to keep."""
        if not job.place or not job.policy.keeps_place:
            totals = self._totals  # as `take_place`, without a call: every job comes here
            totals.last_place = job.place = totals.last_place + 1
        job.ready_at = now
        self.offer(job, queue, now)

    def offer(self, job: Job, queue: Queue, now: Millis) -> None:
        """Make a job ready at its place, and give it to whoever waits for it."""
        if job.state is not READY:  # as new ones are: to set it takes longer than to look
            job.state = READY
        if self._large.jobs:
            self._large.drop(job)
        if job.away:
            self._backlog.put_away(job, queue)
        elif (
            queue.demands
            and not queue.paused
            and not (queue.size and queue.gives())
            and (queue.mark is None or not queue.belongs_to_backlog(job))
            and not self._leases.is_full()
        ):
            self._give(job, queue, now)
            return
        elif queue.mark is not None and queue.belongs_to_backlog(job) and job.policy.durable:
            self._backlog.put_ready(job, queue)
        else:
            self._index.hold(job)
            if job.policy.durable:  # as `Changelog.touch`, without a call: every job comes here
                self._dirty[job.id] = job
            queue.add(job)
            limits = self._limits
            if (
                queue.size > limits.window_jobs
                or self._windows.bytes_held > limits.window_bytes
                or len(self._jobs) > limits.held_jobs
            ):
                self._backlog.cut_window(queue)
            if queue.demands and self._leases.is_full():
                self._unmatched[queue.name] = None
        if (queue.sleepers or queue.always_woken) and not queue.paused:
            self.wake(queue)

    def _give(self, job: Job, queue: Queue, now: Millis) -> None:
        """Meet the first of the demands that wait for a queue."""
        demand = next(iter(queue.demands))
        self._close(demand)
        self._leases.grant(job, demand, queue, now)
        self._events.append((demand.session, Granted(job, demand)))

    # -- demands --------------------------------------------------------------------------

    def demand(self, demand: Demand, now: Millis) -> Granted | Unmet | Woken | None:
        """A job for the session now, or `None`: an event will come by the demand's end."""
        session = demand.session
        woken_by = self._asks(session) if session.woken else None
        queue = self._choose(demand)
        if queue is not None:
            if demand.only_wake:
                if not demand.wake_always:
                    self._tell(session, queue)
                if woken_by is not None:
                    self.wake(woken_by)
                return Woken(demand)
            leases = self._leases
            # As `is_full`, without a call: every job comes here.
            if leases.count >= leases.jobs_max or leases.bytes >= leases.bytes_max:
                self._unmatched[queue.name] = None
            elif queue.size:
                job = queue.pop()
                leases.grant(job, demand, queue, now)
                if woken_by is not None:
                    self.wake(woken_by)
                return Granted(job, demand)
        if woken_by is not None:
            self.wake(woken_by)
        if demand.until and demand.until <= now:
            return Unmet(demand)
        queues = self._queues
        if queues.bytes >= queues.bytes_max:
            queues.check_no_new(demand.queues)
        for name in demand.queues:
            (self._by_name.get(name) or queues.get_or_make(name)).add_demand(demand)
        session.demands[demand] = None
        if demand.until:
            self._new_demands.append(demand)
        return None

    def peek(self, queue_name: str) -> Job | None:
        """The next ready job of a queue, left there; None also until the store has brought it."""
        queue = self._by_name.get(queue_name)
        if queue is None or not queue.ready or queue.gives():
            return queue.first() if queue is not None else None
        queue.asked = True
        self._wants.supply_ready(queue)
        return None

    def withdraw(self, demand: Demand) -> None:
        """The session no longer wants what it asked for; nothing happens if it was answered."""
        if demand in demand.session.demands:
            self._close(demand)

    def _choose(self, demand: Demand) -> Queue | None:
        """The queue whose next job this demand would get; the store is asked if need be."""
        queues = self._by_name
        if demand.choice is LISTED:
            for name in demand.queues:
                queue = queues.get(name)
                if queue is not None and not queue.paused:
                    if queue.size and (not queue.backlog or queue.gives()):
                        return queue
                    if queue.backlog:
                        queue.asked = True
                        self._wants.supply_ready(queue)
                        if demand.only_wake:
                            return queue
            return None
        return self._choose_by_priority(demand)

    def _choose_by_priority(self, demand: Demand) -> Queue | None:
        """The queue of the most urgent job; which of several is as the demand says."""
        best: Queue | None = None
        best_rank = (0, 0)
        names = demand.queues
        session = demand.session
        by_place = demand.choice is OLDEST
        chosen = 0
        for step in range(len(names)):
            index = (session.rotation + step) % len(names)
            queue = self._by_name.get(names[index])
            if queue is None or queue.paused or not queue.ready:
                continue
            priority = queue.best_priority()
            if priority is None:
                queue.asked = True
                self._wants.supply_ready(queue)
                if best is None and demand.only_wake:
                    best = queue
                continue
            first = queue.first() if by_place else None
            rank = (priority, first.place if first is not None else 0)
            if best is None or rank < best_rank:
                best, best_rank, chosen = queue, rank, index
        if best is not None and not demand.only_wake:
            session.rotation = chosen + 1
        return best

    def _close(self, demand: Demand) -> None:
        for name in demand.queues:
            queue = self._by_name.get(name)
            if queue is None:
                continue  # named twice, and dropped the first time
            if demand.only_wake or queue.ranks is not None:
                queue.drop_demand(demand)
            else:  # as nearly always
                queue.demands.pop(demand, None)
            if not queue.listed:
                self._queues.drop_if_unused(queue)
        del demand.session.demands[demand]
        if demand.bucket >= 0:
            self.demand_ends.discard(demand, demand.bucket)

    def match(self, queue: Queue, now: Millis) -> int:
        """Give ready jobs of the window to waiting demands; how many bytes they have.

        Some of them, if they have many; the next tick goes on.
        """
        given = 0
        while queue.demands and queue.gives() and not queue.paused and not self._leases.is_full():
            if given > MATCHED_BYTES:
                self._unmatched[queue.name] = None
                return given
            job = queue.pop()
            given += len(job.body)
            self._give(job, queue, now)
        if queue.demands and queue.backlog and not queue.paused:
            self._wants.supply_ready(queue)
        self.wake(queue)
        return given

    def match_more(self, now: Millis) -> None:
        """Let jobs and demands meet that could not because too much ran, or was given, at once."""
        if not self._unmatched:
            return
        names, self._unmatched = self._unmatched, {}
        left = MATCHED_BYTES
        for name in names:
            if left < 0 or self._leases.is_full():
                self._unmatched[name] = None
            elif (queue := self._by_name.get(name)) is not None:
                left -= self.match(queue, now)

    def set_timers(self) -> None:
        """Put demands on the clock that have lasted until now: most do not."""
        for demand in self._new_demands:
            if demand.bucket < 0 and demand in demand.session.demands:
                demand.bucket = self.demand_ends.add(demand, demand.until)
        self._new_demands.clear()

    def end_demands(self, now: Millis) -> None:
        """Answer demands whose time is over, until enough queues were looked up for them."""
        left = NAMES_AT_ONCE
        for demand in self.demand_ends.due(now, ENDED_AT_ONCE):
            if left < 0:
                demand.bucket = self.demand_ends.add(demand, demand.until)
                continue
            left -= len(demand.queues)
            demand.bucket = -1
            self._close(demand)
            self._events.append((demand.session, Unmet(demand)))

    # -- waking ---------------------------------------------------------------------------

    def wake(self, queue: Queue) -> None:
        """Tell sleepers that there is work: `wakeups` for each job, less those just told.

        Light sleepers are told in any case.
        """
        if queue.always_woken and queue.ready and not queue.paused:
            for demand in list(queue.always_woken):
                self._close(demand)
                self._events.append((demand.session, Woken(demand)))
        while queue.sleepers and queue.woken < queue.ready * self.wakeups and not queue.paused:
            demand = next(iter(queue.sleepers))
            self._close(demand)
            self._tell(demand.session, queue)
            self._events.append((demand.session, Woken(demand)))

    def wake_another(self, session: Session) -> None:
        """A session that was told of work does not come for it: others are told instead."""
        if session.woken:
            self.wake(self._asks(session))

    def _tell(self, session: Session, queue: Queue) -> None:
        """A session hears of work; one that is awake already comes for what it heard of first."""
        if not session.woken:
            session.woken = queue.name
            queue.woken += 1

    def _asks(self, session: Session) -> Queue:
        """A woken session asks, or is gone; what it leaves of the queue is for other sleepers."""
        queue = self._by_name[session.woken]
        session.woken = ""
        queue.woken -= 1
        if not queue.listed:
            self._queues.drop_if_unused(queue)
        return queue

    # -- pauses ---------------------------------------------------------------------------

    def pause(self, queue_name: str, until: Millis = NEVER) -> None:
        """Give out no more jobs of this queue until it is resumed, or until that moment."""
        self._set_paused(queue_name, True, until)

    def resume(self, queue_name: str, now: Millis) -> None:
        """Give out jobs of this queue again."""
        self._set_paused(queue_name, False, NEVER)
        queue = self._by_name.get(queue_name)
        if queue is not None:
            self.match(queue, now)

    def _set_paused(self, queue_name: str, paused: bool, until: Millis) -> None:
        queue = self._by_name.get(queue_name)
        if queue is None or not queue.listed:
            return
        if (queue.paused, queue.paused_until) != (paused, until):
            queue.paused = paused
            self.set_pause_end(queue, until)
            self._queues.save(queue)

    def set_pause_end(self, queue: Queue, until: Millis) -> None:
        """Let a pause end by itself, or not; it had another end before."""
        ends = self.pause_ends
        ends.discard(queue.name, queue.paused_until // ends.tick_ms)
        queue.paused_until = until
        if until:
            ends.add(queue.name, until)

    def end_pauses(self, now: Millis) -> None:
        """Resume queues whose pause is over; one that was paused anew may have a later end."""
        for name in self.pause_ends.due(now, ENDED_AT_ONCE):
            queue = self._by_name.get(name)
            if queue is not None and NEVER < queue.paused_until <= now:
                self.resume(name, now)

    def clear(self) -> None:
        """There are no jobs any more; demands go on waiting."""
        self._unmatched.clear()
