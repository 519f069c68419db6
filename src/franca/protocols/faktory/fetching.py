"""FETCH: the queues that a connection asks for, and the job that it waits for.

A connection asks for the same queues again and again, so the list that it asked for last is
remembered, once for all connections that ask for the same. All that is remembered takes only so
much memory; beyond it a list is read again each time. Long lists that wait for a job are counted as
well, because each name of them is a demand that waits in a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.events import Granted
from franca.core.model import NEVER, Demand, Job, JobId, Millis
from franca.core.names import text_of
from franca.protocols.conversation import Task, ask_for_nothing
from franca.protocols.faktory.go_json import LARGE_BYTES, Unfit
from franca.protocols.faktory.wire import NULL
from franca.protocols.faktory.workers import WorkerState
from franca.protocols.undelivered import give_back

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation

FETCH_WAIT_MS: Final = 1_850
"""How long a FETCH waits. The document says 2 s; one client gives up at exactly that."""
FETCH_QUEUES_MAX: Final = 1_024
MANY_NAMES: Final = 64
"""A FETCH with more names has its turn like other commands that take long."""
FEW_NAMES: Final = 16
"""A list of no more names may always wait."""
NAMES_WAITING_MAX: Final = 100_000
NO_JOB: Final[JobId] = 0
"""No job has this id. A job that was given out is remembered by its id: it may be gone by now, and
its body should be, too."""
LONG_REPLY_BYTES: Final = 16 * 1024
"""What is unsent is counted if a reply is longer than this: a share of shorter ones is little."""
_LIST_BYTES: Final = 200
_NAME_BYTES: Final = 64


class QueueList(Struct, eq=False):
    """The queues of a FETCH, as they were written and as they were read.

    `is_kept` if connections may remember it; if not, only until their FETCH is answered.
    """

    rest: bytes
    names: tuple[str, ...]
    size: int = 0
    users: int = 0
    is_kept: bool = False


class QueueLists:
    """The lists that connections remember now, in `bytes`; `names_waiting` of those that wait."""

    def __init__(self, broker: Broker) -> None:
        self.bytes = 0
        self.names_waiting = 0
        self._broker = broker
        self._kept: dict[bytes, QueueList] = {}

    def take(self, rest: bytes) -> QueueList:
        """What a FETCH asks for; `Refused` if it cannot. To be given back by `drop`."""
        found = self._kept.get(rest)
        if found is None:
            found = QueueList(rest, self._read(rest))
            found.size = _LIST_BYTES + len(rest) + sum(map(len, found.names))
            found.size += _NAME_BYTES * len(found.names)
            found.is_kept = self.bytes + found.size <= self._broker.limits.offered_bytes
            if found.is_kept:
                self.bytes += found.size
                self._kept[rest] = found
        found.users += 1
        return found

    def drop(self, queue_list: QueueList) -> None:
        """A connection no longer remembers this."""
        queue_list.users -= 1
        if not queue_list.users and queue_list.is_kept:
            del self._kept[queue_list.rest]
            self.bytes -= queue_list.size

    def _read(self, rest: bytes) -> tuple[str, ...]:
        """The queues that a FETCH names, each once; `Refused` if one of them cannot be a queue."""
        most = self._broker.limits.name_bytes_max
        # Counted first: a line of blanks may be megabytes long.
        if rest.count(b" ") > 2 * FETCH_QUEUES_MAX or len(rest) > 2 * FETCH_QUEUES_MAX * (most + 1):
            raise Unfit(f"cannot fetch from more than {FETCH_QUEUES_MAX} queues")
        names = tuple(dict.fromkeys(text_of(name) for name in rest.split(b" ") if name))
        if len(names) > FETCH_QUEUES_MAX:
            raise Unfit(f"cannot fetch from more than {FETCH_QUEUES_MAX} queues")
        if any(len(name.encode()) > most for name in names):
            raise Unfit(f"queue names cannot be longer than {most} bytes")
        queues = self._broker.queues
        return tuple(queues[n].name if n in queues else n for n in names) or ("default",)


def on_fetch(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """FETCH: a job now, or within two seconds, or none."""
    fetching = conversation.fetching
    if rest != fetching.asked and rest.count(b" ") > MANY_NAMES:
        conversation.begin(_fetch_many(fetching, rest), now, len(rest))
    else:
        fetching.ask(rest, now)


def _fetch_many(fetching: Fetching, rest: bytes) -> Task:
    """The same for many names, each of which costs time."""
    yield
    now = yield
    fetching.ask(rest, now)
    return None if fetching.demand is not None else b""


class Fetching:
    """The FETCH of one connection. `last_grant` is the job of the last reply, if that was one.

    A FETCH with the same arguments as `asked` is not parsed again.
    """

    def __init__(self, conversation: FaktoryConversation) -> None:
        self.demand: Demand | None = None
        self.asked_at: Millis = NEVER
        self.last_grant: JobId = NO_JOB
        self.asked: bytes | None = None
        self._conversation = conversation
        self._lists = conversation.service.queue_lists
        self._renderer = conversation.service.renderer
        self._broker = conversation.broker
        self._list: QueueList | None = None
        self._wanted: tuple[str, ...] = ()
        self._names_waiting = 0
        self._last_attempt = 0

    def ask(self, rest: bytes, now: Millis) -> None:
        """Ask for a job of these queues; the answer is written, or waited for."""
        conversation = self._conversation
        self.asked_at = now
        try:
            if rest != self.asked:
                self._choose(rest)
            demand = Demand(conversation.session, self._wanted, now + FETCH_WAIT_MS)
            answer = self._broker.demand(demand, now)
        except Refused:
            self.end_wait()
            raise
        if isinstance(answer, Granted):
            if self._names_waiting or self.asked is None:
                self.end_wait()
            self._say(answer.job)
        else:
            self.demand = demand
            conversation.holding = True

    def _choose(self, rest: bytes) -> None:
        """Decide which queues are asked for, or `Refused`.

        As long as nothing about that changes, `asked` keeps a FETCH from being looked at again;
        but not one with many names, which are counted each time.
        """
        lists = self._lists
        chosen = lists.take(rest)
        self.forget()
        self._list = chosen
        worker = self._conversation.worker
        if worker is not None:
            worker.works = True
        is_quiet = worker is not None and worker.state is not WorkerState.RUNNING
        if is_quiet or self._conversation.service.registry.stopping:
            # It waits as any other FETCH does, but for no queue: two client libraries would ask
            # again at once if they were answered at once.
            return
        count = len(chosen.names)
        if count > FEW_NAMES:
            if lists.names_waiting + count > NAMES_WAITING_MAX:
                raise Unfit("too many queues are asked for at once, name fewer or try again later")
            lists.names_waiting += count
            self._names_waiting = count
        self._wanted = chosen.names
        if not self._names_waiting and chosen.is_kept:
            self.asked = rest

    def end_wait(self) -> None:
        """A FETCH is answered, or its client is gone."""
        self.demand = None
        if self.asked is None:
            self._lists.names_waiting -= self._names_waiting
            self._names_waiting = 0
            if self._list is not None and not self._list.is_kept:
                self.forget()

    def forget(self) -> None:
        """Forget the queues of the last FETCH."""
        self.asked = None
        self._wanted = ()
        if self._list is not None:
            self._lists.drop(self._list)
            self._list = None

    def _say(self, job: Job) -> None:
        link = self._conversation.link
        self.last_grant = job.id
        self._last_attempt = job.attempts
        if len(job.body) > LARGE_BYTES:
            link.write_pieces(self._renderer.long_reply(job), durable=True)
            return
        reply = self._renderer.reply(job)
        link.write_after_commit(reply)
        if len(reply) > LONG_REPLY_BYTES:
            link.in_pieces = True

    def stop_giving_jobs(self) -> None:
        """Give no more jobs to this connection; a FETCH that waits is answered at its end."""
        self.asked = None
        self.demand = ask_for_nothing(self._broker, self.demand)

    def queues(self) -> tuple[str, ...]:
        """The queues of the last FETCH, if they are remembered."""
        return self._list.names if self._list is not None else ()

    # -- answers ----------------------------------------------------------------------------------

    def on_granted(self, event: Granted, now: Millis) -> None:
        """A job has come. It may be for a FETCH that was answered otherwise: then it goes back."""
        if event.demand is not self.demand or self._conversation.link.closing:
            give_back(self._broker, event.job, self._conversation.holder, now)
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
        """The server stops: a FETCH that waits is answered, and later commands are acted on."""
        self.asked = None
        if self.demand is not None:
            self._broker.withdraw(self.demand)
            self.on_unmet(self.demand)

    def undo(self, now: Millis) -> None:
        """The last reply was not delivered: if it was a job, that goes back."""
        job = self._broker.jobs.get(self.last_grant)
        if job is not None and job.attempts == self._last_attempt:
            give_back(self._broker, job, self._conversation.holder, now)
