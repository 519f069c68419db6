"""What must hold after every step, whatever went wrong in it.

The numbers are those of the design's list. What only clients can tell (no job lost, none run twice
without a cause, none after its end) is judged at the end, from their history.
"""

from collections.abc import Iterable

from franca.core.broker import Broker
from franca.core.index import SameName
from franca.core.keys import key_cost
from franca.core.model import NEVER, Millis, State
from franca.core.queues import queue_bytes
from franca.core.volatile import JOB_BYTES
from franca.core.weights import bare_weight
from franca.engine.engine import Engine
from tests.sim.actors import Actor
from tests.sim.disk import Disk

READY, LEASED = State.READY, State.LEASED


def after_step(engine: Engine, disk: Disk, now: Millis, *, wall_jumped: bool) -> None:
    """All that can be seen from inside at any moment, in which the wall clock was set or not."""
    broker = engine.broker
    leases_are_sound(broker)
    if not wall_jumped:
        nothing_is_early(broker, now)
    nobody_waits_in_vain(broker)
    timers_belong_to_something(broker)
    settled_jobs_are_gone(broker)
    budgets_add_up(broker)
    if engine.next_wake() > now:
        not_asleep(engine, now)
    if not broker.has_changes():
        disk.verify(broker)


def leases_are_sound(broker: Broker) -> None:
    """2: a lease has one holder and an end, and the counts know of it."""
    leased = [job for job in broker.jobs.values() if job.state is LEASED]
    assert all(job.holder for job in leased), "a lease without a holder"
    endless = [job.id for job in leased if job.until == NEVER and job.policy.lease_ms]
    assert not endless, f"leases without an end: {endless}"
    assert len(leased) == sum(q.leased for q in broker.queues.values()), "leases are miscounted"


def nothing_is_early(broker: Broker, now: Millis) -> None:
    """No job was made ready before its time."""
    ready = [job for job in broker.jobs.values() if job.state is READY and job.ready_at == now]
    # One that ran before may have been queued again by an operator.
    early = [job.id for job in ready if job.run_at > broker.wall(now) and not job.attempts]
    assert not early, f"ready before their time: {early}"


def holders_hold(broker: Broker, claims: Iterable[tuple[str, str]]) -> None:
    """2: a worker that was given a job has it until its time is over or it speaks of it."""
    for jid, holder in claims:
        held = [j for j in broker.index.all_named(jid) if j.state is LEASED and j.holder == holder]
        assert held, f"{holder} was given {jid}, and no longer has it"


def nobody_waits_in_vain(broker: Broker) -> None:
    """4: nothing stays ready while a demand for its queue stands, but for what the store brings."""
    for queue in broker.queues.values():
        if queue.demands and not queue.paused:
            assert not queue.ready or queue.supplying, f"{queue.name}: ready, and a demand waits"
        if queue.sleepers and not queue.paused:
            assert queue.woken >= queue.ready, f"{queue.name}: ready, and nobody is woken"


def timers_belong_to_something(broker: Broker) -> None:
    """5: a timer that rings has something to ring for."""
    for members in broker.leases.ends._buckets.values():
        assert all(job.state is LEASED for job in members), "a timer of a lease that is over"
    for waiting in broker.dispatch.demand_ends._buckets.values():
        assert all(d in d.session.demands for d in waiting), "a timer of a demand that is over"


def not_asleep(engine: Engine, now: Millis) -> None:
    """5: what is due has been looked at by the last tick, or is more than one tick may take."""
    wake = engine.broker.next_wake()
    late = wake is not None and wake <= engine.next_wake() - 50
    assert not late or engine.broker.waiting.size, f"nobody woke at {wake}; it is {now}"


def settled_jobs_are_gone(broker: Broker) -> None:
    """6: memory holds nothing of a job that has ended."""
    assert all(job.state <= LEASED for job in broker.jobs.values()), "an ended job is in memory"
    for found in broker.index.by_name.values():
        jobs = list(found.jobs.values()) if isinstance(found, SameName) else [found]
        assert all(job.id in broker.jobs for job in jobs), "a name of a job that is gone"
    held = sum(q.size + q.leased for q in broker.queues.values()) + broker.waiting.size
    held += len(broker.lifecycle.successors.by_job)
    assert held == len(broker.jobs), f"{len(broker.jobs)} jobs in memory, {held} of them in a line"
    in_backlog = set(broker.watches.in_store)
    gone = broker.watches.by_job.keys() - broker.jobs.keys() - in_backlog
    assert not gone, f"jobs that are gone are watched: {gone}"
    assert in_backlog <= broker.watches.by_job.keys(), "jobs that nobody watches are waited for"
    assert not in_backlog & broker.jobs.keys(), "jobs in memory are waited for in the tail"


def budgets_add_up(broker: Broker) -> None:
    """What counts against a bound is what is there, and no more."""
    jobs = broker.jobs.values()
    waiting = broker.lifecycle.successors
    successors = sum(map(waiting.weight, waiting.by_job.values()))
    fleeting = [job for job in jobs if not job.policy.durable]
    leased = sum(broker.leases.weight(job) for job in jobs if job.state is LEASED)
    large, windows = broker.backlog.large, broker.queue_list.windows
    sums = {  # what is counted, and what is there
        "leased": (broker.leases.bytes, successors + leased),
        "successors": (broker.lifecycle.successors.bytes, successors),
        "large": (large.bytes, sum(len(job.body) for job in large.jobs.values())),
        "windows": (windows.bytes_held, sum(q.bytes_held for q in broker.queues.values())),
        "queues": (broker.queue_list.bytes, sum(map(queue_bytes, broker.queues))),
        "watches": (broker.watches.count, sum(map(len, broker.watches.by_job.values()))),
        "keys": (broker.keys.bytes, sum(key_cost(taken) for _, taken in broker.keys.items())),
        "fleeting": (broker.volatile.bytes, sum(bare_weight(job) + JOB_BYTES for job in fleeting)),
    }
    wrong = {name: pair for name, pair in sums.items() if pair[0] != pair[1]}
    assert not wrong, f"counted, and there: {wrong}"


def everybody_heard(actors: Iterable[Actor]) -> None:
    """3: who waited for a job on a connection that held has heard its end."""
    waiting = [actor.name for actor in actors if not actor.is_content()]
    assert not waiting, f"still waiting: {waiting}"


def accepted_is_kept(accepted: Iterable[str], disk: Disk) -> None:
    """1: a job that its producer was told is accepted is on the disk, or has ended there."""
    kept = {row.name for row in disk.rows.values()} | disk.settled
    lost = [jid for jid in accepted if jid not in kept]
    assert not lost, f"accepted, and not on the disk: {lost[:5]}"
