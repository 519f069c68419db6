"""What a peer is that INFORMed: a worker with its free slots, or a scheduler with none.

Each READY is one more job that a worker would take. However many slots are free, it stands in
line once, and again behind the others after each job it was given: so the least recently used
worker is always next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import Demand, Job, Millis, Session, State
from franca.protocols.eventmq.job import ORIGIN, Unfit, named
from franca.protocols.eventmq.queues import Weighted, read_queues
from franca.protocols.eventmq.results import as_stranger_knows_it, failure_in
from franca.protocols.eventmq.workers import Member, Members

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

SLOTS_MAX: Final = 10_000
LEASED = State.LEASED


class Hands:
    """One worker's or scheduler's standing with the broker."""

    def __init__(
        self,
        conversation: EventmqConversation,
        members: Members,
        queues: tuple[Weighted, ...],
        now: Millis,
    ) -> None:
        link = conversation.link
        name = conversation.service.name_for(conversation.identity, link)
        self.session: Session = conversation.session
        self.member = Member(name, self, queues, now, now, link.peer.address)
        self.members = members
        self._conversation = conversation
        self._service = conversation.service
        self._broker = conversation.broker
        self._link = link
        self._holder = self.session.holder
        self._render = conversation.service.renderer.request
        self._queues = tuple(name for _, name in queues)
        self._slots = 0
        self._demand: Demand | None = None
        self._last_grant: Job | None = None
        self._last_attempt = 0
        self._stopped = False

    @classmethod
    def of(
        cls, conversation: EventmqConversation, role: bytes, queues: bytes, now: Millis
    ) -> Hands:
        """A peer INFORMs that it is a `worker` of these queues, or a `scheduler`."""
        service = conversation.service
        if role == b"scheduler":
            return cls(conversation, service.schedulers, (), now)
        if role != b"worker":
            raise Unfit("an INFORM of neither a worker nor a scheduler")
        weighted = read_queues(queues, service.limits.name_bytes_max)
        return cls(conversation, service.workers_here, weighted, now)

    # -- coming and going -----------------------------------------------------------------------

    def join(self, now: Millis) -> None:
        """Be known from now on."""
        self.members.join(self.member)
        for name in self._queues:
            self._broker.queue(name)
            self._broker.serve(self.session, name)

    def leave(self, now: Millis) -> None:
        """Take no more jobs; what is held may still be finished."""
        self.members.leave(self.member)
        self._want_nothing()

    def end(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone. A job whose delivery never left is as if it was never given."""
        self.members.leave(self.member)
        self._demand = None
        job = self._last_grant
        if unheard and job is not None and job.attempts == self._last_attempt:
            try:
                self._broker.give_back(job, self._holder, now)
            except Refused:
                pass  # it was settled, or taken away

    def _want_nothing(self) -> None:
        self._slots = 0
        self._stopped = True
        if self._demand is not None:
            self._broker.withdraw(self._demand)
            self._demand = None
        for name in self._queues:
            self._broker.unserve(self.session, name)

    def stop(self, now: Millis) -> None:
        """The server stops: say goodbye, and give no more jobs."""
        self._want_nothing()
        self._link.write(self._conversation.voice.kbye())

    def beat(self, heartbeat: bytes) -> None:
        """Tell the peer that the broker lives."""
        self._link.write(heartbeat)

    def fell_silent(self, now: Millis) -> None:
        """Take the peer for gone: its jobs go to others. It may INFORM again."""
        self._conversation.forget(now)

    def slots(self) -> int:
        """How many more jobs the worker would take now."""
        return self._slots

    # -- jobs -------------------------------------------------------------------------------------

    def ready(self, now: Millis) -> None:
        """One more job would be taken."""
        if self._slots < SLOTS_MAX and not self._stopped:
            self._slots += 1
            if self._demand is None:
                self._ask(now)

    def _ask(self, now: Millis) -> None:
        broker = self._broker
        while self._slots:
            demand = Demand(self.session, self._queues)
            answer = broker.demand(demand, now)
            if answer is None:
                self._demand = demand
                return
            assert isinstance(answer, Granted)
            self._hand_over(answer.job)

    def granted(self, event: Granted, now: Millis) -> None:
        """A job came for the demand that waits, or for one that was withdrawn meanwhile."""
        if event.demand is not self._demand or self._link.closing:
            self._broker.give_back(event.job, self._holder, now)
            return
        self._demand = None
        self._hand_over(event.job)
        if self._slots:
            self._ask(now)

    def _hand_over(self, job: Job) -> None:
        self._slots -= 1
        self.member.handed += 1
        self._last_grant = job
        self._last_attempt = job.attempts
        self._link.write_after_commit(self._render(job))

    def reply(self, result: bytes, msgid: bytes, now: Millis) -> None:
        """A job is done, or says that it failed."""
        broker = self._broker
        job = self._held(msgid)
        if job is None:
            return
        limits = self._service.limits
        failure = failure_in(result, limits.error_text_chars)
        if failure is not None:
            broker.fail(job, self._holder, failure, now)
            return
        if job.origin != ORIGIN:
            result = as_stranger_knows_it(job, result)
        self.member.done += 1
        broker.finish(job, self._holder, result, now)

    def _held(self, msgid: bytes) -> Job | None:
        """The job of that id that this worker holds."""
        try:
            job = self._broker.sole(msgid.decode())
        except UnicodeDecodeError:
            job = None
        if job is not None and job.state is LEASED and job.holder == self._holder:
            return job
        for other in named(self._broker, msgid):
            if other.state is LEASED and other.holder == self._holder:
                return other
        return None
