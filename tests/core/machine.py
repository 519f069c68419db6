"""T7: a broker and its disk against the model, one random verb after the other.

Windows are tiny, so that tails are everywhere; the disk is told at random moments; a crash makes a
new broker from what the disk was told. Hypothesis draws the steps and shortens those that fail.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from franca.core import model as core
from franca.core.broker import Broker
from franca.core.errors import NotFound, NotHeld, NotUnique
from franca.core.events import Granted, Unmet, Woken
from franca.core.limits import Limits
from tests.core.model import DEAD, LEASED, READY, WAITING, Entry, Model, truth
from tests.sim.disk import Disk, write_out

LIMITS = Limits(
    window_jobs=4, supply_jobs=2, due_jobs=100, losses_max=3, recent_names=3,
    large_body_bytes=0, large_bytes=1, window_bytes=6, supply_bytes=3,
)  # fmt: skip
PICK = st.integers(0, 1_000)
queues = st.sampled_from(("a", "b"))
POLICIES = (
    core.Policy(lease_ms=2_000, max_losses=-1),
    core.Policy(
        max_failures=2, delay_ms=1_000, lease_ms=1_500, loss_is_failure=True, max_losses=-1
    ),
    core.Policy(max_failures=0, bury=False, max_losses=0),
    core.Policy(durable=False, max_losses=1),
    core.Policy(durable=False, dies_unwatched=True),
    core.Policy(max_failures=-1, no_retry_if_watched=True, lease_ms=3_000),
    core.Policy(lease_ms=2_000, keeps_place=True, keep_dead=True),
)
QUEUES = (("a",), ("b",), ("a", "b"), ("b", "a", "b"))


class BrokerMachine(RuleBasedStateMachine):
    """Every rule is: one verb of the broker, the same in the model; then all is compared."""

    now: int
    broker: Broker
    disk: Disk
    model: Model
    sessions: list[core.Session]

    @initialize(backlog=st.sampled_from((0, 7, 12, 18)), delay=st.sampled_from((0, 0, 2_000)))
    def begin(self, backlog: int, delay: int) -> None:
        self.now = 1_000_000
        self.broker = Broker(LIMITS, Random(7))
        self.disk = Disk(LIMITS.large_body_bytes)
        self.model = Model()
        self._connect()
        for number in range(backlog):
            new = core.NewJob(
                "a", "k", b"x", POLICIES[number % 3], key=f"b{number}", priority=number % 2
            )
            new.run_at = self.now + delay + number if delay else core.NEVER
            self._submit(new, None)

    def _connect(self) -> None:
        kinds = (core.OnHangUp.KEEP, core.OnHangUp.RETURN, core.OnHangUp.FAIL, core.OnHangUp.RETURN)
        self.sessions = [
            self.broker.open_session(f"w{n}", kind, None) for n, kind in enumerate(kinds)
        ]

    # -- submitting -----------------------------------------------------------------------------

    @rule(
        queue=queues,
        policy=st.sampled_from(POLICIES),
        priority=st.integers(0, 2),
        delay=st.sampled_from((0, 0, 0, 40, 3_000)),
        key=st.sampled_from(("", "", "", "k", "b3", "b6", "b11")),
        on_conflict=st.sampled_from(list(core.OnConflict)),
        watcher=st.sampled_from((None, None, 2, 3)),
        times=st.integers(1, 6),
    )
    def submit(
        self, queue: str, policy: core.Policy, priority: int, delay: int, key: str, on_conflict: core.OnConflict,
        watcher: int | None, times: int,
    ) -> None:  # fmt: skip
        for _ in range(1 if key else times):
            new = core.NewJob(queue, "k", b"x", policy, key=key, on_conflict=on_conflict)
            new.priority, new.run_at = priority, self.now + delay if delay else core.NEVER
            self._submit(new, None if watcher is None else self.sessions[watcher])

    def _submit(self, new: core.NewJob, watcher: core.Session | None) -> None:
        model = self.model
        alive = [
            j for j in model.jobs.values()
            if j.state is not DEAD and j.key and j.key == new.key and not j.behind
        ]  # fmt: skip
        taken = next((j for j in alive if j.queue == new.queue), None)
        try:
            job = self.broker.submit(new, self.now, watcher)
        except NotUnique:
            assert taken, "refused, though the key is free"
            assert new.on_conflict is core.OnConflict.REFUSE
            return
        if taken and new.on_conflict is core.OnConflict.JOIN:
            assert job.id == taken.id, "joined another job"
            if new.policy.durable and not taken.policy.durable:
                taken.policy, taken.guest = new.policy, True
        else:
            assert not taken or new.on_conflict is core.OnConflict.REPLACE, "the key was taken"
            assert job.id not in model.jobs, "an old id"
            entry = self._entry(job.id, new)
            if taken:
                self._replace(taken, entry)
            entry.guest = entry.guest or not new.policy.durable
        entry = model.jobs[job.id]
        if watcher is not None:
            entry.watchers[watcher.holder] += 1
            entry.guest = True
        model.hear(self.broker, self.now)
        if entry is not taken and not entry.behind:
            self._place(entry)

    def _entry(self, job_id: int, new: core.NewJob) -> Entry:
        entry = Entry(job_id, new.queue, new.policy, new.priority, new.key, new.run_at, new.name)
        self.model.jobs[job_id] = entry
        return entry

    def _place(self, entry: Entry) -> None:
        if entry.run_at <= self.now:
            self.model.enqueue(entry, self.now, self.broker)
            return
        entry.state = WAITING
        if entry.policy.keeps_place:
            self.model.take_place(entry)

    @rule(
        pick=PICK,
        policy=st.sampled_from(POLICIES),
        delay=st.sampled_from((0, 0, 3_000)),
        watcher=st.sampled_from((None, 2)),
    )
    def replace_running(
        self, pick: int, policy: core.Policy, delay: int, watcher: int | None
    ) -> None:
        runs = [j for j in self.model.jobs.values() if j.state is LEASED and j.key]
        if runs:
            job = runs[pick % len(runs)]
            new = core.NewJob(
                job.queue, "k", b"x", policy, key=job.key, on_conflict=core.OnConflict.REPLACE
            )
            new.run_at = self.now + delay if delay else core.NEVER
            self._submit(new, None if watcher is None else self.sessions[watcher])

    def _replace(self, taken: Entry, entry: Entry) -> None:
        """A job that waits makes room at once, one that runs when its run is over."""
        model = self.model
        waits: Entry | None = taken
        if taken.state is LEASED:
            waits = model.successor(taken)
            entry.behind, entry.state = taken.id, WAITING
        if waits is not None:
            waits.behind = 0
            model.pass_on(waits, entry)
            model.end(waits, self.now, self.broker)

    @rule(
        name=st.sampled_from(("m", "n", "o", "p")), queue=queues, delay=st.sampled_from((0, 3_000))
    )
    def submit_once(self, name: str, queue: str, delay: int) -> None:
        new = core.NewJob(queue, "k", b"x", POLICIES[0], name=name, once=True, digest=1)
        new.run_at = 1_000_000 + 600_000 if delay else core.NEVER
        same = [
            j.id for j in self.model.jobs.values()
            if (j.name, j.queue, j.run_at, j.attempts) == (name, queue, new.run_at, 0)
            and j.state in (READY, WAITING)
        ]  # fmt: skip
        before = set(self.model.jobs)
        held = [job_id for job_id in same if job_id in self.broker.jobs]
        last = self.broker.totals.last_job_id
        if held:
            assert self.broker.submit(new, self.now).id in same, "a push said twice is two jobs"
            return
        if same:
            job = self.broker.submit(new, self.now)
            if job.id in same:
                return
            # Only the last few names of the tail are remembered.
            assert job.id == last + 1
            assert len(before) > LIMITS.recent_names
            entry = self._entry(job.id, new)
            self.model.hear(self.broker, self.now)
            self._place(entry)
        else:
            self._submit(new, None)

    # -- asking -----------------------------------------------------------------------------------

    @rule(
        who=st.integers(0, 3),
        names=st.sampled_from(QUEUES),
        wait=st.sampled_from((-1, 0, 2_000)),
        choice=st.sampled_from(list(core.Choice)),
        only_wake=st.booleans(),
    )
    def demand(
        self, who: int, names: tuple[str, ...], wait: int, choice: core.Choice, only_wake: bool
    ) -> None:
        until = core.NEVER if wait < 0 else self.now + wait
        demand = core.Demand(self.sessions[who], names, until, choice, only_wake)
        ready = [
            j for j in self.model.jobs.values()
            if j.state is READY and j.queue in names and j.queue not in self.model.paused
        ]  # fmt: skip
        in_memory = [j for j in ready if j.id in self.broker.jobs and not self._held_back(j)]
        answer = self.broker.demand(demand, self.now)
        if isinstance(answer, Granted):
            given = self.model.jobs[answer.job.id]
            if choice is core.Choice.LISTED:
                first = min((names.index(j.queue) for j in in_memory), default=None)
                assert names.index(given.queue) == first, "not the first queue of the list"
            else:
                assert given.priority == min(j.priority for j in in_memory), "not the most urgent"
            self.model.lease(given.id, demand, self.now, self.broker)
        elif isinstance(answer, Woken):
            assert only_wake
            assert ready, "woken for nothing"
        else:
            assert not in_memory, f"{in_memory} ready, and not given"
            assert isinstance(answer, Unmet) == (wait == 0)
            if answer is None:
                self.model.demands[id(demand)] = demand
        self.model.hear(self.broker, self.now)

    def _held_back(self, job: Entry) -> bool:
        """Whether it is in memory before its turn, and a more urgent one lies in the store."""
        return any(
            other.state is READY and other.queue == job.queue and other.priority < job.priority
            and other.id not in self.broker.jobs
            for other in self.model.jobs.values()
        )  # fmt: skip

    @rule(who=st.integers(0, 3), names=st.sampled_from(QUEUES))
    def take(self, who: int, names: tuple[str, ...]) -> None:
        """The usual demand, so that jobs run as often as all the rest happens."""
        self.demand(who, names, 2_000, core.Choice.LISTED, only_wake=False)

    @rule(who=st.integers(0, 3), more=st.integers(0, 2))
    def run_low(self, who: int, more: int) -> None:
        """Take so many that the store is asked for the next, and some of these at once."""
        for _ in range(3):
            self.demand(who, ("a",), 0, core.Choice.LISTED, only_wake=False)
        self.write()
        for _ in range(more):
            self.demand(who, ("a",), 0, core.Choice.LISTED, only_wake=False)

    @rule(pick=PICK)
    @precondition(lambda self: self.model.demands)
    def withdraw(self, pick: int) -> None:
        demand = list(self.model.demands.values())[pick % len(self.model.demands)]
        del self.model.demands[id(demand)]
        self.broker.withdraw(demand)

    # -- what a holder says -----------------------------------------------------------------------

    @rule(
        verb=st.sampled_from(
            ("finish", "finish", "fail", "release", "later", "give_back", "extend")
        ),
        who=st.integers(0, 3),
        pick=PICK,
        priority=st.sampled_from((None, None, 0, 2)),
    )
    def speak(self, verb: str, who: int, pick: int, priority: int | None) -> None:
        """A word about some job, by its holder or by somebody else."""
        alive = [j for j in self.broker.jobs.values() if j.state is LEASED] or [
            *self.broker.jobs.values()
        ]
        if not alive:
            return
        job = alive[pick % len(alive)]
        entry = self.model.jobs[job.id]
        holder = self.sessions[who].holder
        may = entry.state is LEASED and entry.holder == holder
        try:
            self._say(verb, job, holder, priority)
        except NotHeld:
            assert not may, "the holder is not believed"
            return
        assert may, f"{holder} is believed, and {entry.holder} holds it"
        model = self.model
        model.hear(self.broker, self.now)
        if verb != "extend":
            entry.bound = False
        if verb in ("fail", "release", "later") and priority is not None:
            entry.priority = priority
        match verb:
            case "finish":
                model.end(entry, self.now, self.broker)
            case "fail":
                model.fail(entry, self.now, self.broker)
            case "extend":
                entry.until = max(entry.until, self.now + 4_000) if entry.until else core.NEVER
            case _:
                entry.attempts -= verb == "give_back"
                if verb != "give_back" and entry.policy.no_retry_if_watched and entry.watchers:
                    model.end(entry, self.now, self.broker)
                    return
                if model.gives_way(entry, self.now, self.broker):
                    return
                if verb == "later":
                    entry.state, entry.run_at = WAITING, self.now + 500
                else:
                    model.ready(entry, self.now, self.broker)

    def _say(self, verb: str, job: core.Job, holder: str, priority: int | None) -> None:
        broker, now = self.broker, self.now
        arguments: dict[str, tuple[Any, ...]] = {
            "finish": (broker.finish, b"", now),
            "fail": (broker.fail, core.Failure("E", "x"), now, priority),
            "release": (broker.release, core.NEVER, now, None, priority),
            "later": (broker.release, now + 500, now, None, priority),
            "give_back": (broker.give_back, now),
            "extend": (broker.extend, now + 4_000),
        }
        verb_of_broker, *rest = arguments[verb]
        verb_of_broker(job, holder, *rest)

    @rule(who=st.integers(0, 3), pick=PICK)
    def finish_late(self, who: int, pick: int) -> None:
        over = [j for j in self.broker.jobs.values() if j.attempts and j.state <= READY]
        if not over:
            return
        job = over[pick % len(over)]
        holder = self.sessions[who].holder
        may = job.holder == holder
        try:
            self.broker.finish_late(job, holder, b"", self.now)
        except NotHeld:
            assert not may
            return
        assert may
        self.model.hear(self.broker, self.now)
        self.model.end(self.model.jobs[job.id], self.now, self.broker)

    @rule(who=st.integers(0, 3))
    def hang_up(self, who: int) -> None:
        session = self.sessions[who]
        model = self.model
        gone = [d for d in model.demands.values() if d.session is session]
        for demand in gone:
            del model.demands[id(demand)]
        mine = list(session.leases.values())
        self.broker.close_session(session, self.now)
        for entry in list(model.jobs.values()):
            model.unwatch(entry, session.holder, self.now, self.broker)
        model.hear(self.broker, self.now)
        for job in mine:
            entry = model.jobs[job.id]
            entry.bound = False
            as_failure = session.on_hang_up is core.OnHangUp.FAIL
            model.lose(entry, self.now, self.broker, as_failure=as_failure)
        self.sessions[who] = self.broker.open_session(session.holder, session.on_hang_up, None)

    @rule(who=st.integers(0, 3), pick=PICK, stop=st.sampled_from((False, False, False, True)))
    def watch(self, who: int, pick: int, stop: bool) -> None:
        """Watch a job that is known, once more if it was watched before; or watch no more."""
        known = {*self.broker.jobs, *(taken.id for _, taken in self.broker.keys.items())}
        if not known:
            return
        job_id = sorted(known)[pick % len(known)]
        session, entry = self.sessions[who], self.model.jobs[job_id]
        if not stop:
            self.broker.watch(job_id, session)
            entry.watchers[session.holder] += 1
            entry.guest = True
            return
        self.broker.unwatch(job_id, session, self.now)
        self.model.unwatch(entry, session.holder, self.now, self.broker)
        self.model.hear(self.broker, self.now)

    # -- time ---------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from((0, 1, 60, 900, 1_500, 4_000)))
    def tick(self, ms: int) -> None:
        self.now += ms
        self.broker.tick(self.now)
        self.model.hear(self.broker, self.now)
        self.model.tick(self.now, self.broker, truth(self.broker, self.disk))
        for entry in self.model.jobs.values():
            entry.bound = entry.bound and entry.state is LEASED

    # -- steering -------------------------------------------------------------------------------------

    @rule(
        queue=queues,
        what=st.sampled_from(("pause", "resume", "resume", "purge", "purge", "remove", "flush")),
        sure=st.integers(0, 1),
        ms=st.sampled_from((0, 40, 1_000)),
    )
    def operate(self, queue: str, what: str, sure: int, ms: int) -> None:
        """What ends many jobs at once must not happen so often that there never are many."""
        if what in ("pause", "resume"):
            self._pause(queue, what == "pause", self.now + ms if ms else core.NEVER)
        elif sure == 0 and what == "flush":
            self._flush()
        elif sure == 0:
            self._purge(queue, what == "remove")

    def _pause(self, queue: str, paused: bool, until: int) -> None:
        listed = queue in {count.queue for count in self.broker.counts()}
        if paused:
            self.broker.pause(queue, until)
            if listed:
                self.model.paused[queue] = until
        else:
            self.broker.resume(queue, self.now)
            self.model.paused.pop(queue, None)
            self._grants()

    def _grants(self) -> None:
        """What was given of jobs that were ready before this step."""
        self.model.hear(self.broker, self.now)
        waits = [j for j in self.model.jobs.values() if j.state is READY]
        if waits:
            self.model.ready(waits[0], self.now, self.broker)

    def _purge(self, queue: str, forget: bool) -> None:
        ready = [j for j in self.model.jobs.values() if j.queue == queue and j.state is READY]
        if forget:
            self.broker.remove_queues((queue,), self.now)
            self.model.paused.pop(queue, None)
        else:
            assert self.broker.purge_queues((queue,), self.now) == len(ready)
        for entry in ready:
            self.model.end(entry, self.now, self.broker)
        self.model.hear(self.broker, self.now)

    def _flush(self) -> None:
        self.broker.flush(self.now)
        for entry in self.model.jobs.values():
            entry.behind = 0
        for entry in list(self.model.jobs.values()):
            self.model.end(entry, self.now, self.broker)
        self.model.paused.clear()
        self.model.hear(self.broker, self.now)

    @rule(
        verb=st.sampled_from(("cancel", "kill", "retry", "retry", "lease", "lease")),
        pick=PICK,
        dead=st.booleans(),
    )
    def steer(self, verb: str, pick: int, dead: bool) -> None:
        """One job, wherever it lies, brought by the store if need be."""
        ids = [j.id for j in self.model.jobs.values() if not dead or j.state is DEAD]
        if not ids:
            return
        job_id = sorted(ids)[pick % len(ids)]
        volatile = not self.model.jobs[job_id].policy.durable
        if volatile:
            self._steer(verb, self.broker.jobs[job_id])
        else:
            self.broker.recall(core.JobQuery(ids=(job_id,)), _Steerer(self, verb))
            self.write()

    def _steer(self, verb: str, job: core.Job) -> None:
        model, now = self.model, self.now
        entry = model.jobs[job.id]
        alive = [
            j for j in model.jobs.values()
            if j.state is not DEAD and j is not entry and j.behind != entry.id
        ]  # fmt: skip
        taken = entry.key and (entry.queue, entry.key) in [(j.queue, j.key) for j in alive]
        runs = entry.state is LEASED or bool(entry.behind)
        session = self.sessions[job.id % len(self.sessions)]
        arguments = (job, session, now) if verb == "lease" else (job, now)
        try:
            getattr(self.broker, verb)(*arguments)
        except NotUnique:
            assert verb in ("retry", "lease")
            assert taken, "refused, though the key is free"
            return
        except NotHeld:
            assert verb == "lease"
            assert runs, "refused, though nobody runs it"
            return
        entry.bound = False
        if entry.state is DEAD:
            entry.run_at -= core.KEPT_MS * entry.policy.keep_dead
        model.hear(self.broker, now)
        if verb == "cancel":
            if entry.state is DEAD:
                assert not entry.watchers
            model.end(entry, now, self.broker)
        elif verb == "kill":
            entry.policy = replace(entry.policy, bury=True)
            model.bury(entry, now, self.broker)
        elif verb == "lease":
            assert not taken, "two jobs to a key"
            assert not runs, "two runs of one job"
            model.hold(entry, session, now, self.broker)
        else:
            assert not taken, "two jobs to a key"
            if not model.gives_way(entry, now, self.broker):
                model.enqueue(entry, now, self.broker)

    # -- the store ------------------------------------------------------------------------------------

    @rule()
    def write(self) -> None:
        before = self.model.saved
        write_out(self.broker, _Noting(self), self.now)
        assert self.model.saved is not before
        self._grants()
        if not self.broker.has_changes():
            self.disk.verify(self.broker)

    @rule(sure=st.booleans())
    def crash(self, sure: bool) -> None:
        if not sure:
            self.write()
            return
        self.broker = Broker(LIMITS, Random(7))
        self.broker.restore_at(self.disk.snapshot(), self.now)
        self.model.crash(self.now, self.broker)
        self._connect()

    @invariant()
    def everything_agrees(self) -> None:
        if hasattr(self, "broker"):
            self.model.check(self.broker, truth(self.broker, self.disk))


class _Noting(Disk):
    """The machine's disk; the model knows the moment at which it was told everything."""

    def __init__(self, machine: BrokerMachine) -> None:
        self.machine = machine

    def write(self, changes: Any, wants: Any) -> list[list[core.Job]]:
        """As the disk does it."""
        answers = self.machine.disk.write(changes, wants)
        self.machine.model.save()
        return answers


class _Steerer:
    """Whoever recalled a job in order to steer it."""

    def __init__(self, machine: BrokerMachine, verb: str) -> None:
        self.machine = machine
        self.verb = verb

    def recalled(self, query: core.JobQuery, jobs: list[core.Job], now: int) -> None:
        """Steer it, if it is still there."""
        self.machine._grants()
        for job in jobs:
            try:
                self.machine._steer(self.verb, job)
            except NotFound:
                assert job.id not in self.machine.model.jobs
            except KeyError:
                assert job.state > core.State.LEASED
