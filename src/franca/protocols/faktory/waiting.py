"""What one Faktory connection waits for: a job, or a command that takes more than a turn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import NEVER, Demand, Job, JobId, Millis, Session
from franca.protocols.conversation import Conversation, Link
from franca.protocols.faktory.job import Work
from franca.protocols.faktory.lenient import Unreadable
from franca.protocols.faktory.text import LARGE_BYTES
from franca.protocols.faktory.wire import error
from franca.protocols.faktory.wishes import Wish
from franca.protocols.faktory.workers import Worker, WorkerState

if TYPE_CHECKING:
    from franca.protocols.faktory.service import FaktoryService

FETCH_WAIT_MS: Final = 1_850
"""How long a FETCH waits. The document says 2 s; one client gives up at exactly that."""
MANY_NAMES: Final = 64
"""A FETCH with more names has its turn like other commands that take long."""
NO_JOB: Final[JobId] = 0
"""No job has this id. A job that was given out is remembered by its id: it may be gone by now, and
its body should be, too."""
LONG_REPLY_BYTES: Final = 16 * 1024
"""Replies are counted where one is longer than this: others are little even if a share has many."""


class Waiting(Conversation):
    """The part of a conversation that asks for jobs and works on what takes long."""

    def __init__(self, service: FaktoryService, link: Link) -> None:
        self.link = link
        self.service = service
        self.broker = service.broker
        self.worker: Worker | None = None
        self.holder = ""
        self.polled_in = -1
        self.last_grant: JobId = NO_JOB
        self._render = service.renderer.reply
        self._session: Session | None = None
        self._work: Work | None = None
        self._work_bytes = 0
        self._demand: Demand | None = None
        self._wish: Wish | None = None
        self._asked: bytes | None = None
        self._wanted: tuple[str, ...] = ()
        self._names_waiting = 0
        self._last_attempt = 0

    # -- answers --------------------------------------------------------------------------------

    def say(self, reply: bytes) -> None:
        """Answer with what no disk can make untrue."""
        self.last_grant = NO_JOB
        self.link.write(reply)

    def say_after_commit(self, reply: bytes) -> None:
        """Answer with what must be durable first."""
        self.last_grant = NO_JOB
        self.link.write_after_commit(reply)
        if len(reply) > LONG_REPLY_BYTES:
            self.link.bulky = True

    def say_shared(self, pieces: Sequence[bytes]) -> None:
        """The same for an answer that many may be given: each is said the very same pieces."""
        self.last_grant = NO_JOB
        if len(pieces) > 1 or len(pieces[0]) > LONG_REPLY_BYTES:
            self.link.write_bulk(*pieces)
        else:
            self.link.write(pieces[0])

    # -- what takes long --------------------------------------------------------------------------

    def begin(self, work: Work, size: int, now: Millis) -> None:
        """Act on a command that may take more than this turn, and answer it when it is done.

        So many bytes of it are kept until then, and count as unread.
        """
        next(work)
        self._work = work
        self._work_bytes = size
        if size > LARGE_BYTES:
            self.service.desk.take(self, size)
        self.holding = True
        self._work_on(work, now)

    def _work_on(self, work: Work, now: Millis) -> None:
        try:
            work.send(now)
            return
        except StopIteration as end:
            self.holding = end.value is None
            if end.value:
                self.say_after_commit(end.value)
        except Refused as refusal:
            self.holding = False
            self.say_after_commit(refusal_of(refusal))
        self._end_work()

    def _end_work(self) -> None:
        self._work = None
        is_large = self._work_bytes > LARGE_BYTES
        self._work_bytes = 0
        if is_large:
            self.service.desk.leave(self)

    @abstractmethod
    def wait_with_rest(self) -> bool:
        """Hold until there is room for the rest of a large line, if that is what comes next."""

    def go_on(self) -> None:
        """What was waited for has come: read on, in the next turn.

        Not at once: others have yet to hear what has happened in this one.
        """
        self.holding = False
        self.link.again()

    # -- jobs --------------------------------------------------------------------------------------

    def on_fetch(self, rest: bytes, now: Millis) -> None:
        """FETCH: a job now, or within two seconds, or none."""
        if rest != self._asked:
            if rest.count(b" ") > MANY_NAMES:
                self.begin(self._fetch_many(rest), len(rest), now)
                return
            if not self._may_ask(rest):
                return
        self._fetch(now)

    def _fetch_many(self, rest: bytes) -> Work:
        """The same for many names, each of which costs time."""
        yield
        now = yield
        if self._may_ask(rest):
            self._fetch(now)
        return None if self._demand is not None else b""

    def _fetch(self, now: Millis) -> None:
        assert self._session is not None
        demand = Demand(self._session, self._wanted, now + FETCH_WAIT_MS)
        try:
            answer = self.broker.demand(demand, now)
        except Refused as refusal:
            self._end_wait()
            self.say(error(refusal.text))
            return
        if isinstance(answer, Granted):
            if self._names_waiting or self._asked is None:
                self._end_wait()
            self._say_granted(answer.job)
        else:
            self._demand = demand
            self.holding = True

    def _may_ask(self, rest: bytes) -> bool:
        """Whether this connection may ask for jobs, and of which queues; if not, it is told.

        As long as nothing about that changes, `_asked` keeps a FETCH from being looked at again;
        but not one with many names, which are counted each time.
        """
        wishes = self.service.wishes
        try:
            wish = wishes.take(rest)
            self._forget_wish()
            self._wish = wish
            worker = self.worker
            if worker is not None:
                worker.works = True
            is_quiet = worker is not None and worker.state is not WorkerState.RUNNING
            if is_quiet or self.service.stopping:
                # It waits as any other FETCH does, for nothing: two client libraries ask again at
                # once when they are answered at once.
                self._wanted = ()
                return True
            self._names_waiting = wishes.wait(len(wish.names))
        except Refused as refusal:
            self._end_wait()
            self.say(error(refusal.text))
            return False
        self._wanted = wish.names
        if not self._names_waiting and wishes.keeps(wish):
            self._asked = wish.rest
        return True

    def _end_wait(self) -> None:
        """A FETCH is answered, or nobody is there to be answered."""
        self._demand = None
        if self._asked is None:
            self.service.wishes.names_waiting -= self._names_waiting
            self._names_waiting = 0
            if self._wish is not None and not self.service.wishes.keeps(self._wish):
                self._forget_wish()

    def _forget_wish(self) -> None:
        self._asked = None
        self._wanted = ()
        if self._wish is not None:
            self.service.wishes.drop(self._wish)
            self._wish = None

    def _say_granted(self, job: Job) -> None:
        self.last_grant = job.id
        self._last_attempt = job.attempts
        if len(job.body) > LARGE_BYTES:
            self.link.write_bulk(*self.service.renderer.long_reply(job))
            self.link.after_commit = True
            return
        reply = self._render(job)
        self.link.write_after_commit(reply)
        if len(reply) > LONG_REPLY_BYTES:
            self.link.bulky = True

    def hush(self) -> None:
        """Give no more jobs to this connection; a FETCH that waits does so in vain."""
        self._asked = None
        demand = self._demand
        if demand is not None and demand.queues:
            self.broker.withdraw(demand)
            self._demand = Demand(demand.session, (), demand.until)
            # It ends when the other would have; the present moment decides nothing about it.
            self.broker.demand(self._demand, NEVER)

    def fetched_queues(self) -> tuple[str, ...]:
        """The queues of the last FETCH, if they are remembered."""
        return self._wish.names if self._wish is not None else ()

    def _give_back(self, job: Job, now: Millis) -> None:
        try:
            self.broker.give_back(job, self.holder, now)
        except Refused:
            pass  # it ran out, was settled over another connection, or is gone with all others


def refusal_of(refusal: Refused) -> bytes:
    """An error line for what is not done."""
    is_json = not isinstance(refusal, Unreadable)
    return error(refusal.text if is_json else f"invalid JSON: {refusal.text}")
