"""Planted bugs, each of which some seed must catch: of the node, of the core, of the conversations."""

from functools import partial
from typing import Any

from msgspec.structs import replace

from franca.core.model import Failure, Job, Outcome, State
from franca.protocols.periodic.jobs import KEY
from tests.prove import mutants
from tests.prove.mutants import after, around, before, by, returning, with_arguments, with_result

SEEDS = range(400)
"""As many as a bug may hide from."""

MUTANTS: mutants.Changes = {"a-lost-worker-keeps-its-job": mutants.BUGS["no-requeue"]}
bug = partial(mutants.bug, of=MUTANTS)

# -- of the node ------------------------------------------------------------------------------------

bug("speak-before-the-commit", "tests.sim.server:Server.needed_group", returning)(None)
bug("words-overtake-those-that-wait", "tests.sim.server:Server.group_ahead", returning)(None)


# -- of the core, at a restart ----------------------------------------------------------------------


def all_bound(is_bound: bool) -> mutants.Function:
    """What gives all leases of a snapshot to connections, or to none."""

    def bind(self: Any, snapshot: Any, now: int) -> None:
        for job in snapshot.held:
            job.bound = is_bound

    return bind


bug("leases-are-not-restored", "core.broker:Broker.restore_at", before)(all_bound(True))
bug("failures-are-not-counted", "core.lifecycle:Lifecycle._count_failure", returning)(None)


@bug("the-tail-is-forgotten-at-a-restart", "core.backlog:Backlog.restore", before)
def _forget_the_tail(self: Any, snapshot: Any) -> None:
    snapshot.backlog.clear()


@bug("an-ack-is-not-durable", "core.lifecycle:Lifecycle.finish", after)
def _do_not_write_it(self: Any, job: Any, *_: Any) -> None:
    self._changelog.dirty.pop(job.id)


# -- of the core, any time --------------------------------------------------------------------------


@bug("leases-end-early", "core.leases:Leases.grant", after)
def _shorten(self: Any, job: Any, *_: Any) -> None:
    job.until -= job.policy.lease_ms // 2


@bug("due-too-early", "core.waiting:Waiting.due", with_arguments)
def _early(self: Any, now: int, most: int) -> tuple[Any, ...]:
    return self, now + 30_000, most


bug("a-job-is-lost-at-the-cut", "core.window:Window.cut", with_result)(lambda jobs: jobs[1:])


@bug("leases-are-counted-by-the-wall-clock", "core.upkeep:Upkeep.tick", before)
def _expire_by_the_wall(self: Any, now: int) -> None:
    broker = self._broker
    for job in list(broker.jobs.values()):
        if job.state is State.LEASED and 0 < job.until <= broker.wall(now):
            broker.lifecycle.lose(job, Outcome.EXPIRED, now, as_failure=False)


@bug("the-last-comes-first", "core.window:Window.pop", around)
def _take_the_last(pop: mutants.Function, self: Any) -> Job:
    levels = [self._levels[-negated] for negated in reversed(self._order)]
    job = next(job for level in levels for job in reversed(level) if isinstance(job, Job))
    self.remove(job)
    return job


@bug("a-paused-queue-gives-jobs", "core.dispatch:Dispatch._choose", around)
def _choose_from_all(choose: mutants.Function, self: Any, demand: Any) -> Any:
    paused = [queue for queue in self._by_name.values() if queue.paused]
    for queue in paused:
        queue.paused = False
    chosen = choose(self, demand)
    for queue in paused:
        queue.paused = True
    return chosen


# -- of the core, where somebody waits, watches or is cut off ----------------------------------------

bug("nobody-is-woken", "core.dispatch:Dispatch.wake", returning)(None)


@bug("who-was-woken-counts-for-ever", "core.dispatch:Dispatch._asks", with_result)
def _wake_once_more(queue: Any) -> Any:
    queue.woken += 1
    return queue


@bug("only-the-first-hears-the-end", "core.watches:Watches.tell_end", before)
def _forget_all_but_one(self: Any, job: Any, *_: Any) -> None:
    watchers = self.by_job.get(job.id, {})
    for session in list(watchers)[1:]:
        del watchers[session]


@bug("who-waited-takes-the-job-along", "core.sessions:Sessions.unwatch", before)
def _let_it_die_unwatched(self: Any, job_id: Any, *_: Any) -> None:
    job = self._jobs.get(job_id)
    if job is not None:
        job.policy = replace(job.policy, dies_unwatched=True)


@bug("a-background-job-stays-fleeting", "core.broker:Broker._join", before)
def _make_it_volatile(self: Any, taken: Any, new: Any, watcher: Any) -> None:
    new.policy = replace(new.policy, durable=False)


# -- of the conversations ---------------------------------------------------------------------------

_GEARMAN = "protocols.gearman.conversation:GearmanConversation"
_REQUESTS = "protocols.memodb.requests:Requests"
_CLIENTS = "protocols.memodb.client_commands:Clients"
_WORKERS = "protocols.memodb.worker_commands:ConnectionWorkers"
_PERIODIC = "protocols.periodic.client_commands"
bug("whose-time-is-over-is-not-told", f"{_GEARMAN}._on_lease_lost", returning)(None)
bug("who-goes-while-a-job-runs-never-hears-of-it", f"{_REQUESTS}.adopt", returning)(None)
bug("who-asks-for-what-nobody-offers-waits-for-ever", f"{_CLIENTS}.drop_unserved", returning)(None)


@bug("replies-are-not-remembered", f"{_REQUESTS}.answered", by)
def _forget_the_request(self: Any, request: Any, reply: Any, now: int) -> None:
    self.forget(request)


@bug("a-result-said-again-ends-the-next-job", f"{_WORKERS}._worker_of", before)
def _take_it_for_new(self: Any, message: Any, now: int) -> None:
    worker = self._by_id.get(message.id)
    if worker is not None:
        worker.said = b""


@bug("answers-are-given-to-the-wrong-request", f"{_CLIENTS}.on_finished", before)
def _mix_up(self: Any, event: Any, now: int) -> None:
    mine = self.asked.get(event.job.id)
    other = next((a for a in self.asked.values() if a is not mine), None)
    if mine is not None and other is not None:
        self.asked[event.job.id] = (mine[0], other[1])


@bug("a-submit-while-the-job-runs-is-dropped", f"{_PERIODIC}:submit", around)
def _drop_it_while_it_runs(submit: mutants.Function, connection: Any, job: Any, now: int) -> None:
    taken = connection.broker.keyed(job.func, KEY + job.name)
    if taken is None or taken.state is not State.LEASED:
        submit(connection, job, now)


@bug("what-waits-behind-a-run-is-forgotten", "core.lifecycle:Lifecycle._succeed", around)
def _forget_the_successor(succeed: mutants.Function, self: Any, job_id: Any, now: int) -> None:
    successor = self.successors.by_job[job_id]
    succeed(self, job_id, now)
    if successor.state is State.READY and successor.id in self._index.jobs:
        self.cancel(successor, Failure(), now)
