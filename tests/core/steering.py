"""T7, where no peer speaks: operators steer queues and jobs, the store is told, the server crashes.

`machine.py` builds on it what peers say.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.errors import NotFound, NotUnique
from franca.core.limits import Limits
from franca.core.model import Job, JobQuery, OnHangUp, Session, State
from tests.core.model import DEAD, READY, Model, truth
from tests.sim.disk import Disk, write_out

LIMITS = Limits(
    window_jobs=4, supply_jobs=2, due_jobs=100, losses_max=3, recent_names=3,
    large_body_bytes=0, large_bytes=1, window_bytes=6, supply_bytes=3,
)  # fmt: skip
PICK = st.integers(0, 1_000)
queues = st.sampled_from(("a", "b"))


class SteeredMachine(RuleBasedStateMachine):
    """A broker, its disk and the model; whoever builds on it makes them as they begin."""

    now: int
    broker: Broker
    disk: Disk
    model: Model
    sessions: list[Session]

    def _connect(self) -> None:
        kinds = (OnHangUp.KEEP, OnHangUp.RETURN, OnHangUp.FAIL, OnHangUp.RETURN)
        self.sessions = [
            self.broker.open_session(f"w{n}", kind, None) for n, kind in enumerate(kinds)
        ]

    # -- steering -------------------------------------------------------------------------------------

    @rule(
        queue=queues,
        what=st.sampled_from(("pause", "resume", "resume", "purge", "purge", "remove", "flush")),
        sure=st.integers(0, 1),
    )
    def operate(self, queue: str, what: str, sure: int) -> None:
        """What ends many jobs at once must not happen so often that there never are many."""
        if what in ("pause", "resume"):
            self._pause(queue, what == "pause")
        elif sure == 0 and what == "flush":
            self._flush()
        elif sure == 0:
            self._purge(queue, what == "remove")

    def _pause(self, queue: str, paused: bool) -> None:
        listed = queue in {count.queue for count in self.broker.counts()}
        if paused:
            self.broker.pause(queue)
            if listed:
                self.model.paused.add(queue)
        else:
            self.broker.resume(queue, self.now)
            self.model.paused.discard(queue)
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
            self.broker.remove_queue(queue, self.now)
            self.model.paused.discard(queue)
        else:
            assert self.broker.purge(queue, self.now) == len(ready)
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

    @rule(verb=st.sampled_from(("cancel", "kill", "retry")), pick=PICK, dead=st.booleans())
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
            self.broker.recall(JobQuery(ids=(job_id,)), _Steerer(self, verb))
            self.write()

    def _steer(self, verb: str, job: Job) -> None:
        model, now = self.model, self.now
        entry = model.jobs[job.id]
        alive = [
            j for j in model.jobs.values()
            if j.state is not DEAD and j is not entry and j.behind != entry.id
        ]  # fmt: skip
        taken = entry.key and (entry.queue, entry.key) in [(j.queue, j.key) for j in alive]
        try:
            getattr(self.broker, verb)(job, now)
        except NotUnique:
            assert verb == "retry"
            assert taken, "refused, though the key is free"
            return
        entry.bound = False
        model.hear(self.broker, now)
        if verb == "cancel":
            if entry.state is DEAD:
                assert not entry.watchers
            model.end(entry, now, self.broker)
        elif verb == "kill":
            entry.policy = replace(entry.policy, bury=True)
            model.bury(entry, now, self.broker)
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

    def __init__(self, machine: SteeredMachine) -> None:
        self.machine = machine

    def write(self, changes: Any, wants: Any) -> list[list[Job]]:
        """As the disk does it."""
        answers = self.machine.disk.write(changes, wants)
        self.machine.model.save()
        return answers


class _Steerer:
    """Whoever recalled a job in order to steer it."""

    def __init__(self, machine: SteeredMachine, verb: str) -> None:
        self.machine = machine
        self.verb = verb

    def recalled(self, query: JobQuery, jobs: list[Job], now: int) -> None:
        """Steer it, if it is still there."""
        self.machine._grants()
        for job in jobs:
            try:
                self.machine._steer(self.verb, job)
            except NotFound:
                assert job.id not in self.machine.model.jobs
            except KeyError:
                assert job.state > State.LEASED
