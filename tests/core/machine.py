"""T7: a broker and its disk against the model, one random verb after the other.

Windows are tiny, so that tails are everywhere; the disk is told at random moments; a crash makes a
new broker from what the disk was told. Hypothesis draws the steps and shortens those that fail.
"""

from collections.abc import Callable
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
from tests.support.queue_counts import queue_counts

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
VERBS = ("finish", "finish", "fail", "release", "later", "give_back", "extend")
QUEUES = (("a",), ("b",), ("a", "b"), ("b", "a", "b"))


WHO = st.integers(0, 3)
"""Which of the sessions."""
KINDS = (core.OnHangUp.KEEP, core.OnHangUp.RETURN, core.OnHangUp.FAIL, core.OnHangUp.RETURN)


class BrokerMachine(RuleBasedStateMachine):
    """Every rule is: one verb of the broker, the same in the model; then all is compared."""

    disk: Disk
    model: Model
    sessions: list[core.Session]

    @property
    def now(self) -> int:
        return self.model.now

    @property
    def broker(self) -> Broker:
        return self.model.broker

    @initialize(backlog=st.sampled_from((0, 7, 12, 18)), delay=st.sampled_from((0, 0, 2_000)))
    def begin(self, backlog: int, delay: int) -> None:
        self.model = Model(Broker(LIMITS, Random(7)), now=1_000_000)
        self.disk = Disk(LIMITS.large_body_bytes)
        self._connect()
        for number in range(backlog):
            fields: dict[str, Any] = {"policy": POLICIES[number % 3], "priority": number % 2}
            self._submit(key=f"b{number}", delay=delay and delay + number, **fields)

    def _connect(self) -> None:
        open_session = self.broker.open_session
        self.sessions = [open_session(f"w{n}", kind, None) for n, kind in enumerate(KINDS)]

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
    def submit(self, watcher: int | None, times: int, **fields: Any) -> None:
        for _ in range(1 if fields["key"] else times):
            self._submit(watcher, **fields)

    @rule(
        pick=PICK,
        policy=st.sampled_from(POLICIES),
        delay=st.sampled_from((0, 0, 3_000)),
        watcher=st.sampled_from((None, 2)),
    )
    def replace_running(
        self, pick: int, policy: core.Policy, delay: int, watcher: int | None
    ) -> None:
        if runs := [job for job in self.model.in_state(LEASED) if job.key]:
            job = runs[pick % len(runs)]
            conflict = {"key": job.key, "on_conflict": core.OnConflict.REPLACE}
            self._submit(watcher, queue=job.queue, policy=policy, delay=delay, **conflict)

    def _submit(
        self, watcher: int | None = None, *, queue: str = "a", delay: int = 0, **more: Any
    ) -> None:
        new = core.NewJob(queue, "k", b"x", **more)
        new.run_at = self.now + delay if delay else core.NEVER
        taken = self.model.keyed().get((new.queue, new.key))
        session = None if watcher is None else self.sessions[watcher]
        try:
            job = self.broker.submit(new, self.now, session)
        except NotUnique:
            assert taken, "refused, though the key is free"
            assert new.on_conflict is core.OnConflict.REFUSE
            return
        if taken and new.on_conflict is core.OnConflict.JOIN:
            assert job.id == taken.id, "joined another job"
            entry = taken
            if new.policy.durable and not taken.policy.durable:
                taken.policy, taken.guest = new.policy, True
        else:
            assert not taken or new.on_conflict is core.OnConflict.REPLACE, "the key was taken"
            entry = self._entry(job.id, new)
            if taken:
                self._replace(taken, entry)
        if session is not None:
            entry.watchers[session.holder] += 1
            entry.guest = True
        self.model.hear()
        if entry is not taken and not entry.behind:
            self._place(entry)

    def _entry(self, job_id: int, new: core.NewJob) -> Entry:
        assert job_id not in self.model.jobs, "an old id"
        assert job_id == self.broker.totals.last_job_id, "an old id"
        entry = Entry(job_id, new.queue, new.policy, new.priority, new.key, new.run_at, new.name)
        entry.guest = not new.policy.durable
        self.model.jobs[job_id] = entry
        return entry

    def _place(self, entry: Entry) -> None:
        if entry.run_at <= self.now:
            self.model.enqueue(entry)
            return
        entry.state = WAITING
        if entry.policy.keeps_place:
            self.model.take_place(entry)

    def _replace(self, taken: Entry, entry: Entry) -> None:
        """A job that waits makes room at once, one that runs when its run is over."""
        waits: Entry | None = taken
        if taken.state is LEASED:
            waits = self.model.successor(taken)
            entry.behind, entry.state = taken.id, WAITING
        if waits is not None:
            waits.behind = 0
            self.model.pass_on(waits, entry)
            self.model.end(waits)

    @rule(name=st.sampled_from("mnop"), queue=queues, delay=st.sampled_from((0, 3_000)))
    def submit_once(self, name: str, queue: str, delay: int) -> None:
        run_at = 1_000_000 + 600_000 if delay else core.NEVER
        new = core.NewJob(queue, "k", b"x", POLICIES[0], name, once=True, digest=1, run_at=run_at)
        unrun = [j for j in self.model.jobs.values() if j.state <= READY and not j.attempts]
        same = [j.id for j in unrun if (j.name, j.queue, j.run_at) == (name, queue, run_at)]
        is_held = any(job_id in self.broker.jobs for job_id in same)
        job = self.broker.submit(new, self.now)
        if job.id not in same:
            # Only the last few names of the tail are remembered.
            is_forgotten = not is_held and len(self.model.jobs) > LIMITS.recent_names
            assert not same or is_forgotten, "a push said twice is two jobs"
            entry = self._entry(job.id, new)
            self.model.hear()
            self._place(entry)

    # -- asking -----------------------------------------------------------------------------------

    @rule(
        who=WHO,
        names=st.sampled_from(QUEUES),
        wait=st.sampled_from((-1, 0, 2_000)),
        choice=st.sampled_from(list(core.Choice)),
        only_wake=st.booleans(),
    )
    def demand(
        self, who: int, names: tuple[str, ...], wait: int, choice: core.Choice, only_wake: bool
    ) -> None:
        model = self.model
        until = core.NEVER if wait < 0 else self.now + wait
        demand = core.Demand(self.sessions[who], names, until, choice, only_wake)
        ready = [job for job in model.in_state(READY, *names) if job.queue not in model.paused]
        in_memory = [j for j in ready if j.id in self.broker.jobs and not self._held_back(j)]
        answer = self.broker.demand(demand, self.now)
        if isinstance(answer, Granted):
            given = model.jobs[answer.job.id]
            if choice is core.Choice.LISTED:
                first = min((names.index(j.queue) for j in in_memory), default=None)
                assert names.index(given.queue) == first, "not the first queue of the list"
            else:
                assert given.priority == min(j.priority for j in in_memory), "not the most urgent"
            model.lease(given.id, demand)
        elif isinstance(answer, Woken):
            assert only_wake
            assert ready, "woken for nothing"
        else:
            assert not in_memory, f"{in_memory} ready, and not given"
            assert isinstance(answer, Unmet) == (wait == 0)
            if answer is None:
                model.demands[id(demand)] = demand
        model.hear()

    def _held_back(self, job: Entry) -> bool:
        """Whether it is in memory before its turn, and a more urgent one lies in the store."""
        ready = self.model.in_state(READY, job.queue)
        return any(j.priority < job.priority and j.id not in self.broker.jobs for j in ready)

    @rule(who=WHO, names=st.sampled_from(QUEUES), wait=st.just(2_000))
    def take(self, who: int, names: tuple[str, ...], wait: int) -> None:
        """The usual demand, so that jobs run as often as all the rest happens."""
        self.demand(who, names, wait, core.Choice.LISTED, only_wake=False)

    @rule(who=WHO, more=st.integers(0, 2))
    def run_low(self, who: int, more: int) -> None:
        """Take so many that the store is asked for the next, and some of these at once."""
        for _ in range(3):
            self.take(who, ("a",), 0)
        self.write()
        for _ in range(more):
            self.take(who, ("a",), 0)

    @rule(pick=PICK)
    @precondition(lambda self: self.model.demands)
    def withdraw(self, pick: int) -> None:
        demand = list(self.model.demands.values())[pick % len(self.model.demands)]
        del self.model.demands[id(demand)]
        self.broker.withdraw(demand)

    # -- what a holder says -----------------------------------------------------------------------

    @rule(
        verb=st.sampled_from(VERBS),
        who=WHO,
        pick=PICK,
        priority=st.sampled_from((None, None, 0, 2)),
    )
    def speak(self, verb: str, who: int, pick: int, priority: int | None) -> None:
        """A word about some job, by its holder or by somebody else."""
        model, broker, now = self.model, self.broker, self.now
        jobs = list(broker.jobs.values())
        jobs = [job for job in jobs if job.state is LEASED] or jobs
        if not jobs:
            return
        job, holder = jobs[pick % len(jobs)], self.sessions[who].holder
        entry = model.jobs[job.id]
        verbs: dict[str, Callable[[], object]] = {
            "finish": lambda: broker.finish(job, holder, b"", now),
            "fail": lambda: broker.fail(job, holder, core.Failure("E", "x"), now, priority),
            "release": lambda: broker.release(job, holder, core.NEVER, now, None, priority),
            "later": lambda: broker.release(job, holder, now + 500, now, None, priority),
            "give_back": lambda: broker.give_back(job, holder, now),
            "extend": lambda: broker.extend(job, holder, now + 4_000),
        }
        if not self._is_believed(entry.state is LEASED and entry.holder == holder, verbs[verb]):
            return
        if verb == "extend":
            entry.until = max(entry.until, now + 4_000) if entry.until else core.NEVER
            return
        entry.bound = False
        if verb in ("fail", "release", "later") and priority is not None:
            entry.priority = priority
        if verb == "finish":
            model.end(entry)
        elif verb == "fail":
            model.fail(entry)
        elif verb != "give_back" and entry.policy.no_retry_if_watched and entry.watchers:
            model.end(entry)
        else:
            entry.attempts -= verb == "give_back"
            if not model.gives_way(entry):
                if verb == "later":
                    entry.state, entry.run_at = WAITING, now + 500
                else:
                    model.ready(entry)

    def _is_believed(self, may: bool, say: Callable[[], object]) -> bool:
        """Whether the broker took somebody's word on a job: it must if it may."""
        try:
            say()
        except NotHeld:
            assert not may, "the holder is not believed"
            return False
        assert may, "somebody is believed who does not hold it"
        self.model.hear()
        return True

    @rule(who=WHO, pick=PICK)
    def finish_late(self, who: int, pick: int) -> None:
        over = [j for j in self.broker.jobs.values() if j.attempts and j.state <= READY]
        if over:
            job, holder = over[pick % len(over)], self.sessions[who].holder
            may, now = job.holder == holder, self.now
            if self._is_believed(may, lambda: self.broker.finish_late(job, holder, b"", now)):
                self.model.end(self.model.jobs[job.id])

    @rule(who=WHO)
    def hang_up(self, who: int) -> None:
        session, model = self.sessions[who], self.model
        model.demands = {k: d for k, d in model.demands.items() if d.session is not session}
        mine = list(session.leases.values())
        self.broker.close_session(session, self.now)
        for entry in list(model.jobs.values()):
            model.unwatch(entry, session.holder)
        model.hear()
        for job in mine:
            model.jobs[job.id].bound = False
            model.lose(model.jobs[job.id], as_failure=session.on_hang_up is core.OnHangUp.FAIL)
        self.sessions[who] = self.broker.open_session(session.holder, session.on_hang_up, None)

    @rule(who=WHO, pick=PICK, stop=st.sampled_from((False, False, False, True)))
    def watch(self, who: int, pick: int, stop: bool) -> None:
        """Watch a job that is known, once more if it was watched before; or watch no more."""
        known = {*self.broker.jobs, *(taken.id for _, taken in self.broker.keys.items())}
        if not known:
            return
        job_id = sorted(known)[pick % len(known)]
        session, entry = self.sessions[who], self.model.jobs[job_id]
        if stop:
            self.broker.unwatch(job_id, session, self.now)
            self.model.unwatch(entry, session.holder)
            self.model.hear()
        else:
            self.broker.watch(job_id, session)
            entry.watchers[session.holder] += 1
            entry.guest = True

    # -- time ---------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from((0, 1, 60, 900, 1_500, 4_000)))
    def tick(self, ms: int) -> None:
        self.model.now += ms
        self.broker.tick(self.now)
        self.model.hear()
        self.model.tick(truth(self.broker, self.disk))
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
        model, broker, now = self.model, self.broker, self.now
        if what in ("purge", "remove", "flush") and sure != 0:
            return
        gone: list[Entry] = []
        match what:
            case "pause":
                until = now + ms if ms else core.NEVER
                if queue in {count.queue for count in queue_counts(broker)}:
                    model.paused[queue] = until
                broker.pause(queue, until)
            case "resume":
                broker.resume(queue, now)
                model.paused.pop(queue, None)
            case "purge":
                gone = model.in_state(READY, queue)
                assert broker.purge_queues((queue,), now) == len(gone)
            case "remove":
                gone = model.in_state(READY, queue)
                broker.remove_queues((queue,), now)
                model.paused.pop(queue, None)
            case "flush":
                gone = list(model.jobs.values())
                broker.flush(now)
                model.paused.clear()
                for entry in gone:
                    entry.behind = 0
        for entry in gone:
            model.end(entry)
        self._grants()

    def _grants(self) -> None:
        """What was given of jobs that were ready before this step."""
        self.model.hear()
        self.model.give()

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
        self._verb = verb
        if self.model.jobs[job_id].policy.durable:
            self.broker.recall(core.JobQuery(ids=(job_id,)), self)
            self.write()
        else:
            self._steer(self.broker.jobs[job_id])

    def recalled(self, query: core.JobQuery, jobs: list[core.Job], now: int) -> None:
        """Steer it, if it is still there."""
        self._grants()
        for job in jobs:
            try:
                self._steer(job)
            except NotFound:
                assert job.id not in self.model.jobs
            except KeyError:
                assert job.state > LEASED

    def _steer(self, job: core.Job) -> None:
        model, now, verb = self.model, self.now, self._verb
        entry = model.jobs[job.id]
        keyed = model.keyed().get((entry.queue, entry.key), entry)
        is_taken = bool(entry.key) and keyed is not entry
        runs = entry.state is LEASED or bool(entry.behind)
        session = self.sessions[job.id % len(self.sessions)]
        arguments = (job, session, now) if verb == "lease" else (job, now)
        try:
            getattr(self.broker, verb)(*arguments)
        except NotUnique:
            assert verb in ("retry", "lease")
            assert is_taken, "refused, though the key is free"
            return
        except NotHeld:
            assert verb == "lease"
            assert runs, "refused, though nobody runs it"
            return
        entry.bound = False
        if entry.state is DEAD:
            entry.run_at -= core.KEPT_MS * entry.policy.keep_dead
        model.hear()
        if verb == "cancel":
            assert entry.state is not DEAD or not entry.watchers
            model.end(entry)
        elif verb == "kill":
            entry.policy = replace(entry.policy, bury=True)
            model.bury(entry)
        else:
            assert not is_taken, "two jobs to a key"
            if verb == "lease":
                assert not runs, "two runs of one job"
                model.hold(entry, session)
            elif not model.gives_way(entry):
                model.enqueue(entry)

    # -- the store ------------------------------------------------------------------------------------

    @rule()
    def write(self) -> None:
        self.model.save()
        write_out(self.broker, self.disk, self.now)
        self._grants()
        if not self.broker.has_changes():
            self.disk.verify(self.broker)

    @rule(sure=st.booleans())
    def crash(self, sure: bool) -> None:
        if not sure:
            self.write()
            return
        self.model.broker = Broker(LIMITS, Random(7))
        self.broker.restore_at(self.disk.snapshot(), self.now)
        self.model.crash()
        self._connect()

    @invariant()
    def everything_agrees(self) -> None:
        self.model.check(truth(self.broker, self.disk))
