"""Planted bugs, each of which the model must catch. A proof that misses one of them has no teeth."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from franca.core.backlog import Backlog
from franca.core.broker import Broker
from franca.core.changelog import Changelog
from franca.core.changes import Changes
from franca.core.dispatch import Dispatch
from franca.core.leases import Leases
from franca.core.lifecycle import Lifecycle
from franca.core.model import Demand, Job, Millis, NewJob, OnConflict, Session, State
from franca.core.queues import Queue
from franca.core.stubs import Stub
from franca.core.waiting import Waiting
from franca.core.wants import Snapshot
from franca.core.watches import Watches
from franca.core.window import Window
from tests.core.machine import BrokerMachine
from tests.sim import disk
from tests.sim.planting import Mutants

MUTANTS = Mutants()
mutant = MUTANTS.of


@mutant(Window, "cut")
def lose_a_job_at_the_cut(cut: Any) -> Any:
    return lambda self, *bounds: cut(self, *bounds)[1:]


@mutant(Lifecycle, "finish")
def no_fence(finish: Any) -> Any:
    return lambda self, job, holder, result, now: finish(self, job, job.holder, result, now)


@mutant(Backlog, "remove")
def tail_not_counted_down(remove: Any) -> Any:
    def keep(self: Backlog, job: Job | Stub, queue: Queue) -> None:
        queue.tail += job.state is State.READY
        remove(self, job, queue)

    return keep


@mutant(Dispatch, "_choose")
def deliver_from_a_paused_queue(choose: Any) -> Any:
    def choose_anyway(self: Dispatch, demand: Demand) -> Queue | None:
        paused = [q for q in self._by_name.values() if q.paused]
        for queue in paused:
            queue.paused = False
        chosen: Queue | None = choose(self, demand)
        for queue in paused:
            queue.paused = True
        return chosen

    return choose_anyway


@mutant(Dispatch, "enqueue")
def a_retried_job_keeps_its_place(enqueue: Any) -> Any:
    def keep(self: Dispatch, job: Job, queue: Queue, now: Millis) -> None:
        if job.place:
            self.offer(job, queue, now)
        else:
            enqueue(self, job, queue, now)

    return keep


@mutant(Window, "belongs_to_tail")
def a_stored_job_overtakes_those_in_the_tail(belongs_to_tail: Any) -> Any:
    return lambda self, job: not job.policy.durable and belongs_to_tail(self, job)


@mutant(Window, "best_priority")
def what_only_memory_has_overtakes_more_urgent_ones(best_priority: Any) -> Any:
    def any_will_do(self: Window) -> int | None:
        first = self.first()
        return None if first is None else first.priority

    return any_will_do


@mutant(Leases, "end")
def a_lost_lease_is_still_listed(end: Any) -> Any:
    def keep(self: Leases, job: Job) -> None:
        session = self.holders.get(job.holder) if job.bound else None
        end(self, job)
        if session is not None and session.open:
            session.leases[job.id] = job

    return keep


@mutant(Leases, "grant")
def a_second_lease_keeps_the_first_timer(grant: Any) -> Any:
    def keep(self: Leases, job: Job, demand: Demand, queue: Queue, now: Millis) -> None:
        until = job.until
        grant(self, job, demand, queue, now)
        if until > now:
            job.until = until

    return keep


@mutant(Watches, "tell_end")
def only_one_watcher_hears_the_end(tell_end: Any) -> Any:
    def tell(self: Watches, job: Job, failure: Any, result: bytes = b"") -> None:
        watchers = self.by_job.get(job.id, {})
        for session in list(watchers)[1:]:
            del watchers[session]
        tell_end(self, job, failure, result)

    return tell


@mutant(Lifecycle, "gives_way")
def a_failed_run_does_not_give_way(gives_way: Any) -> Any:
    return lambda self, job, now: False


@mutant(Waiting, "due")
def due_too_early(due: Any) -> Any:
    return lambda self, now, most: due(self, now + 50, most)


@mutant(Changelog, "drain")
def a_second_change_is_collapsed_away(drain: Any) -> Any:
    def collapse(self: Changelog) -> Changes:
        changes: Changes = drain(self)
        changes.updated = [job for job in changes.updated if job.state is not State.READY]
        return changes

    return collapse


@mutant(Broker, "submit")
def join_across_queues(submit: Any) -> Any:
    def join(self: Broker, new: NewJob, now: Millis, watcher: Session | None = None) -> Any:
        elsewhere = [queue for (queue, key), _ in self.keys.items() if key == new.key]
        if elsewhere and new.on_conflict is OnConflict.JOIN:
            new.queue = elsewhere[0]
        return submit(self, new, now, watcher)

    return join


@mutant(Broker, "restore_at")
def bound_leases_survive_a_restart(restore_at: Any) -> Any:
    def keep(self: Broker, snapshot: Snapshot, now: Millis) -> None:
        for job in snapshot.held:
            job.bound = False
        restore_at(self, snapshot, now)

    return keep


@mutant(Backlog, "restore")
def the_tail_is_forgotten_at_a_restart(restore: Any) -> Any:
    def forget(self: Backlog, snapshot: Snapshot) -> None:
        snapshot.tail = []
        restore(self, snapshot)

    return forget


@mutant(Backlog, "restore")
def the_mark_hides_the_first_of_the_tail(restore: Any) -> Any:
    def hide(self: Backlog, snapshot: Snapshot) -> None:
        for count in snapshot.tail:
            if count.first is not None:
                count.first = (count.first[0], count.first[1] + 1)
        restore(self, snapshot)

    return hide


@mutant(Changelog, "drain")
def an_emptied_tail_spares_nobody(drain: Any) -> Any:
    def spare_none(self: Changelog) -> Changes:
        changes: Changes = drain(self)
        changes.spared = []
        return changes

    return spare_none


@mutant(Dispatch, "wake")
def a_wake_up_is_lost(wake: Any) -> Any:
    def lose(self: Dispatch, queue: Queue) -> None:
        if not queue.line:
            queue.woken += 1
            wake(self, queue)
            queue.woken -= 1

    return lose


@mutant(Dispatch, "enqueue")
def no_job_keeps_its_place(enqueue: Any) -> Any:
    def renew(self: Dispatch, job: Job, queue: Queue, now: Millis) -> None:
        job.place = 0
        enqueue(self, job, queue, now)

    return renew


@mutant(Broker, "lease")
def a_job_that_runs_is_leased_once_more(lease: Any) -> Any:
    def lease_anyway(self: Broker, job: Job, session: Session, now: Millis) -> None:
        if job.state is State.LEASED:
            self.lifecycle.take_out(job, now)
            job.state = State.READY
            self.dispatch.offer(job, self.queue(job.queue), now)
        lease(self, job, session, now)

    return lease_anyway


@mutant(Dispatch, "end_pauses")
def a_pause_has_no_end(end_pauses: Any) -> Any:
    return lambda self, now: None


@mutant(Lifecycle, "bury")
def the_dead_that_are_kept_are_not_counted(bury: Any) -> Any:
    def miscount(self: Lifecycle, *arguments: Any) -> None:
        kept = self._backlog.kept_dead
        bury(self, *arguments)
        self._backlog.kept_dead = kept

    return miscount


@mutant(disk, "life_values")
def a_changed_priority_is_not_written(life_values: Any) -> Any:
    return lambda job: life_values(job)[1:]


def is_caught(name: str, examples: int) -> bool:
    """Whether the model finds the bug within so many examples."""
    effort = settings(
        max_examples=examples,
        stateful_step_count=50,
        phases=[Phase.generate],
        derandomize=True,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    with MUTANTS.planted(name):
        try:
            run_state_machine_as_test(BrokerMachine, settings=effort)
        except Exception:
            return True
    return False
