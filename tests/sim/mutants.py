"""Planted bugs, each of which some seed must catch: of the core, of the conversation, of the node."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from franca.core.backlog import Backlog
from franca.core.broker import Broker
from franca.core.dispatch import Dispatch
from franca.core.events import Finished
from franca.core.leases import Leases
from franca.core.lifecycle import Lifecycle
from franca.core.model import Demand, Failure, Job, JobId, Millis, NewJob, Outcome, Session, State
from franca.core.queues import Queue
from franca.core.sessions import Sessions
from franca.core.stubs import Stub
from franca.core.upkeep import Upkeep
from franca.core.waiting import Waiting
from franca.core.wants import Snapshot
from franca.core.watches import Watches
from franca.core.window import Window
from franca.protocols.gearman.conversation import GearmanConversation
from franca.protocols.memodb.client_commands import Clients
from franca.protocols.memodb.messages import Message
from franca.protocols.memodb.requests import Requests
from franca.protocols.memodb.worker_commands import ConnectionWorkers
from franca.protocols.memodb.workers import Worker
from franca.protocols.periodic import client_commands as periodic_clients
from franca.protocols.periodic.conversation import PeriodicConversation
from franca.protocols.periodic.jobs import KEY
from tests.sim.planting import Mutants
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


@MUTANTS.of(Backlog, "restore")
def the_tail_is_forgotten_at_a_restart(restore: Any) -> Any:
    def forget(self: Backlog, snapshot: Snapshot) -> None:
        snapshot.tail = []
        restore(self, snapshot)

    return forget


@MUTANTS.of(Lifecycle, "finish")
def an_ack_is_not_durable(finish: Any) -> Any:
    def forget(self: Lifecycle, job: Job, holder: str, result: bytes, now: Millis) -> None:
        finish(self, job, holder, result, now)
        del self._changelog.dirty[job.id]

    return forget


# -- of the core, any time ----------------------------------------------------------------------


@MUTANTS.of(Leases, "grant")
def leases_end_early(grant: Any) -> Any:
    def shorten(self: Leases, job: Job, demand: Demand, queue: Queue, now: Millis) -> None:
        grant(self, job, demand, queue, now)
        job.until -= job.policy.lease_ms // 2

    return shorten


@MUTANTS.of(Upkeep, "tick")
def leases_are_counted_by_the_wall_clock(tick: Any) -> Any:
    def expire(self: Upkeep, now: Millis) -> None:
        broker = self._broker
        for job in list(broker.jobs.values()):
            if job.state is State.LEASED and 0 < job.until <= broker.wall(now):
                broker.lifecycle.lose(job, Outcome.EXPIRED, now, as_failure=False)
        tick(self, now)

    return expire


@MUTANTS.of(Waiting, "due")
def due_too_early(due: Any) -> Any:
    return lambda self, now, most: due(self, now + 30_000, most)


@MUTANTS.of(Lifecycle, "_count_failure")
def failures_are_not_counted(count_failure: Any) -> Any:
    return lambda self, job, now: None


@MUTANTS.of(Window, "pop")
def the_last_comes_first(pop: Any) -> Any:
    def last(self: Queue) -> Job:
        levels = [self._levels[-negated] for negated in reversed(self._order)]
        job = next(job for level in levels for job in reversed(level) if isinstance(job, Job))
        self.remove(job)
        return job

    return last


@MUTANTS.of(Dispatch, "_choose")
def a_paused_queue_gives_jobs(choose: Any) -> Any:
    def choose_anyway(self: Dispatch, demand: Demand) -> Queue | None:
        paused = [q for q in self._by_name.values() if q.paused]
        for queue in paused:
            queue.paused = False
        chosen: Queue | None = choose(self, demand)
        for queue in paused:
            queue.paused = True
        return chosen

    return choose_anyway


@MUTANTS.of(Window, "cut")
def a_job_is_lost_at_the_cut(cut: Any) -> Any:
    return lambda self, *bounds: cut(self, *bounds)[1:]


# -- of the core, where somebody waits, watches or is cut off ---------------------------------------


@MUTANTS.of(Dispatch, "wake")
def nobody_is_woken(wake: Any) -> Any:
    return lambda self, queue: None


@MUTANTS.of(Dispatch, "_asks")
def who_was_woken_counts_for_ever(asks: Any) -> Any:
    def forget(self: Dispatch, session: Session) -> Queue:
        queue: Queue = asks(self, session)
        queue.woken += 1
        return queue

    return forget


@MUTANTS.of(Sessions, "close_session")
def a_lost_worker_keeps_its_job(close_session: Any) -> Any:
    def keep(self: Sessions, session: Session, now: Millis) -> None:
        session.leases.clear()
        close_session(self, session, now)

    return keep


@MUTANTS.of(Watches, "tell_end")
def only_the_first_hears_the_end(tell_end: Any) -> Any:
    def tell(self: Watches, job: Job, failure: Failure, result: bytes = b"") -> None:
        watchers = self.by_job.get(job.id, {})
        for session in list(watchers)[1:]:
            del watchers[session]
        tell_end(self, job, failure, result)

    return tell


@MUTANTS.of(Sessions, "unwatch")
def who_waited_takes_the_job_along(unwatch: Any) -> Any:
    def take(self: Sessions, job_id: JobId, session: Session, now: Millis) -> None:
        job = self._jobs.get(job_id)
        if job is not None and not job.policy.dies_unwatched:
            job.policy = replace(job.policy, dies_unwatched=True)
        unwatch(self, job_id, session, now)

    return take


@MUTANTS.of(Broker, "_join")
def a_background_job_stays_fleeting(join: Any) -> Any:
    def stay(self: Broker, taken: Job | Stub, new: NewJob, watcher: Session | None) -> Job:
        new.policy = replace(new.policy, durable=False)
        joined: Job = join(self, taken, new, watcher)
        return joined

    return stay


# -- of the conversation ------------------------------------------------------------------------


@MUTANTS.of(GearmanConversation, "_on_lease_lost")
def whose_time_is_over_is_not_told(tell_lost: Any) -> Any:
    return lambda self, job: None


@MUTANTS.of(ConnectionWorkers, "_is_sent_again")
def a_result_said_again_ends_the_next_job(is_sent_again: Any) -> Any:
    def never(self: ConnectionWorkers, worker: Worker, message: Message) -> bool:
        is_sent_again(self, worker, message)
        worker.stack = message.stack
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


@MUTANTS.of(periodic_clients, "submit")
def a_submit_while_the_job_runs_is_dropped(submit: Any) -> Any:
    def drop(connection: PeriodicConversation, job: Any, now: Millis) -> None:
        taken = connection.broker.keyed(job.func, KEY + job.name)
        if taken is None or taken.state is not State.LEASED:
            submit(connection, job, now)

    return drop


@MUTANTS.of(Lifecycle, "_succeed")
def what_waits_behind_a_run_is_forgotten(succeed: Any) -> Any:
    def forget(self: Lifecycle, job_id: JobId, now: Millis) -> None:
        successor = self.successors.by_job[job_id]
        succeed(self, job_id, now)
        if successor.state is State.READY and successor.id in self._index.jobs:
            self.cancel(successor, Failure(), now)

    return forget
