"""Planted bugs, each of which some seed must catch: of the core, of the conversation, of the node."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from franca.core.broker import Broker
from franca.core.events import Finished
from franca.core.heirs import Heirs
from franca.core.known import Known
from franca.core.life import Life
from franca.core.lines import Lines
from franca.core.model import Demand, Failure, Job, JobId, Millis, NewJob, Session, State
from franca.core.ready import Queue
from franca.core.reasons import EXPIRED
from franca.core.sessions import Sessions
from franca.core.tail import Snapshot, Tail
from franca.core.waiting import Waiting
from franca.protocols.gearman.conversation import GearmanConversation
from franca.protocols.memodb.clients import Clients
from franca.protocols.memodb.crew import Crew
from franca.protocols.memodb.requests import Requests
from franca.protocols.memodb.workers import Worker
from franca.protocols.periodic.asking import Asking
from franca.protocols.periodic.jobs import KEY
from tests.sim.planting import Mutants
from tests.sim.run import hunt
from tests.sim.server import Carrier, Group, Server

MUTANTS = Mutants()
SEEDS = range(400)
"""As many as a bug may hide from."""

# -- of the node ----------------------------------------------------------------------------


@MUTANTS.of(Server, "needed_group")
def speak_before_the_commit(needed_group: Any) -> Any:
    def none(self: Server) -> Group | None:
        return None

    return none


@MUTANTS.of(Server, "group_ahead")
def words_overtake_those_that_wait(group_ahead: Any) -> Any:
    def none(self: Server, carrier: Carrier) -> Group | None:
        return None

    return none


# -- of the core, at a restart ----------------------------------------------------------------


@MUTANTS.of(Broker, "restore_at")
def leases_are_not_restored(restore_at: Any) -> Any:
    def forget(self: Broker, snapshot: Snapshot, now: Millis) -> None:
        for job in snapshot.held:
            job.bound = True
        restore_at(self, snapshot, now)

    return forget


@MUTANTS.of(Tail, "restore")
def the_tail_is_forgotten_at_a_restart(restore: Any) -> Any:
    def forget(self: Tail, snapshot: Snapshot) -> None:
        snapshot.tail = []
        restore(self, snapshot)

    return forget


@MUTANTS.of(Life, "finish")
def an_ack_is_not_durable(finish: Any) -> Any:
    def forget(self: Life, job: Job, holder: str, result: bytes, now: Millis) -> None:
        finish(self, job, holder, result, now)
        del self._dirty[job.id]

    return forget


# -- of the core, any time ----------------------------------------------------------------------


@MUTANTS.of(Lines, "_lease")
def leases_end_early(lease: Any) -> Any:
    def shorten(self: Lines, job: Job, demand: Demand, queue: Queue, now: Millis) -> None:
        lease(self, job, demand, queue, now)
        job.until -= job.policy.lease_ms // 2

    return shorten


@MUTANTS.of(Broker, "tick")
def leases_are_counted_by_the_wall_clock(tick: Any) -> Any:
    def expire(self: Broker, now: Millis) -> None:
        for job in list(self.jobs.values()):
            if job.state is State.LEASED and 0 < job.until <= self.wall(now):
                self._lose(job, EXPIRED, now, as_failure=False)
        tick(self, now)

    return expire


@MUTANTS.of(Waiting, "due")
def due_too_early(due: Any) -> Any:
    return lambda self, now, most: due(self, now + 30_000, most)


@MUTANTS.of(Life, "_count_failure")
def failures_are_not_counted(count_failure: Any) -> Any:
    return lambda self, job, now: None


@MUTANTS.of(Queue, "pop")
def the_last_comes_first(pop: Any) -> Any:
    def last(self: Queue) -> Job:
        levels = [self._levels[priority] for priority in reversed(self._order)]
        job = next(job for level in levels for job in reversed(level) if isinstance(job, Job))
        self.remove(job)
        return job

    return last


@MUTANTS.of(Lines, "_choose")
def a_paused_queue_gives_jobs(choose: Any) -> Any:
    def choose_anyway(self: Lines, demand: Demand) -> Queue | None:
        paused = [q for q in self.queues.values() if q.paused]
        for queue in paused:
            queue.paused = False
        chosen: Queue | None = choose(self, demand)
        for queue in paused:
            queue.paused = True
        return chosen

    return choose_anyway


@MUTANTS.of(Queue, "cut")
def a_job_is_lost_at_the_cut(cut: Any) -> Any:
    return lambda self, keep, keep_bytes: cut(self, keep, keep_bytes)[1:]


# -- of the core, where somebody waits, watches or is cut off ---------------------------------------


@MUTANTS.of(Lines, "_wake_enough")
def nobody_is_woken(wake_enough: Any) -> Any:
    return lambda self, queue: None


@MUTANTS.of(Lines, "_heard")
def who_was_woken_counts_for_ever(heard: Any) -> Any:
    def forget(self: Lines, session: Session) -> Queue:
        queue: Queue = heard(self, session)
        queue.woken += 1
        return queue

    return forget


@MUTANTS.of(Sessions, "close_session")
def a_lost_worker_keeps_its_job(close_session: Any) -> Any:
    def keep(self: Broker, session: Session, now: Millis) -> None:
        session.leases.clear()
        close_session(self, session, now)

    return keep


@MUTANTS.of(Life, "_tell_end")
def only_the_first_hears_the_end(tell_end: Any) -> Any:
    def tell(self: Life, job: Job, failure: Failure) -> None:
        watchers = self._watchers.get(job.id, {})
        for session in list(watchers)[1:]:
            del watchers[session]
        tell_end(self, job, failure)

    return tell


@MUTANTS.of(Sessions, "unwatch")
def who_waited_takes_the_job_along(unwatch: Any) -> Any:
    def take(self: Broker, job_id: JobId, session: Session, now: Millis) -> None:
        job = self.jobs.get(job_id)
        if job is not None and not job.policy.dies_unwatched:
            job.policy = replace(job.policy, dies_unwatched=True)
        unwatch(self, job_id, session, now)

    return take


@MUTANTS.of(Broker, "_join")
def a_background_job_stays_fleeting(join: Any) -> Any:
    def stay(self: Broker, taken: Job | Known, new: NewJob, watcher: Session | None) -> Job:
        new.policy = replace(new.policy, durable=False)
        joined: Job = join(self, taken, new, watcher)
        return joined

    return stay


# -- of the conversation ------------------------------------------------------------------------


@MUTANTS.of(GearmanConversation, "_tell_lost")
def whose_time_is_over_is_not_told(tell_lost: Any) -> Any:
    return lambda self, job: None


@MUTANTS.of(Crew, "_says_again")
def a_result_said_again_ends_the_next_job(says_again: Any) -> Any:
    def never(self: Crew, worker: Worker, data: bytes, start: int, at: int, *rest: Any) -> bool:
        says_again(self, worker, data, start, at, *rest)
        worker.stack = data[start:at]
        return False

    return never


@MUTANTS.of(Requests, "answered")
def replies_are_not_remembered(answered: Any) -> Any:
    return lambda self, request, reply, now: self.forget(request)


@MUTANTS.of(Requests, "adopt")
def who_goes_while_a_job_runs_never_hears_of_it(adopt: Any) -> Any:
    return lambda self, request: None


@MUTANTS.of(Clients, "on_finished")
def answers_are_given_to_the_wrong_request(on_finished: Any) -> Any:
    def mix_up(self: Clients, event: Finished, now: Millis) -> None:
        mine = self.asked.get(event.job.id)
        other = next((a for a in self.asked.values() if a is not mine), None)
        if mine is not None and other is not None:
            self.asked[event.job.id] = (mine[0], other[1])
        on_finished(self, event, now)

    return mix_up


@MUTANTS.of(Clients, "drop_unserved")
def who_asks_for_what_nobody_offers_waits_for_ever(_: Any) -> Any:
    return lambda self, now: None


@MUTANTS.of(Asking, "take_in")
def a_submit_while_the_job_runs_is_dropped(take_in: Any) -> Any:
    def drop(self: Asking, task: Any, now: Millis) -> None:
        taken = self.broker.keyed(task.func, KEY + task.name)
        if taken is None or taken.state is not State.LEASED:
            take_in(self, task, now)

    return drop


@MUTANTS.of(Heirs, "_succeed")
def what_waits_behind_a_run_is_forgotten(succeed: Any) -> Any:
    def forget(self: Life, job_id: JobId, now: Millis) -> None:
        heir = self._heirs[job_id]
        succeed(self, job_id, now)
        if heir.state is State.READY and heir.id in self.jobs:
            self._take_out(heir, now)
            self._end(heir, State.CANCELLED, b"", Failure(), now)

    return forget


def caught_by(name: str) -> int | None:
    """The first seed that catches the bug, or None."""
    with MUTANTS.planted(name):
        for life in hunt(SEEDS, first_only=True):
            if life.violations:
                return life.seed
    return None
