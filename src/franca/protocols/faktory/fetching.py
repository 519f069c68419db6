"""What one Faktory connection asks for: the queues of its FETCH, and the job that it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import NEVER, Demand, Job, JobId, Millis
from franca.protocols.conversation import Task
from franca.protocols.faktory.text import LARGE_BYTES
from franca.protocols.faktory.wire import NULL, error
from franca.protocols.faktory.wishes import Wish
from franca.protocols.faktory.workers import WorkerState

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation

FETCH_WAIT_MS: Final = 1_850
"""How long a FETCH waits. The document says 2 s; one client gives up at exactly that."""
MANY_NAMES: Final = 64
"""A FETCH with more names has its turn like other commands that take long."""
NO_JOB: Final[JobId] = 0
"""No job has this id. A job that was given out is remembered by its id: it may be gone by now, and
its body should be, too."""
LONG_REPLY_BYTES: Final = 16 * 1024
"""Replies are counted where one is longer than this: others are little even if a share has many."""


class Fetching:
    """The FETCH of one connection. `last_grant` is the job that was said last, until another is."""

    def __init__(self, conversation: FaktoryConversation) -> None:
        self.demand: Demand | None = None
        self.last_grant: JobId = NO_JOB
        self._conversation = conversation
        self._service = conversation.service
        self._broker = conversation.broker
        self._wish: Wish | None = None
        self._asked: bytes | None = None
        self._wanted: tuple[str, ...] = ()
        self._names_waiting = 0
        self._last_attempt = 0

    def ask(self, rest: bytes, now: Millis) -> None:
        """FETCH: a job now, or within two seconds, or none."""
        if rest != self._asked:
            if rest.count(b" ") > MANY_NAMES:
                self._conversation.begin(self._fetch_many(rest), now, len(rest))
                return
            if not self._may_ask(rest):
                return
        self._fetch(now)

    def _fetch_many(self, rest: bytes) -> Task:
        """The same for many names, each of which costs time."""
        yield
        now = yield
        if self._may_ask(rest):
            self._fetch(now)
        return None if self.demand is not None else b""

    def _fetch(self, now: Millis) -> None:
        conversation = self._conversation
        demand = Demand(conversation.session, self._wanted, now + FETCH_WAIT_MS)
        try:
            answer = self._broker.demand(demand, now)
        except Refused as refusal:
            self.end_wait()
            conversation.say(error(refusal.text))
            return
        if isinstance(answer, Granted):
            if self._names_waiting or self._asked is None:
                self.end_wait()
            self._say(answer.job)
        else:
            self.demand = demand
            conversation.holding = True

    def _may_ask(self, rest: bytes) -> bool:
        """Whether this connection may ask for jobs, and of which queues; if not, it is told.

        As long as nothing about that changes, `_asked` keeps a FETCH from being looked at again;
        but not one with many names, which are counted each time.
        """
        wishes = self._service.wishes
        try:
            wish = wishes.take(rest)
            self.forget()
            self._wish = wish
            worker = self._conversation.worker
            if worker is not None:
                worker.works = True
            is_quiet = worker is not None and worker.state is not WorkerState.RUNNING
            if is_quiet or self._service.stopping:
                # It waits as any other FETCH does, for nothing: two client libraries ask again at
                # once when they are answered at once.
                self._wanted = ()
                return True
            self._names_waiting = wishes.wait(len(wish.names))
        except Refused as refusal:
            self.end_wait()
            self._conversation.say(error(refusal.text))
            return False
        self._wanted = wish.names
        if not self._names_waiting and wishes.keeps(wish):
            self._asked = wish.rest
        return True

    def end_wait(self) -> None:
        """A FETCH is answered, or nobody is there to be answered."""
        self.demand = None
        if self._asked is None:
            self._service.wishes.names_waiting -= self._names_waiting
            self._names_waiting = 0
            if self._wish is not None and not self._service.wishes.keeps(self._wish):
                self.forget()

    def forget(self) -> None:
        """Remember no queues any more."""
        self._asked = None
        self._wanted = ()
        if self._wish is not None:
            self._service.wishes.drop(self._wish)
            self._wish = None

    def _say(self, job: Job) -> None:
        self.last_grant = job.id
        self._last_attempt = job.attempts
        if len(job.body) > LARGE_BYTES:
            self._conversation.link.write_bulk(*self._service.renderer.long_reply(job))
            self._conversation.link.after_commit = True
            return
        reply = self._service.renderer.reply(job)
        self._conversation.link.write_after_commit(reply)
        if len(reply) > LONG_REPLY_BYTES:
            self._conversation.link.bulky = True

    def stop_giving_jobs(self) -> None:
        """Give no more jobs to this connection; a FETCH that waits does so in vain."""
        self._asked = None
        demand = self.demand
        if demand is not None and demand.queues:
            self._broker.withdraw(demand)
            self.demand = Demand(demand.session, (), demand.until)
            # It ends when the other would have; the present moment decides nothing about it.
            self._broker.demand(self.demand, NEVER)

    def queues(self) -> tuple[str, ...]:
        """The queues of the last FETCH, if they are remembered."""
        return self._wish.names if self._wish is not None else ()

    # -- answers ----------------------------------------------------------------------------------

    def on_granted(self, event: Granted, now: Millis) -> None:
        """A job has come. It may be for a FETCH that was answered otherwise: then it goes back."""
        if event.demand is not self.demand or self._conversation.link.closing:
            self._give_back(event.job, now)
            return
        self.end_wait()
        self._say(event.job)
        self._conversation.read_on()

    def on_unmet(self, demand: Demand) -> None:
        """No job has come in time."""
        if demand is self.demand:
            self.end_wait()
            self._conversation.say(NULL)
            self._conversation.read_on()

    def stop(self) -> None:
        """The server stops: a FETCH that waits is answered, what lies behind it is acted on."""
        self._asked = None
        if self.demand is not None:
            self._broker.withdraw(self.demand)
            self.end_wait()
            self._conversation.say(NULL)
            self._conversation.resume()

    def undo(self, now: Millis) -> None:
        """The job that was said last never left: it is as if it was never given."""
        job = self._broker.jobs.get(self.last_grant)
        if job is not None and job.attempts == self._last_attempt:
            self._give_back(job, now)

    def _give_back(self, job: Job, now: Millis) -> None:
        try:
            self._broker.give_back(job, self._conversation.holder, now)
        except Refused:
            pass  # it ran out, was settled over another connection, or is gone with all others
