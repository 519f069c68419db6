"""Planted bugs, each of which the model must catch. A proof that misses one of them has no teeth."""

from functools import partial
from typing import Any

from franca.core.model import OnConflict, State
from tests.prove import mutants
from tests.prove.mutants import Function, around, before, by, returning, with_arguments, with_result
from tests.sim.mutants import MUTANTS as OF_WORLDS
from tests.sim.mutants import all_bound

_DISPATCH = "core.dispatch:Dispatch"
_LIFECYCLE = "core.lifecycle:Lifecycle"

MUTANTS: mutants.Changes = {
    "lose-a-job-at-the-cut": OF_WORLDS["a-job-is-lost-at-the-cut"],
    "due-too-early": OF_WORLDS["due-too-early"],
    "deliver-from-a-paused-queue": OF_WORLDS["a-paused-queue-gives-jobs"],
    "only-one-watcher-hears-the-end": OF_WORLDS["only-the-first-hears-the-end"],
    "the-tail-is-forgotten-at-a-restart": OF_WORLDS["the-tail-is-forgotten-at-a-restart"],
}
bug = partial(mutants.bug, of=MUTANTS)

bug("a-failed-run-does-not-give-way", f"{_LIFECYCLE}.gives_way", returning)(False)
bug("a-pause-has-no-end", f"{_DISPATCH}.end_pauses", returning)(None)
bug("bound-leases-survive-a-restart", "core.broker:Broker.restore_at", before)(all_bound(False))


@bug("no-fence", f"{_LIFECYCLE}.finish", with_arguments)
def _believe_anybody(self: Any, job: Any, holder: str, *rest: Any) -> tuple[Any, ...]:
    return self, job, job.holder, *rest


@bug("a-changed-priority-is-not-written", "tests.sim.disk:life_values", with_result)
def _without_the_priority(values: Any) -> Any:
    return values[1:]


@bug("no-job-keeps-its-place", f"{_DISPATCH}.enqueue", before)
def _forget_its_place(self: Any, job: Any, *_: Any) -> None:
    job.place = 0


@bug("a-stored-job-overtakes-those-in-the-tail", "core.window:Window.belongs_to_backlog", around)
def _only_volatile_ones(belongs_to_backlog: Function, self: Any, job: Any) -> Any:
    return not job.policy.durable and belongs_to_backlog(self, job)


@bug("what-only-memory-has-overtakes-more-urgent-ones", "core.window:Window.best_priority", by)
def _priority_of_the_first(self: Any) -> Any:
    return None if (first := self.first()) is None else first.priority


@bug("tail-not-counted-down", "core.backlog:Backlog.remove", before)
def _count_it_twice(self: Any, job: Any, queue: Any) -> None:
    queue.backlog += job.state is State.READY


@bug("a-retried-job-keeps-its-place", f"{_DISPATCH}.enqueue", around)
def _keep_its_place(enqueue: Function, self: Any, job: Any, queue: Any, now: int) -> None:
    if job.place:
        self.offer(job, queue, now)
    else:
        enqueue(self, job, queue, now)


@bug("a-lost-lease-is-still-listed", "core.leases:Leases.end", around)
def _list_a_lost_lease(end: Function, self: Any, job: Any) -> None:
    session = self.holders.get(job.holder) if job.bound else None
    end(self, job)
    if session is not None and session.open:
        session.leases[job.id] = job


@bug("a-second-lease-keeps-the-first-timer", "core.leases:Leases.grant", around)
def _keep_the_first_timer(grant: Function, self: Any, job: Any, *rest: Any) -> None:
    until = job.until
    grant(self, job, *rest)
    if until > rest[-1]:
        job.until = until


@bug("a-second-change-is-collapsed-away", "core.changelog:Changelog.drain", with_result)
def _collapse(changes: Any) -> Any:
    changes.updated = [job for job in changes.updated if job.state is not State.READY]
    return changes


@bug("an-emptied-tail-spares-nobody", "core.changelog:Changelog.drain", with_result)
def _spare_nobody(changes: Any) -> Any:
    changes.spared = []
    return changes


@bug("join-across-queues", "core.broker:Broker.submit", before)
def _join_elsewhere(self: Any, new: Any, *_: Any, **__: Any) -> None:
    elsewhere = [queue for (queue, key), _ in self.keys.items() if key == new.key]
    if elsewhere and new.on_conflict is OnConflict.JOIN:
        new.queue = elsewhere[0]


@bug("the-mark-hides-the-first-of-the-tail", "core.backlog:Backlog.restore", before)
def _hide_the_first(self: Any, snapshot: Any) -> None:
    for count in snapshot.backlog:
        if count.first is not None:
            count.first = (count.first[0], count.first[1] + 1)


@bug("a-wake-up-is-lost", f"{_DISPATCH}.wake", around)
def _lose_a_wake_up(wake: Function, self: Any, queue: Any) -> None:
    if not queue.demands:
        queue.woken += 1
        wake(self, queue)
        queue.woken -= 1


@bug("a-job-that-runs-is-leased-once-more", "core.broker:Broker.lease", before)
def _make_it_ready_again(self: Any, job: Any, session: Any, now: int) -> None:
    if job.state is State.LEASED:
        self.lifecycle.take_out(job, now)
        job.state = State.READY
        self.dispatch.offer(job, self.queue(job.queue), now)


@bug("the-dead-that-are-kept-are-not-counted", f"{_LIFECYCLE}.bury", around)
def _miscount_the_dead(bury: Function, self: Any, *arguments: Any) -> None:
    kept = self._backlog.kept_dead
    bury(self, *arguments)
    self._backlog.kept_dead = kept
