"""Planted bugs, each of which some seed must catch: of the node, of the core, of the conversations."""

from typing import Any

from msgspec.structs import replace

from franca.core.model import Failure, Job, Outcome, State
from franca.protocols.periodic.jobs import KEY
from tests.prove.mutants import (
    Change,
    Function,
    Make,
    after,
    before,
    returning,
    with_arguments,
    with_result,
)

SEEDS = range(400)
"""As many as a bug may hide from."""


def around(change: Function) -> Make:
    """Calls this with the original and its arguments in place of the original."""
    return lambda original: lambda *arguments: change(original, *arguments)


def all_bound(is_bound: bool) -> Function:
    """What gives all leases of a snapshot to connections, or to none."""

    def bind(self: Any, snapshot: Any, now: int) -> None:
        for job in snapshot.held:
            job.bound = is_bound

    return bind


def _shorten(self: Any, job: Any, *_: Any) -> None:
    job.until -= job.policy.lease_ms // 2


def _expire_by_the_wall(self: Any, now: int) -> None:
    broker = self._broker
    for job in list(broker.jobs.values()):
        if job.state is State.LEASED and 0 < job.until <= broker.wall(now):
            broker.lifecycle.lose(job, Outcome.EXPIRED, now, as_failure=False)


def _take_the_last(pop: Function, self: Any) -> Job:
    levels = [self._levels[-negated] for negated in reversed(self._order)]
    job = next(job for level in levels for job in reversed(level) if isinstance(job, Job))
    self.remove(job)
    return job


def _choose_from_all(choose: Function, self: Any, demand: Any) -> Any:
    paused = [queue for queue in self._by_name.values() if queue.paused]
    for queue in paused:
        queue.paused = False
    chosen = choose(self, demand)
    for queue in paused:
        queue.paused = True
    return chosen


def _wake_once_more(queue: Any) -> Any:
    queue.woken += 1
    return queue


def _forget_all_but_one(self: Any, job: Any, *_: Any) -> None:
    watchers = self.by_job.get(job.id, {})
    for session in list(watchers)[1:]:
        del watchers[session]


def _let_it_die_unwatched(self: Any, job_id: Any, *_: Any) -> None:
    job = self._jobs.get(job_id)
    if job is not None:
        job.policy = replace(job.policy, dies_unwatched=True)


def _make_it_volatile(self: Any, taken: Any, new: Any, watcher: Any) -> None:
    new.policy = replace(new.policy, durable=False)


def _take_it_for_new(is_sent_again: Function, self: Any, worker: Any, message: Any) -> bool:
    is_sent_again(self, worker, message)
    worker.stack = message.stack
    return False


def _mix_up(self: Any, event: Any, now: int) -> None:
    mine = self.asked.get(event.job.id)
    other = next((a for a in self.asked.values() if a is not mine), None)
    if mine is not None and other is not None:
        self.asked[event.job.id] = (mine[0], other[1])


def _drop_it_while_it_runs(submit: Function, connection: Any, job: Any, now: int) -> None:
    taken = connection.broker.keyed(job.func, KEY + job.name)
    if taken is None or taken.state is not State.LEASED:
        submit(connection, job, now)


def _forget_the_successor(succeed: Function, self: Any, job_id: Any, now: int) -> None:
    successor = self.successors.by_job[job_id]
    succeed(self, job_id, now)
    if successor.state is State.READY and successor.id in self._index.jobs:
        self.cancel(successor, Failure(), now)


_SERVER = "tests.sim.server:Server"
_REQUESTS = "protocols.memodb.requests:Requests"
_CLIENTS = "protocols.memodb.client_commands:Clients"

MUTANTS: dict[str, Change] = {
    # Of the node.
    "speak-before-the-commit": {f"{_SERVER}.needed_group": returning(None)},
    "words-overtake-those-that-wait": {f"{_SERVER}.group_ahead": returning(None)},
    # Of the core, at a restart.
    "leases-are-not-restored": {"core.broker:Broker.restore_at": before(all_bound(True))},
    "the-tail-is-forgotten-at-a-restart": {
        "core.backlog:Backlog.restore": before(lambda self, snapshot: snapshot.tail.clear())
    },
    "an-ack-is-not-durable": {
        "core.lifecycle:Lifecycle.finish": after(
            lambda self, job, *_: self._changelog.dirty.pop(job.id)
        )
    },
    # Of the core, any time.
    "leases-end-early": {"core.leases:Leases.grant": after(_shorten)},
    "leases-are-counted-by-the-wall-clock": {
        "core.upkeep:Upkeep.tick": before(_expire_by_the_wall)
    },
    "due-too-early": {
        "core.waiting:Waiting.due": with_arguments(
            lambda self, now, most: (self, now + 30_000, most)
        )
    },
    "failures-are-not-counted": {"core.lifecycle:Lifecycle._count_failure": returning(None)},
    "the-last-comes-first": {"core.window:Window.pop": around(_take_the_last)},
    "a-paused-queue-gives-jobs": {"core.dispatch:Dispatch._choose": around(_choose_from_all)},
    "a-job-is-lost-at-the-cut": {"core.window:Window.cut": with_result(lambda jobs: jobs[1:])},
    # Of the core, where somebody waits, watches or is cut off.
    "nobody-is-woken": {"core.dispatch:Dispatch.wake": returning(None)},
    "who-was-woken-counts-for-ever": {"core.dispatch:Dispatch._asks": with_result(_wake_once_more)},
    "a-lost-worker-keeps-its-job": {
        "core.sessions:Sessions.close_session": before(
            lambda self, session, now: session.leases.clear()
        )
    },
    "only-the-first-hears-the-end": {"core.watches:Watches.tell_end": before(_forget_all_but_one)},
    "who-waited-takes-the-job-along": {
        "core.sessions:Sessions.unwatch": before(_let_it_die_unwatched)
    },
    "a-background-job-stays-fleeting": {"core.broker:Broker._join": before(_make_it_volatile)},
    # Of the conversations.
    "whose-time-is-over-is-not-told": {
        "protocols.gearman.conversation:GearmanConversation._on_lease_lost": returning(None)
    },
    "a-result-said-again-ends-the-next-job": {
        "protocols.memodb.worker_commands:ConnectionWorkers._is_sent_again": around(
            _take_it_for_new
        )
    },
    "replies-are-not-remembered": {
        f"{_REQUESTS}.answered": lambda _: lambda self, request, reply, now: self.forget(request)
    },
    "who-goes-while-a-job-runs-never-hears-of-it": {f"{_REQUESTS}.adopt": returning(None)},
    "answers-are-given-to-the-wrong-request": {f"{_CLIENTS}.on_finished": before(_mix_up)},
    "who-asks-for-what-nobody-offers-waits-for-ever": {
        f"{_CLIENTS}.drop_unserved": returning(None)
    },
    "a-submit-while-the-job-runs-is-dropped": {
        "protocols.periodic.client_commands:submit": around(_drop_it_while_it_runs)
    },
    "what-waits-behind-a-run-is-forgotten": {
        "core.lifecycle:Lifecycle._succeed": around(_forget_the_successor)
    },
}
