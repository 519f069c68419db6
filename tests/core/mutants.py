"""Planted bugs, each of which the model must catch. A proof that misses one of them has no teeth."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from franca.core.broker import Broker
from franca.core.changes import Changes
from franca.core.ledger import Ledger
from franca.core.life import Life
from franca.core.lines import Lines
from franca.core.model import Demand, Job, Millis, NewJob, OnConflict, Session, State
from franca.core.ready import Queue
from franca.core.tail import Snapshot, Tail
from franca.core.waiting import Waiting
from tests.core.machine import BrokerMachine
from tests.sim.planting import Mutants

MUTANTS = Mutants()
mutant = MUTANTS.of


@mutant(Queue, "cut")
def lose_a_job_at_the_cut(cut: Any) -> Any:
    return lambda self, *bounds: cut(self, *bounds)[1:]


@mutant(Life, "finish")
def no_fence(finish: Any) -> Any:
    return lambda self, job, holder, result, now: finish(self, job, job.holder, result, now)


@mutant(Tail, "_shrink_tail")
def tail_not_counted_down(shrink: Any) -> Any:
    def keep(self: Tail, queue: Queue, priority: int) -> None:
        queue.tail += 1
        shrink(self, queue, priority)

    return keep


@mutant(Lines, "_choose")
def deliver_from_a_paused_queue(choose: Any) -> Any:
    def choose_anyway(self: Lines, demand: Demand) -> Queue | None:
        paused = [q for q in self.queues.values() if q.paused]
        for queue in paused:
            queue.paused = False
        chosen: Queue | None = choose(self, demand)
        for queue in paused:
            queue.paused = True
        return chosen

    return choose_anyway


@mutant(Lines, "_enqueue")
def a_retried_job_keeps_its_place(enqueue: Any) -> Any:
    def keep(self: Lines, job: Job, queue: Queue, now: Millis) -> None:
        if job.place:
            self._offer(job, queue, now)
        else:
            enqueue(self, job, queue, now)

    return keep


@mutant(Queue, "belongs_to_tail")
def a_stored_job_overtakes_those_in_the_tail(belongs_to_tail: Any) -> Any:
    return lambda self, job: not job.policy.durable and belongs_to_tail(self, job)


@mutant(Queue, "best_priority")
def what_only_memory_has_overtakes_more_urgent_ones(best_priority: Any) -> Any:
    def any_will_do(self: Queue) -> int | None:
        first = self.first()
        return None if first is None else first.priority

    return any_will_do


@mutant(Life, "_unlease")
def a_lost_lease_is_still_listed(unlease: Any) -> Any:
    def keep(self: Life, job: Job, now: Millis) -> None:
        session = self._holders.get(job.holder) if job.bound else None
        unlease(self, job, now)
        if session is not None and session.open:
            session.leases[job.id] = job

    return keep


@mutant(Lines, "_lease")
def a_second_lease_keeps_the_first_timer(lease: Any) -> Any:
    def keep(self: Lines, job: Job, demand: Demand, queue: Queue, now: Millis) -> None:
        until = job.until
        lease(self, job, demand, queue, now)
        if until > now:
            job.until = until

    return keep


@mutant(Life, "_tell_end")
def only_one_watcher_hears_the_end(tell_end: Any) -> Any:
    def tell(self: Life, job: Job, failure: Any) -> None:
        watchers = self._watchers.get(job.id, {})
        for session in list(watchers)[1:]:
            del watchers[session]
        tell_end(self, job, failure)

    return tell


@mutant(Life, "_gives_way")
def a_failed_run_does_not_give_way(gives_way: Any) -> Any:
    return lambda self, job, now: False


@mutant(Waiting, "due")
def due_too_early(due: Any) -> Any:
    return lambda self, now, most: due(self, now + 50, most)


@mutant(Ledger, "drain")
def a_second_change_is_collapsed_away(drain: Any) -> Any:
    def collapse(self: Ledger) -> Changes:
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


@mutant(Tail, "restore")
def the_tail_is_forgotten_at_a_restart(restore: Any) -> Any:
    def forget(self: Tail, snapshot: Snapshot) -> None:
        snapshot.tail = []
        restore(self, snapshot)

    return forget


@mutant(Tail, "restore")
def the_mark_hides_the_first_of_the_tail(restore: Any) -> Any:
    def hide(self: Tail, snapshot: Snapshot) -> None:
        for count in snapshot.tail:
            if count.first is not None:
                count.first = (count.first[0], count.first[1] + 1)
        restore(self, snapshot)

    return hide


@mutant(Ledger, "drain")
def an_emptied_tail_spares_nobody(drain: Any) -> Any:
    def spare_none(self: Ledger) -> Changes:
        changes: Changes = drain(self)
        changes.spared = []
        return changes

    return spare_none


@mutant(Lines, "_wake_enough")
def a_wake_up_is_lost(wake_enough: Any) -> Any:
    def lose(self: Lines, queue: Queue) -> None:
        if not queue.line:
            queue.woken += 1
            wake_enough(self, queue)
            queue.woken -= 1

    return lose


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
