"""What takes many turns: DROP_FUNC, DUMP, LOAD and a long STATUS. Each is answered at its end.

Jobs may lie in the store alone, so they are recalled page by page; a page is acted on in the turn
that brings it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final
from zlib import crc32

from franca.core.errors import Refused, TooMuch
from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.overview import LONG
from franca.protocols.periodic.auth import CLIENT, Rule
from franca.protocols.periodic.jobs import ORIGIN, as_dumped
from franca.protocols.periodic.speech import Task
from franca.protocols.periodic.status import Survey
from franca.protocols.periodic.words import SUCCESS, UNKNOWN

if TYPE_CHECKING:
    from franca.protocols.periodic.asking import Asking

PAGE_JOBS: Final = 200
LOAD_JOBS: Final = 500
"""Jobs taken in during one turn: more would hold up everybody else's."""
LOAD_BYTES: Final = 1 << 20
"""And the bytes of their workloads."""
LOAD_JOBS_MIN: Final = 20
"""But this many of each load, however many there are."""
SMALL_LOAD_BYTES: Final = 8 * 1024
"""A load that is always taken, as it is soon done."""
LISTED_A_TICK: Final = 5_000
"""Functions listed between two ticks; whoever asks then may be told what another was told."""
LISTINGS_MAX: Final = 16
"""Listings that are kept for a moment: one for each dialect, and for each name with rights."""
IDLE_TURNS: Final = 3
"""Turns without a step of whoever makes a listing before another begins anew."""
LISTED_FUNCS: Final = 1_000
"""Functions listed during one turn."""
JOB_ROOM: Final = 64
"""What a job in a dump is counted as beyond its bytes."""
ListingKey = tuple[str, Rule | None]
"""A dialect, and the rights of those who are shown a listing."""
_LIVE: Final = (State.WAITING, State.READY, State.LEASED)
_DROPPED: Final = (State.WAITING, State.READY, State.DEAD)


class Chore:
    """Something that holds up its connection until it is done."""

    needs_turns = False
    """Whether it goes on by being called each turn; else the store calls it."""

    def __init__(self, talk: Asking, msgid: bytes) -> None:
        self.link = talk.link
        self._talk = talk
        self._msgid = msgid

    def begin(self, now: Millis) -> None:
        """Do the first part."""

    def work_on(self, now: Millis) -> None:
        """Do the next part."""

    def give_up(self) -> None:
        """The connection is gone."""

    def _is_left(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.link.closing or self.link.closed

    def _done(self, frame: bytes, now: Millis) -> None:
        if not self._is_left():
            if frame:
                self._talk.say_after_commit(frame)
            self._talk.chore_done(now)


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
        if self._is_left():
            return
        for job in jobs:
            if job.id <= self._last and not self._see(job, now):
                return
        self._turn_page()
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

    def _turn_page(self) -> None:
        """The jobs of one page were seen."""

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

    More than a frame can hold is refused: half a dump would pass for a whole one. So is what all
    dumps under way hold together, beyond one frame.
    """

    def __init__(self, talk: Asking, msgid: bytes) -> None:
        super().__init__(talk, msgid)
        self._page: list[bytes] = []
        self._pages: list[bytes] = []
        self._count = self._size = self._crc = self._charged = 0

    def _query(self, after: int) -> JobQuery:
        return JobQuery(states=_LIVE, after=after, limit=PAGE_JOBS)

    def _see(self, job: Job, now: Millis) -> bool:
        if job.origin != ORIGIN:
            return True
        talk = self._talk
        try:
            dumped = talk.speech.dumped(as_dumped(job, talk.speech, talk.broker))
            self._charge(len(dumped) + JOB_ROOM)
        except Refused:
            self.give_up()
            self._done(talk.speech.word(self._msgid, UNKNOWN), now)
            return False
        self._page.append(dumped)
        self._count += 1
        return True

    def _charge(self, size: int) -> None:
        service = self._talk.service
        service.dump_bytes += size
        self._charged += size
        if service.dump_bytes > service.limits.frame_bytes_max:
            raise TooMuch("a dump cannot be larger than a frame")

    def _turn_page(self) -> None:
        if self._page:
            page = self._talk.speech.dump_page(self._msgid, self._page)
            self._page.clear()
            self._pages.append(page)
            self._size += len(page)
            self._crc = crc32(page, self._crc)

    def _end(self, now: Millis) -> None:
        speech = self._talk.speech
        front, back = speech.dump_around(self._msgid, self._count, self._size, self._crc)
        first, *rest = [piece for piece in (front, *self._pages, back) if piece]
        self._talk.say_after_commit(first)
        if rest:
            self.link.write_bulk(*rest)
        self.give_up()
        self._talk.chore_done(now)

    def give_up(self) -> None:
        """Hold no room any more."""
        self._talk.service.dump_bytes -= self._charged
        self._charged = 0
        self._pages = []
        self._page = []


class Load(Chore):
    """Many jobs, some of them in each turn. Those in front of a bad one are kept.

    All that are under way hold together no more than one frame; beyond it one is `TooMuch`.
    """

    needs_turns = True

    def __init__(self, talk: Asking, msgid: bytes, tasks: Iterable[Task], size: int) -> None:
        super().__init__(talk, msgid)
        self._tasks = iter(tasks)
        self._size = size if size > SMALL_LOAD_BYTES else 0
        talk.service.load_bytes.take(self._size)

    def begin(self, now: Millis) -> None:
        """Take in the first of them."""
        self._talk.service.loads[self] = None
        self.work_on(now)

    def work_on(self, now: Millis) -> None:
        """Take in the next of them, fewer if there are other loads."""
        word = SUCCESS
        loads = len(self._talk.service.loads)
        room = LOAD_BYTES // loads
        try:
            for _ in range(max(LOAD_JOBS // loads, LOAD_JOBS_MIN)):
                task = next(self._tasks, None)
                if task is None:
                    break
                self._talk.check_may(CLIENT, task.func)
                self._talk.take_in(task, now)
                room -= max(len(task.workload), task.size)
                if room < 0:
                    return
            else:
                return
        except Refused:
            word = UNKNOWN
        confirms = self._talk.speech.confirms_loads
        self.give_up()
        self._done(self._talk.speech.word(self._msgid, word) if confirms else b"", now)

    def give_up(self) -> None:
        """Hold nothing any more."""
        service = self._talk.service
        service.loads.pop(self, None)
        service.load_bytes.give_back(self._size)
        self._size = 0
        self._tasks = iter(())


class Listing(Chore):
    """Every function that the peer may know of. A long list is made in slices, once for all who
    ask meanwhile, and may be as old as it took to make it, or a second older: it costs everybody
    time, however many ask for it. So may any list while very much is listed.
    """

    needs_turns = True

    def __init__(self, talk: Asking, msgid: bytes, rule: Rule | None) -> None:
        super().__init__(talk, msgid)
        self._rule = rule
        self._key: ListingKey = (talk.speech.name, rule)
        self._began_at: Millis = 0
        self._steps: Iterator[None] | None = None
        self.slices = 0
        """How far it has come."""
        self._seen: tuple[Listing, int] | None = None
        self._idle_turns = 0

    def begin(self, now: Millis) -> None:
        """Make the first slice, or all of a short one; or wait for whoever is at it."""
        service = self._talk.service
        kept = service.listings.get(self._key)
        if kept is not None and (kept[2] or service.listed > LISTED_A_TICK):
            self._answer(kept[1], now)
        elif self._key not in service.making:
            self._make_it(now)

    def work_on(self, now: Millis) -> None:
        """Make the next slice, or look whether another has made all."""
        service = self._talk.service
        if self._steps is None:
            kept = service.listings.get(self._key)
            if kept is not None:
                self._answer(kept[1], now)
            elif self._is_left_alone(service.making.get(self._key)):
                self._make_it(now)
            return
        self.slices += 1
        for _ in self._steps:
            return
        self.give_up()
        self._talk.chore_done(now)

    def give_up(self) -> None:
        """Others need not wait for this one."""
        making = self._talk.service.making
        if making.get(self._key) is self:
            del making[self._key]

    def _is_left_alone(self, maker: Listing | None) -> bool:
        """Whether nobody makes the list, or whoever did is held up."""
        seen = (maker, maker.slices) if maker is not None else None
        self._idle_turns = self._idle_turns + 1 if seen == self._seen else 0
        self._seen = seen
        return maker is None or self._idle_turns > IDLE_TURNS

    def _make_it(self, now: Millis) -> None:
        service = self._talk.service
        service.making[self._key] = self
        self._began_at = now
        self._steps = self._make(service.survey(now))
        self.work_on(now)

    def _make(self, survey: Survey) -> Iterator[None]:
        """The listing, a slice between two stops; a short one has none."""
        speech, rule, service = self._talk.speech, self._rule, self._talk.service
        is_long = len(survey.names) > LONG
        runs: list[list[str]] = []
        for start in range(0, len(survey.names), LISTED_FUNCS):
            if is_long:
                yield
            slice_ = survey.names[start : start + LISTED_FUNCS]
            runs.append(sorted(name for name in slice_ if survey.is_listed(name)))
        names = merge(*runs)
        lines: list[bytes] = []
        while batch := list(islice(names, LISTED_FUNCS)):
            if is_long:
                yield
            service.listed += len(batch)
            lines += [
                speech.status_line(survey.status_of(name))
                for name in batch
                if rule is None or rule.allows(name)
            ]
        data = speech.status(lines)
        if self._key in service.listings or len(service.listings) < LISTINGS_MAX:
            service.listings[self._key] = (self._began_at, data, is_long)
        if is_long:
            yield
        self._talk.say_data(self._msgid, data)

    def _answer(self, data: bytes, now: Millis) -> None:
        self._talk.say_data(self._msgid, data)
        self._talk.chore_done(now)
