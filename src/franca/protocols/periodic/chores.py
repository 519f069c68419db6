"""What takes many turns: DROP_FUNC, DUMP and LOAD. Each is answered once, at its end.

Jobs may lie in the store alone, so they are recalled page by page; a page is acted on in the turn
that brings it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused
from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.periodic.auth import CLIENT
from franca.protocols.periodic.jobs import ORIGIN, as_dumped
from franca.protocols.periodic.speech import Assignment, Task
from franca.protocols.periodic.words import SUCCESS, UNKNOWN

if TYPE_CHECKING:
    from franca.protocols.periodic.asking import Asking

PAGE_JOBS: Final = 200
LOAD_JOBS: Final = 500
"""Jobs taken in during one turn: more would hold up everybody else's."""
_LIVE: Final = (State.WAITING, State.READY, State.LEASED)
_DROPPED: Final = (State.WAITING, State.READY, State.DEAD)


class Chore:
    """Something that holds up its connection until it is done."""

    needs_turns = False
    """Whether it goes on by being called each turn; else the store calls it."""

    def __init__(self, talk: Asking, msgid: bytes) -> None:
        self._talk = talk
        self._msgid = msgid

    def begin(self, now: Millis) -> None:
        """Do the first part."""

    def work_on(self, now: Millis) -> None:
        """Do the next part."""

    def _done(self, frame: bytes, now: Millis) -> None:
        talk = self._talk
        if not talk.link.closing and not talk.link.closed:
            if frame:
                talk.say_after_commit(frame)
            talk.chore_done(now)


class _Walk(Chore):
    """A chore that looks at jobs in order of their ids, as many as there were at its start."""

    def begin(self, now: Millis) -> None:
        """Ask for the first page."""
        self._last = self._talk.broker.totals.last_job_id
        self._was_empty = False
        self._ask(0)

    def _ask(self, after: int) -> None:
        self._talk.broker.recall(self._query(after), self)

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Act on a page, and ask for the next one.

        Jobs that have changed since the page was read are not in it, so one empty page may stand
        before a full one; two in a row are the end.
        """
        if self._talk.link.closing or self._talk.link.closed:
            return
        for job in jobs:
            if job.id <= self._last and not self._see(job, now):
                return
        if (jobs and jobs[-1].id < self._last) or not (jobs or self._was_empty):
            self._was_empty = not jobs
            self._ask(jobs[-1].id if jobs else query.after)
        else:
            self._end(now)

    @abstractmethod
    def _query(self, after: int) -> JobQuery:
        """The next page."""

    @abstractmethod
    def _see(self, job: Job, now: Millis) -> bool:
        """Act on one job; False if that was the end of it all."""

    @abstractmethod
    def _end(self, now: Millis) -> None:
        """All jobs were seen."""


class Drop(_Walk):
    """A function is forgotten with its jobs, but for one that still runs somewhere."""

    def __init__(self, talk: Asking, msgid: bytes, func: str) -> None:
        super().__init__(talk, msgid)
        self._func = func

    def _query(self, after: int) -> JobQuery:
        return JobQuery(states=_DROPPED, queue=self._func, after=after, limit=PAGE_JOBS)

    def _see(self, job: Job, now: Millis) -> bool:
        try:
            self._talk.broker.cancel(job, now)
        except Refused:
            pass  # it has ended since
        return True

    def _end(self, now: Millis) -> None:
        broker = self._talk.broker
        queue = broker.queues.get(self._func)
        if queue is not None and not queue.ready:
            broker.remove_queue(self._func, now)
        self._done(self._talk.speech.word(self._msgid, SUCCESS), now)


class Dump(_Walk):
    """Every live job of this protocol, in one answer or in many.

    More than a frame can hold is refused: half a dump would pass for a whole one.
    """

    def __init__(self, talk: Asking, msgid: bytes) -> None:
        super().__init__(talk, msgid)
        self._tasks: list[Assignment] = []
        self._room = talk.service.limits.frame_bytes_max

    def _query(self, after: int) -> JobQuery:
        return JobQuery(states=_LIVE, after=after, limit=PAGE_JOBS)

    def _see(self, job: Job, now: Millis) -> bool:
        if job.origin != ORIGIN:
            return True
        task = as_dumped(job, self._talk.speech, self._talk.broker)
        self._room -= len(task.workload) + len(task.func) + len(task.name) + 64
        if self._room < 0:
            self._done(self._talk.speech.word(self._msgid, UNKNOWN), now)
            return False
        self._tasks.append(task)
        return True

    def _end(self, now: Millis) -> None:
        self._done(self._talk.speech.dump(self._msgid, self._tasks), now)


class Load(Chore):
    """Many jobs, some of them in each turn. Those in front of a bad one are kept."""

    needs_turns = True

    def __init__(self, talk: Asking, msgid: bytes, tasks: Iterable[Task]) -> None:
        super().__init__(talk, msgid)
        self._tasks = iter(tasks)

    def begin(self, now: Millis) -> None:
        """Take in the first of them."""
        self.work_on(now)

    def work_on(self, now: Millis) -> None:
        """Take in the next of them."""
        word = SUCCESS
        try:
            for _ in range(LOAD_JOBS):
                task = next(self._tasks, None)
                if task is None:
                    break
                self._talk.check_may(CLIENT, task.func)
                self._talk.take_in(task, now)
            else:
                return
        except Refused:
            word = UNKNOWN
        confirms = self._talk.speech.confirms_loads
        self._done(self._talk.speech.word(self._msgid, word) if confirms else b"", now)
