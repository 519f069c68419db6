"""What must hold of a broker, said flatly: no windows, no tails, no timers, no indexes.

The model follows each verb by the rules alone and takes from the broker only what is its choice:
which of the waiting demands it met, in which order (each choice is checked), and which of the due
jobs had already come from the store. `truth` is the broker's whole state, wherever it lies:
memory, what the disk was not told yet, the disk.
"""

from collections import Counter, deque
from copy import deepcopy
from dataclasses import dataclass, field

from franca.core.broker import Broker
from franca.core.dispatch import DEMAND_TICK_MS
from franca.core.events import Finished, Granted, LeaseLost, Unmet, Woken
from franca.core.leases import LEASE_TICK_MS
from franca.core.model import KEPT_MS, NEVER, Demand, Job, OnHangUp, Policy, Session, Shelf, State
from tests.sim import checks
from tests.sim.disk import Disk
from tests.support.queue_counts import queue_counts

WAITING, READY, LEASED, DEAD = State.WAITING, State.READY, State.LEASED, State.DEAD
FACTS = ("queue", "state", "priority", "key", "attempts", "failures", "losses", "run_at")


@dataclass(slots=True)
class Entry:
    """One live or dead job. `guest`: may stay in memory although its place is in the tail.

    `behind` is the running job whose place it takes when that run is over, or 0.
    """

    id: int
    queue: str
    policy: Policy
    priority: int
    key: str
    run_at: int
    name: str = ""
    state: State = READY
    place: int = 0
    holder: str = ""
    bound: bool = False
    until: int = NEVER
    attempts: int = 0
    failures: int = 0
    losses: int = 0
    guest: bool = False
    was_given: bool = False
    behind: int = 0
    watchers: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Model:
    """All jobs there must be, and who waits for which."""

    broker: Broker
    now: int
    jobs: dict[int, Entry] = field(default_factory=dict)
    demands: dict[int, Demand] = field(default_factory=dict)
    paused: dict[str, int] = field(default_factory=dict)
    """Queues that are paused, and until when (NEVER: until they are resumed)."""
    ends: Counter[str] = field(default_factory=Counter)
    places: int = 0
    grants: deque[Granted] = field(default_factory=deque)
    saved: tuple[dict[int, Entry], dict[str, int]] = field(default_factory=lambda: ({}, {}))

    def in_state(self, state: State, *queues: str) -> list[Entry]:
        """The jobs that are in this state, of these queues if any are named."""
        jobs = self.jobs.values()
        return [j for j in jobs if j.state is state and (not queues or j.queue in queues)]

    def keyed(self) -> dict[tuple[str, str], Entry]:
        """The jobs that have a key, each the only one that has it."""
        alive = [j for j in self.jobs.values() if j.key and j.state is not DEAD and not j.behind]
        found = {(job.queue, job.key): job for job in alive}
        assert len(found) == len(alive), f"two jobs to a key: {alive}"
        return found

    # -- what happens to a job ----------------------------------------------------------------

    def enqueue(self, job: Entry) -> None:
        """Behind all others, unless it keeps the place that it has."""
        if not (job.place and job.policy.keeps_place):
            self.take_place(job)
        self.ready(job)

    def take_place(self, job: Entry) -> None:
        """Behind all that took theirs before."""
        place = self._known(job).place
        assert place > self.places, f"job {job.id} is not behind all others"
        job.place = self.places = place

    def _known(self, job: Entry) -> Job:
        """The job as the broker has it after this step."""
        return self.broker.jobs.get(job.id) or self.broker.changelog.dirty[job.id]

    def ready(self, job: Entry) -> None:
        """At its place; and whatever the broker has given out by then."""
        job.state = READY
        self.give()

    def give(self) -> None:
        """Whatever the broker has given out of what is ready by now."""
        while self.grants and self.jobs[self.grants[0].job.id].state is READY:
            grant = self.grants.popleft()
            assert self.demands.pop(id(grant.demand), None), "a grant that nobody asked for"
            self.lease(grant.job.id, grant.demand)

    def lease(self, job_id: int, demand: Demand) -> None:
        """Given to a session: it must have been the first that could be given."""
        job = self.jobs[job_id]
        assert job.state is READY, f"job {job_id} is given while {job.state.name}"
        assert job.queue in demand.queues, f"job {job_id} of a queue that was not asked for"
        assert job.queue not in self.paused, f"job {job_id} of a paused queue is given"
        for other in self.in_state(READY, job.queue):
            # A job that was given out before may come back through the store, with its body; so may
            # one that had to wait, and only one that kept its place has equals behind it then.
            is_equal = other.priority == job.priority
            kept = bool(other.run_at) and other.policy.keeps_place
            passes = is_equal and (job.guest or kept)
            may_wait = other.id not in self.broker.jobs and (passes or other.was_given)
            is_early = (other.priority, other.place) < (job.priority, job.place)
            assert may_wait or not is_early, f"job {job_id} overtakes {other.id}"
        self.hold(job, demand.session)

    def hold(self, job: Entry, session: Session) -> None:
        """Run by a session from now on."""
        job.state = LEASED
        job.was_given = True
        job.holder = session.holder
        job.bound = session.on_hang_up is not OnHangUp.KEEP
        job.attempts += 1
        lease_ms = job.policy.lease_ms or (0 if job.bound else self.broker.limits.lease_ms)
        job.until = self.now + lease_ms if lease_ms else NEVER

    def end(self, job: Entry) -> None:
        """Gone; each watch is owed one end, and what waited behind it takes its place."""
        self.ends.update(job.watchers)
        del self.jobs[job.id]
        self.succeed(job)

    def successor(self, job: Entry) -> Entry | None:
        """The newer job that waits behind this one's run."""
        return next((j for j in self.jobs.values() if j.behind == job.id), None)

    def succeed(self, job: Entry) -> None:
        """A job that is gone or dead makes room for its successor."""
        successor = self.successor(job)
        if successor is not None:
            successor.behind = 0
            # Which of several runs that are over at once comes first is the broker's choice.
            successor.place = self._known(successor).place
            if successor.run_at <= self.now:
                self.ready(successor)

    def gives_way(self, job: Entry) -> bool:
        """A job that would run again ends if there is a newer one; its watchers watch that.

        So does one that lives for its watchers and has none.
        """
        if job.policy.dies_unwatched and not job.watchers:
            self.end(job)
            return True
        successor = self.successor(job)
        if successor is None:
            return False
        self.pass_on(job, successor)
        self.end(job)
        return True

    def pass_on(self, job: Entry, to: Entry) -> None:
        """Whoever watched the one watches the other."""
        to.watchers.update(job.watchers)
        to.guest = to.guest or bool(job.watchers)
        job.watchers.clear()

    def unwatch(self, job: Entry, holder: str) -> None:
        """Not watched by this session any more, however often it was."""
        alone = job.watchers.pop(holder, 0) and not job.watchers
        if alone and job.policy.dies_unwatched and job.state is not LEASED:
            self.end(job)

    def bury(self, job: Entry) -> None:
        """Dead, or gone where its policy says so."""
        if not (job.policy.bury and job.policy.durable):
            self.end(job)
            return
        self.ends.update(job.watchers)
        job.watchers.clear()
        job.run_at = self.now + KEPT_MS * job.policy.keep_dead
        job.state, job.until, job.bound, job.behind = DEAD, NEVER, False, 0
        self.succeed(job)

    def fail(self, job: Entry) -> None:
        """A failure that counts."""
        job.failures += 1
        if job.policy.no_retry_if_watched and job.watchers:
            self.end(job)
        elif job.failures <= job.policy.max_failures or job.policy.max_failures < 0:
            if not self.gives_way(job):
                job.state, job.run_at = WAITING, self.now + job.policy.delay_ms
        else:
            self.bury(job)

    def lose(self, job: Entry, *, as_failure: bool) -> None:
        """A run that ended without a word."""
        counts = as_failure or job.policy.loss_is_failure
        most = job.policy.max_losses
        job.losses += 1
        if job.policy.dies_unwatched and not job.watchers:
            self.end(job)
        elif job.losses > (most if most >= 0 else self.broker.limits.losses_max - 1):
            job.failures += counts
            self.bury(job)
        elif counts:
            self.fail(job)
        elif not self.gives_way(job):
            self.ready(job)

    def tick(self, truth: dict[int, Job]) -> None:
        """Leases first, then what has become due and was in memory. Pauses may end before both."""
        for queue, until in list(self.paused.items()):
            if until and until // DEMAND_TICK_MS < self.now // DEMAND_TICK_MS:
                del self.paused[queue]
        self.give()
        for job in sorted(self.in_state(LEASED), key=lambda j: j.until // LEASE_TICK_MS):
            if job.until != NEVER and job.until // LEASE_TICK_MS < self.now // LEASE_TICK_MS:
                self.lose(job, as_failure=False)
        for job in sorted(self.in_state(WAITING), key=lambda j: (j.run_at, j.id)):
            if job.run_at <= self.now and not job.behind and truth[job.id].state is not WAITING:
                self.enqueue(job)

    # -- the end of a server --------------------------------------------------------------------

    def save(self) -> None:
        """The disk knows all of this now."""
        self.saved = deepcopy((self.jobs, self.paused))

    def crash(self) -> None:
        """Back to what the disk knew; nobody is connected any more."""
        self.jobs, self.paused = deepcopy(self.saved)
        self.places = self.broker.totals.last_place
        self.demands.clear()
        self.ends.clear()
        self.jobs = {job.id: job for job in self.jobs.values() if job.policy.durable}
        for job in list(self.jobs.values()):
            job.watchers.clear()
            job.guest = False
            if job.behind not in self.jobs:
                job.behind = 0
            if job.state is LEASED and job.bound:
                job.bound = False
                if not self.gives_way(job):
                    self.ready(job)

    # -- what is compared after each step ---------------------------------------------------------

    def hear(self) -> None:
        """Take the broker's events: first, so that the step's own rules can place the grants."""
        for session, event in self.broker.events:
            if isinstance(event, Granted):
                self.grants.append(event)
            elif isinstance(event, Unmet | Woken):
                early = isinstance(event, Unmet) and not 0 < event.demand.until <= self.now
                assert not early, "unmet before its time"
                assert self.demands.pop(id(event.demand), None), "unmet or woken twice"
            elif isinstance(event, Finished):
                self.ends[session.holder] -= 1
            elif isinstance(event, LeaseLost):
                assert session.holder, "a lease is lost by nobody"
        self.broker.events.clear()

    def check(self, truth: dict[int, Job]) -> None:
        """The broker's whole state is the model's, and nobody waits in vain."""
        assert not self.grants, "something was given that was not ready"
        assert not +self.ends, f"ends not told: {+self.ends}"
        assert not -self.ends, f"ends told too often: {-self.ends}"
        assert truth.keys() == self.jobs.keys(), f"lost or extra: {truth.keys() ^ self.jobs.keys()}"
        for job_id, job in self.jobs.items():
            wrong = [f for f in FACTS if getattr(truth[job_id], f) != getattr(job, f)]
            assert not wrong, f"job {job_id}: {wrong}: {truth[job_id]} is not {job}"
            if job.policy.keeps_place and job.place:
                assert truth[job_id].place == job.place, f"the place of {job_id}"
            if job.state is LEASED:
                held = (truth[job_id].holder, truth[job_id].until, truth[job_id].bound)
                assert held == (job.holder, job.until, job.bound), f"the lease of {job_id}"
            assert self.broker.watchers_of(job_id) == job.watchers.total(), f"watches of {job_id}"
        self._check_counts()
        self._check_keys()
        sessions = self.broker.sessions.open.values()
        waiting = {id(demand) for session in sessions for demand in session.demands}
        assert waiting == self.demands.keys(), "demands that are not those that were made"
        checks.nobody_waits_in_vain(self.broker)

    def _check_counts(self) -> None:
        counts = queue_counts(self.broker)
        for count in counts:
            mine = [job for job in self.jobs.values() if job.queue == count.queue]
            tally = Counter(job.state for job in mine)
            retrying = sum(job.state is WAITING and job.failures > 0 for job in mine)
            said = (count.scheduled, count.retrying, count.ready, count.leased, count.dead)
            assert said == (
                tally[WAITING] - retrying, retrying, tally[READY], tally[LEASED], tally[DEAD]
            ), f"counts of {count.queue}: {said}"  # fmt: skip
        assert {job.queue for job in self.jobs.values()} <= {count.queue for count in counts}

    def _check_keys(self) -> None:
        behind = [job for job in self.jobs.values() if job.behind]
        in_vain = [job for job in behind if self.jobs[job.behind].state is not LEASED]
        assert not in_vain, f"{in_vain} wait for no run"
        known = {key: taken.id for key, taken in self.broker.keys.items()}
        assert known == {key: job.id for key, job in self.keyed().items()}, f"keys: {known}"


def truth(broker: Broker, disk: Disk) -> dict[int, Job]:
    """Every job that is not gone, as the broker would have it: memory, the unwritten, the disk."""
    log = broker.changelog
    gone = {job.id for job in log.gone}
    found: dict[int, Job] = {}
    for row in disk.rows.values():
        emptied = row.queue in log.emptied and row.id not in log.spared
        is_emptied = emptied and row.state is READY and row.shelf is Shelf.BACKLOG
        if not (log.flushed or is_emptied or row.id in gone or row.id in log.dirty):
            found[row.id] = row
    for job in log.dirty.values():
        if job.state <= LEASED or (job.state is DEAD and job.policy.bury):
            found[job.id] = job
    return found | broker.jobs
