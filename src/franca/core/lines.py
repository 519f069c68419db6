"""The lines: where jobs wait to be run and sessions wait for jobs, and how the two meet.

Nothing stays ready in memory while an open demand asks for its queue. A queue with a tail gives
only what its window holds; the store is asked for more before the window runs dry.
"""

from __future__ import annotations

from franca.core.changes import Totals
from franca.core.events import Begun, Event, Granted, Unmet, Woken
from franca.core.ledger import LEASED, READY
from franca.core.limits import Limits
from franca.core.model import (
    NEVER,
    Choice,
    Demand,
    Job,
    JobId,
    Millis,
    OnHangUp,
    Session,
)
from franca.core.ready import Queue, queue_bytes
from franca.core.tail import Tail
from franca.core.timers import Buckets

KEEP = OnHangUp.KEEP
LISTED = Choice.LISTED
LEASE_TICK_MS = 50
MATCHED_BYTES = 4 * 1024 * 1024
DEMAND_TICK_MS = 50


class Lines(Tail):
    """Queues, demands, and the leases that come of their meeting."""

    __slots__ = (
        "_awaited",
        "_crowded",
        "_demand_ends",
        "_lease_ends",
        "_new_demands",
        "_new_leases",
        "events",
        "leased",
        "leased_bytes",
        "wakeups",
    )

    def __init__(self, limits: Limits, totals: Totals) -> None:
        super().__init__(limits, totals)
        self.events: list[tuple[Session, Event]] = []
        self.wakeups = 1
        self.leased = 0
        self.leased_bytes = 0
        self._crowded: dict[str, None] = {}
        self._demand_ends: Buckets[Demand] = Buckets(DEMAND_TICK_MS)
        self._lease_ends: Buckets[Job] = Buckets(LEASE_TICK_MS)
        self._new_demands: list[Demand] = []
        self._new_leases: list[Job] = []
        self._awaited: dict[JobId, Session] = {}

    # -- where jobs wait ------------------------------------------------------------------

    def _enqueue(self, job: Job, queue: Queue, now: Millis) -> None:
        """Put a job behind all others of its queue and priority."""
        totals = self.totals
        totals.last_place = job.place = totals.last_place + 1
        job.ready_at = now
        self._offer(job, queue, now)

    def _offer(self, job: Job, queue: Queue, now: Millis) -> None:
        """Make a job ready at its place, and give it to whoever waits for it."""
        job.state = READY
        if self._large:
            self._drop_large(job)
        if job.away:
            self._back_to_tail(job, queue)
            if (queue.sleepers or queue.light_sleepers) and not queue.paused:
                self._wake_enough(queue)
            return
        if (
            queue.line
            and not queue.paused
            and not (queue.size and queue.gives())
            and (queue.mark is None or not queue.belongs_to_tail(job))
            and self.leased < self.limits.leased_jobs
            and self.leased_bytes < self.limits.leased_bytes
        ):
            demand = next(iter(queue.line))
            self._close_demand(demand)
            self._lease(job, demand, queue, now)
            self.events.append((demand.session, Granted(job, demand)))
            return
        if queue.mark is not None and queue.belongs_to_tail(job) and self._may_leave(job):
            queue.grow_tail(job.priority)
            self._touch(job)
            self._to_tail(job)
        else:
            self._hold(job)
            if job.policy.durable:  # as `_touch`, without a call: every job comes here
                self._dirty[job.id] = job
            queue.add(job)
            limits = self.limits
            if (
                queue.size > limits.window_jobs
                or self.windows.bytes_held > limits.window_bytes
                or len(self.jobs) > limits.held_jobs
            ):
                self._cut_window(queue)
            if queue.line and self._is_crowded():
                self._crowded[queue.name] = None
        if (queue.sleepers or queue.light_sleepers) and not queue.paused:
            self._wake_enough(queue)

    # -- demand ---------------------------------------------------------------------------

    def demand(self, demand: Demand, now: Millis) -> Granted | Unmet | Woken | None:
        """A job for the session now, or `None`: an event will come by the demand's end."""
        session = demand.session
        woken_by = self._heard(session) if session.woken else None
        queue = self._choose(demand)
        if queue is not None:
            if demand.only_wake:
                if not demand.wake_always:
                    self._told(session, queue)
                if woken_by is not None:
                    self._wake_enough(woken_by)
                return Woken(demand)
            if self._is_crowded():
                self._crowded[queue.name] = None
            elif queue.size:
                job = queue.pop()
                self._lease(job, demand, queue, now)
                if woken_by is not None:
                    self._wake_enough(woken_by)
                return Granted(job, demand)
        if woken_by is not None:
            self._wake_enough(woken_by)
        if demand.until and demand.until <= now:
            return Unmet(demand)
        if self.queues_bytes >= self.queues_most:
            self._check_no_new(demand.queues)
        for name in demand.queues:
            line = self._line_of(name)
            if demand.only_wake:
                (line.light_sleepers if demand.wake_always else line.sleepers)[demand] = None
            elif demand.ranks is None and line.ranks is None:
                line.line[demand] = None
            else:
                line.stand_in_line(demand, (demand.ranks or {}).get(name, 0))
        session.demands[demand] = None
        if demand.until:
            self._new_demands.append(demand)
        return None

    def withdraw(self, demand: Demand) -> None:
        """The session no longer wants what it asked for; nothing happens if it was answered."""
        if demand in demand.session.demands:
            self._close_demand(demand)

    def _choose(self, demand: Demand) -> Queue | None:
        """The queue whose next job this demand would get; its tail is asked for if need be."""
        queues = self.queues
        if demand.choice is LISTED:
            for name in demand.queues:
                queue = queues.get(name)
                if queue is not None and not queue.paused:
                    if queue.size and (not queue.tail or queue.gives()):
                        return queue
                    if queue.tail:
                        queue.asked = True
                        self._want_ready(queue)
                        if demand.only_wake:
                            return queue
            return None
        return self._choose_by_priority(demand)

    def _choose_by_priority(self, demand: Demand) -> Queue | None:
        """The most urgent job of all its queues; queues take turns inside one priority."""
        best: Queue | None = None
        best_priority = 0
        names = demand.queues
        session = demand.session
        chosen = 0
        for step in range(len(names)):
            index = (session.rotation + step) % len(names)
            queue = self.queues.get(names[index])
            if queue is None or queue.paused or not queue.ready:
                continue
            priority = queue.best_priority()
            if priority is None:
                queue.asked = True
                self._want_ready(queue)
                if best is None and demand.only_wake:
                    best = queue
                continue
            if best is None or priority < best_priority:
                best, best_priority, chosen = queue, priority, index
        if best is not None and not demand.only_wake:
            session.rotation = chosen + 1
        return best

    def _close_demand(self, demand: Demand) -> None:
        only_wake = demand.only_wake
        for name in demand.queues:
            queue = self.queues.get(name)
            if queue is None:
                continue  # named twice, and dropped the first time
            line: dict[Demand, None] = queue.line
            if only_wake:
                line = queue.light_sleepers if demand.wake_always else queue.sleepers
            if only_wake or queue.ranks is None:
                line.pop(demand, None)
            else:
                queue.leave_line(demand)
                line = queue.line
            if not line and not queue.listed:
                self._drop_if_unused(queue)
        del demand.session.demands[demand]
        if demand.bucket >= 0:
            self._demand_ends.discard(demand, demand.bucket)

    def _line_of(self, name: str) -> Queue:
        """The queue of that name; one that nobody pushed to yet is not listed."""
        return self.queues.get(name) or self._new_queue(name)

    def _unlist(self, queue: Queue) -> None:
        """Forget a queue that has nothing in it; those who wait for its jobs go on waiting."""
        queue.listed = False
        self._settings[queue.name] = None
        self._drop_if_unused(queue)

    def _drop_if_unused(self, queue: Queue) -> None:
        waits = queue.line or queue.sleepers or queue.light_sleepers
        if not (queue.listed or waits or queue.servers or queue.woken):
            del self.queues[queue.name]
            self.queues_bytes -= queue_bytes(queue.name)
            self.keys.forget_queue(queue.name)
            self._supplied.pop(queue, None)

    def _match(self, queue: Queue, now: Millis) -> int:
        """Give ready jobs of the window to those who wait for them; how many bytes they have.

        Some of them, if they have many: each must be written down for its worker. `tick` goes on.
        """
        given = 0
        while queue.line and queue.gives() and not queue.paused and not self._is_crowded():
            if given > MATCHED_BYTES:
                self._crowded[queue.name] = None
                return given
            demand = next(iter(queue.line))
            job = queue.pop()
            given += len(job.body)
            self._close_demand(demand)
            self._lease(job, demand, queue, now)
            self.events.append((demand.session, Granted(job, demand)))
        if queue.line and queue.tail and not queue.paused:
            self._want_ready(queue)
        self._wake_enough(queue)
        return given

    def _is_crowded(self) -> bool:
        """Whether as many jobs run as may, or as memory has room for."""
        limits = self.limits
        return self.leased >= limits.leased_jobs or self.leased_bytes >= limits.leased_bytes

    def _match_crowded(self, now: Millis) -> None:
        """Give jobs to those who had to wait because too much ran, or was given, at once."""
        crowded, self._crowded = self._crowded, {}
        left = MATCHED_BYTES
        for name in crowded:
            if left < 0 or self._is_crowded():
                self._crowded[name] = None
            elif (queue := self.queues.get(name)) is not None:
                left -= self._match(queue, now)

    # -- waking ---------------------------------------------------------------------------

    def _wake_enough(self, queue: Queue) -> None:
        """Tell sleepers that there is work: `wakeups` for each job, less those just told.

        Whoever sleeps lightly is told in any case.
        """
        if queue.light_sleepers and queue.ready and not queue.paused:
            for demand in list(queue.light_sleepers):
                self._close_demand(demand)
                self.events.append((demand.session, Woken(demand)))
        while queue.sleepers and queue.woken < queue.ready * self.wakeups and not queue.paused:
            demand = next(iter(queue.sleepers))
            self._close_demand(demand)
            self._told(demand.session, queue)
            self.events.append((demand.session, Woken(demand)))

    def wake_another(self, session: Session) -> None:
        """A session that was told of work does not come for it: others are told instead."""
        if session.woken:
            self._wake_enough(self._heard(session))

    def _told(self, session: Session, queue: Queue) -> None:
        """A session hears of work; one that is awake already comes for what it heard of first."""
        if not session.woken:
            session.woken = queue.name
            queue.woken += 1

    def _heard(self, session: Session) -> Queue:
        """A woken session asks, or is gone; what it leaves of the queue is for other sleepers."""
        queue = self.queues[session.woken]
        session.woken = ""
        queue.woken -= 1
        if not queue.listed:
            self._drop_if_unused(queue)
        return queue

    def _lease(self, job: Job, demand: Demand, queue: Queue, now: Millis) -> None:
        session = demand.session
        job.state = LEASED
        job.holder = session.holder
        job.started_at = now
        job.attempts += 1
        policy = job.policy
        bound = session.on_hang_up is not KEEP
        lease_ms = policy.lease_ms
        if demand.lease_ms is not None:
            lease_ms = demand.lease_ms.get(job.queue, 0) or lease_ms
        if lease_ms or not bound:
            job.until = now + (lease_ms or self.limits.lease_ms)
            self._new_leases.append(job)
        else:
            job.until = NEVER
        if bound:
            session.leases[job.id] = job
            job.bound = True
        queue.leased += 1
        self.leased += 1
        if job.id not in self.jobs:
            self._hold(job)
        size = len(job.body)
        weight = job.weight
        if size > self.limits.large_body_bytes:
            self._keep_large(job)
            weight -= size
        if policy.durable:  # as `_touch`, without a call: every job comes here
            self._dirty[job.id] = job
            self.leased_bytes += weight
        if self._shared and job.name in self._shared:
            self._shared[job.name].lease(job)
        if self._awaited and job.id in self._awaited:
            awaiting = self._awaited.pop(job.id)
            del awaiting.awaits[job.id]
            self.events.append((awaiting, Begun(job)))
        if queue.tail and queue.size <= self.limits.supply_jobs:
            self._want_ready(queue)

    def _leased_weight(self, job: Job) -> int:
        """What a running job counts for; large bodies and jobs of memory alone count elsewhere."""
        if not job.policy.durable:
            return 0
        is_large = len(job.body) > self.limits.large_body_bytes
        return job.weight - len(job.body) if is_large else job.weight

    def await_begin(self, job: Job, session: Session) -> bool:
        """Tell `session`, once, that somebody runs the job, or that it ended before anybody did.

        Unlike of a watch nothing is remembered of it in the tail, so that nobody hears of a job
        that is purged there. False if too many are awaited already.
        """
        if job.state is LEASED:
            self.events.append((session, Begun(job)))
            return True
        self._await_no_more(job.id)  # whoever asks last is told
        if len(self._awaited) >= self.limits.begins_awaited:
            return False
        self._awaited[job.id] = session
        session.awaits[job.id] = None
        return True

    def _await_no_more(self, job_id: JobId) -> Session | None:
        session = self._awaited.pop(job_id, None)
        if session is not None:
            del session.awaits[job_id]
        return session

    def _put_on_the_clock(self) -> None:
        """Time the demands and leases that have lasted until a tick: most do not."""
        for demand in self._new_demands:
            if demand.bucket < 0 and demand in demand.session.demands:
                demand.bucket = self._demand_ends.add(demand, demand.until)
        self._new_demands.clear()
        for job in self._new_leases:
            if job.state is LEASED and job.until and not job.timed:
                job.timed = True
                self._lease_ends.add(job, job.until)
        self._new_leases.clear()
