"""Workers and schedulers: who they are, what they would take, who has fallen silent.

Any message counts as a heartbeat, and every peer that INFORMed is sent one regularly: a job
manager starts its processes on the first one it gets. A worker that says goodbye finishes its
jobs in silence, so from then on only its connection tells whether it lives.

Each READY is one more job that a worker would take. However many slots are free, it has one demand,
and makes a new one behind the others after each job it was given: so the least recently used
worker is always next, of those that the queue prefers.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from franca.core.events import Granted
from franca.core.model import NEVER, Demand, Job, JobId, Millis, State
from franca.protocols.eventmq.jobs import known_as, may_kill_worker, request_of
from franca.protocols.eventmq.texts import USUAL_WEIGHT, Weighted
from franca.protocols.undelivered import give_back

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

BEAT_EVERY_MS: Final = 3_000
SILENCE_MS: Final = 10_000
"""A worker that said nothing for so long is taken for gone. (The original: 5 to 15 s.)"""
LOST_AT_ONCE: Final = 100
"""Of those, how many are let go of in one tick."""
QUEUE_COSTS_BYTES: Final = 256
"""What it costs to know that a worker serves a queue, besides the name."""
SLOTS_MAX: Final = 10_000
"""Jobs that one worker holds and would take, together."""
ASKED_AT_ONCE: Final = 64
"""Jobs that one worker is given in one go, before others have their turn."""
QUEUES_A_GRANT: Final = 64
"""With so many queues more to look at, each of them takes as long as two."""
RELEASED_MAX: Final = 1_000
"""Jobs of a worker that is gone which are given back one by one, without a loss."""
MSGID_BYTES_MAX: Final = 4_096
"""No job goes by a longer name."""
LEASED: Final = State.LEASED
ALIVE_MS: Final = BEAT_EVERY_MS + 1_000
"""A worker that lives is heard more often than this."""


class Registry:
    """All workers, or all schedulers, by their holders.

    `bytes` is what the queues that they named take together.
    """

    def __init__(self) -> None:
        self.all: dict[str, Worker] = {}
        self.by_name: dict[str, Worker] = {}
        self.bytes = 0

    def add(self, worker: Worker) -> None:
        """A peer has INFORMed."""
        self.all[worker.holder] = worker
        self.by_name[worker.name] = worker
        self.bytes += worker.size

    def remove(self, worker: Worker) -> None:
        """It is gone, or was never here."""
        if self.all.get(worker.holder) is worker:
            worker.gone = True
            del self.all[worker.holder]
            del self.by_name[worker.name]
            self.bytes -= worker.size

    def lose_silent(self, now: Millis) -> bool:
        """Let go of those who were not heard for too long; True if there may be more of them.

        Their jobs go to others, and they may INFORM again. Not those to whom we do not listen.
        """
        late = [worker for worker in self.all.values() if now - worker.heard_at > SILENCE_MS]
        others = [worker.conversation for worker in late if not worker.leaving]
        silent = [conversation for conversation in others if not conversation.holding]
        for conversation in silent[:LOST_AT_ONCE]:
            conversation.forget(now)
        return len(silent) >= LOST_AT_ONCE


class Worker:
    """A peer that INFORMed: a worker with its free slots, or a scheduler, which has no queues.

    `handed` counts the jobs that it was given.
    """

    def __init__(
        self,
        conversation: EventmqConversation,
        registry: Registry,
        weighted: tuple[Weighted, ...],
        now: Millis,
    ) -> None:
        self.conversation = conversation
        self.registry = registry
        self.weighted = weighted
        self.queues = tuple(name for _, name in weighted)
        self.size = sum(QUEUE_COSTS_BYTES + len(name) for name in self.queues)
        self.name = _name_for(conversation)
        self.session = conversation.session
        self.holder = self.session.holder
        self.since = self.heard_at = now
        self.asked_at: Millis = NEVER
        self.leaving = self.gone = False
        self.handed = 0
        self.slots = 0
        self._service = conversation.service
        self.broker = conversation.broker
        self._link = conversation.link
        self._ranks = {q: w - USUAL_WEIGHT for w, q in weighted if w != USUAL_WEIGHT} or None
        self._at_once = max(ASKED_AT_ONCE // (1 + len(weighted) // QUEUES_A_GRANT), 1)
        self._asks_again = False
        self._demand: Demand | None = None
        self._last_grant: tuple[JobId, int] = (0, 0)

    # -- coming and going -----------------------------------------------------------------------

    def list_queues(self) -> None:
        """Make its queues known, for good: a restart must not forget them. May be `Refused`."""
        new = [name for name in self.queues if name not in self.broker.queues]
        self.broker.list_queue(*self.queues)
        if new:
            self._service.schedules.adopt(new)

    def join(self) -> None:
        """Serve its queues from now on."""
        self.registry.add(self)
        for name in self.queues:
            self.broker.serve(self.session, name)

    def leave(self) -> None:
        """Take no more jobs; what is held may still be finished, without another heartbeat."""
        self.slots = 0
        self.leaving = True
        self._withdraw()
        for name in self.queues:
            self.broker.unserve(self.session, name)
        self.leave_if_idle()

    def leave_if_idle(self) -> None:
        """A worker that has said goodbye is gone when it has finished its last job."""
        if self.leaving and not self.session.leases:
            self.registry.remove(self)

    def end(self, now: Millis, *, undelivered: bool) -> None:
        """The peer is gone. A job whose delivery never left is as if it was never given."""
        self.registry.remove(self)
        self._withdraw()  # or what is given back would come to it again
        job_id, attempt = self._last_grant
        job = self.broker.jobs.get(job_id)
        if undelivered and job is not None and job.attempts == attempt:
            give_back(self.broker, job, self.holder, now)
        self._release_others(now)

    def _withdraw(self) -> None:
        if self._demand is not None:
            self.broker.withdraw(self._demand)
            self._demand = None

    def _release_others(self, now: Millis) -> None:
        """Where a worker may have died of what it could not read, its other jobs have lost nothing.

        A job manager drops its connection when it is given such a message. Without this a few of
        them, given again and again, would bring all jobs of their neighbourhood to the dead set.
        """
        jobs = self.session.leases.values()
        if any(map(may_kill_worker, jobs)):
            others = islice((job for job in jobs if not may_kill_worker(job)), RELEASED_MAX)
            for job in list(others):
                self.broker.release(job, self.holder, NEVER, now)

    def stop(self) -> None:
        """Say goodbye, and give no more jobs."""
        self.leave()
        self._link.write(self._service.encoder.kbye())

    # -- jobs -------------------------------------------------------------------------------------

    def ready(self, now: Millis) -> None:
        """One more job would be taken."""
        self.asked_at = now
        slots = self.slots
        if slots + len(self.session.leases) < SLOTS_MAX and self.queues and not self.leaving:
            self.slots = slots + 1
            if self._demand is None and not self._asks_again:
                self._ask(now)

    def resume(self, now: Millis) -> None:
        """Ask for the jobs for which a turn had no time."""
        if self._asks_again:
            self._asks_again = False
            if self._demand is None:
                self._ask(now)

    def _ask(self, now: Millis) -> None:
        """Demand jobs as long as there are some, and slots for them; some of them in this turn."""
        broker = self.broker
        left = self._at_once
        while self.slots:
            if not left:
                self._asks_again = True
                self._link.call_next_turn()
                return
            left -= 1
            demand = Demand(self.session, self.queues, ranks=self._ranks)
            answer = broker.demand(demand, now)
            if answer is None:
                self._demand = demand
                return
            assert isinstance(answer, Granted)
            self._hand_over(answer.job)

    def on_granted(self, event: Granted, now: Millis) -> None:
        """A job came for the demand that waits, or for one that was withdrawn meanwhile."""
        if event.demand is not self._demand or self._link.closing:
            give_back(self.broker, event.job, self.holder, now)
            return
        self._demand = None
        self._hand_over(event.job)
        if self.slots and not self._asks_again:
            self._ask(now)

    def _hand_over(self, job: Job) -> None:
        self.slots -= 1
        self.handed += 1
        self._service.handed[job.queue] += 1
        self._last_grant = job.id, job.attempts  # not the job: it may be large, and end elsewhere
        self._link.write_pieces(request_of(job), durable=True)

    def held_as(self, msgid: bytes) -> Job | None:
        """The job of that id that this worker holds."""
        if len(msgid) > MSGID_BYTES_MAX:
            return None
        broker, holder = self.broker, self.holder
        try:
            job = broker.sole(msgid.decode())
        except UnicodeDecodeError:
            job = None
        if job is not None and job.state is LEASED and job.holder == holder:
            return job
        jobs = known_as(broker, msgid, lambda name: broker.held_as(name, holder))
        return next((j for j in jobs if j.state is LEASED and j.holder == holder), None)

    def held_by_old_connection(self, msgid: bytes, now: Millis) -> Job | None:
        """The job of that id whose holder has been silent since before this worker came.

        A job manager that starts its conversation anew reports here what it was given before,
        while its old connection stays open in the processes that it forked. One that was heard
        since, or only just now, is another peer; and of a job that was given out more than once
        nobody can say which run is meant.
        """
        for job in known_as(self.broker, msgid, self.broker.running_as):
            if job.state is LEASED and job.attempts == 1:
                holder = self.registry.all.get(job.holder)
                if holder is not None and holder.heard_at < min(self.since, now - ALIVE_MS):
                    return job
        return None


def _name_for(conversation: EventmqConversation) -> str:
    """What a worker is called: its identity where that is text and nobody else's."""
    identity, link_id = conversation.identity, conversation.link.id
    try:
        name = identity.decode()
    except UnicodeDecodeError:
        name = ""
    if not name or not name.isprintable():
        name = f"{identity.hex()}@{link_id}" if identity else link_id
    service = conversation.service
    taken = service.workers_here.by_name.get(name) or service.schedulers.by_name.get(name)
    return name if taken is None or taken is conversation.worker else f"{name}@{link_id}"
