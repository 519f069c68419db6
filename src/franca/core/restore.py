"""How a broker takes over what the store remembers."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from franca.core.changelog import LEASED
from franca.core.changes import Totals
from franca.core.index import READY, WAITING
from franca.core.model import Job, Millis
from franca.core.successors import successors_among
from franca.core.wants import Snapshot

if TYPE_CHECKING:
    from franca.core.broker import Broker


def restore(broker: Broker, snapshot: Snapshot, now: Millis) -> None:
    """Take over what the store remembers, leases with the time that they have left.

    Only for a broker that has seen nothing yet. A lease that ended with its session is over:
    the job is ready again at its old place.
    """
    for count in fields(Totals):
        setattr(broker.totals, count.name, getattr(snapshot.totals, count.name))
    for setting in snapshot.queues:
        queue = broker.queue(setting.queue)
        queue.paused = setting.paused
        broker.dispatch.set_pause_end(queue, setting.until)
    broker.changelog.settings.clear()  # the store knows them: it just told us
    broker.backlog.restore(snapshot)
    successors = successors_among(snapshot.held)
    waiting_behind = {job.id for job in successors.values()}
    # Ready ones last: only when the others are in their places is it known where backlogs begin.
    for job in sorted(snapshot.held, key=lambda job: job.state is READY and not job.away):
        if job.id not in waiting_behind:
            broker.index.hold(job)
            if job.id in successors:
                broker.lifecycle.put_behind(successors[job.id], job)
            _restore_job(broker, job, now)
    for schedule in snapshot.schedules:
        broker.schedules.restore(schedule, broker.wall(now))
    for queue in broker.queues.values():
        broker.backlog.wants.supply_ready(queue)


def _restore_job(broker: Broker, job: Job, now: Millis) -> None:
    queue, waiting = broker.queue(job.queue), broker.waiting
    runs = job.state is LEASED and not job.bound
    if job.id in broker.lifecycle.successors.by_job and not runs:
        job.bound = False
        broker.lifecycle.gives_way(job, now)
    elif runs:
        broker.leases.restore(job, queue, now)
    elif job.state is WAITING:
        queue.count_waiting(job, +1)
        if waiting.belongs_to_backlog(job):
            waiting.backlog += 1
            broker.backlog.put(job)
        else:
            waiting.add(job)
    elif job.state is READY and not job.away and not queue.belongs_to_backlog(job):
        queue.add(job)
    else:
        job.bound = False
        broker.index.end_run(job)
        broker.dispatch.offer(job, queue, now)
