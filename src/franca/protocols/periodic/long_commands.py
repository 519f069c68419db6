"""Commands that take many turns: DROP_FUNC, DUMP, LOAD and a long STATUS, as tasks.

Jobs may lie in the store alone, so they are recalled page by page; a page is acted on in the turn
that brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final
from zlib import crc32

from franca.core.errors import Refused, TooMuch
from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.conversation import Task
from franca.protocols.overview import LONG
from franca.protocols.periodic.auth import CLIENT, Rule
from franca.protocols.periodic.commands import SUCCESS, UNKNOWN
from franca.protocols.periodic.dialect import Task as PeriodicTask
from franca.protocols.periodic.jobs import ORIGIN, as_dumped

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

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


# -- jobs, page by page ----------------------------------------------------------------------


def _walk(
    connection: PeriodicConversation,
    query: Callable[[int], JobQuery],
    see: Callable[[Job], None],
    turn_page: Callable[[], None] | None = None,
) -> Generator[JobQuery, list[Job], None]:
    """See every job that there was at the start, in order of their ids.

    Jobs that have changed since a page was read are not in it, so one empty page may stand before a
    full one; two in a row are the end.
    """
    last = connection.broker.totals.last_job_id
    after, was_empty = 0, False
    while True:
        jobs = yield query(after)
        for job in jobs:
            if job.id <= last:
                see(job)
        if turn_page is not None:
            turn_page()
        if jobs and jobs[-1].id < last:
            after, was_empty = jobs[-1].id, False
        elif not (jobs or was_empty):
            was_empty = True
        else:
            return


def drop(connection: PeriodicConversation, msgid: bytes, func: str) -> Task:
    """A function is forgotten with its jobs, but for one that still runs somewhere."""
    yield
    broker = connection.broker

    def see(job: Job) -> None:
        try:
            broker.cancel(job, connection.now)
        except Refused:
            pass  # it has ended since

    yield from _walk(
        connection,
        lambda after: JobQuery(states=_DROPPED, queue=func, after=after, limit=PAGE_JOBS),
        see,
    )
    queue = broker.queues.get(func)
    if queue is not None and not queue.ready:
        broker.remove_queue(func, connection.now)
    return connection.dialect.word(msgid, SUCCESS)


class _Pages:
    """What was dumped so far: a page at a time is made one piece."""

    def __init__(self, connection: PeriodicConversation, msgid: bytes) -> None:
        self._connection = connection
        self._msgid = msgid
        self._page: list[bytes] = []
        self._count = self._crc = self.charged = 0
        self._pages: list[bytes] = []

    def see(self, job: Job) -> None:
        """One more job. `TooMuch` if all dumps together hold more than a frame can."""
        if job.origin != ORIGIN:
            return
        connection = self._connection
        service = connection.service
        dumped = connection.dialect.dumped(as_dumped(job, connection.dialect, connection.broker))
        size = len(dumped) + JOB_ROOM
        service.dump_bytes += size
        self.charged += size
        if service.dump_bytes > service.limits.frame_bytes_max:
            raise TooMuch("a dump cannot be larger than a frame")
        self._page.append(dumped)
        self._count += 1

    def turn_page(self) -> None:
        """The jobs of one page were seen."""
        if self._page:
            page = self._connection.dialect.dump_page(self._msgid, self._page)
            self._page.clear()
            self._pages.append(page)
            self._crc = crc32(page, self._crc)

    def pieces(self) -> list[bytes]:
        """All of it, as it is said."""
        size = sum(map(len, self._pages))
        dialect = self._connection.dialect
        front, back = dialect.dump_around(self._msgid, self._count, size, self._crc)
        return [piece for piece in (front, *self._pages, back) if piece]


def dump(connection: PeriodicConversation, msgid: bytes) -> Task:
    """Every live job of this protocol, in one answer or in many.

    More than a frame can hold is refused: half a dump would pass for a whole one. So is what all
    dumps under way hold together, beyond one frame.
    """
    yield
    pages = _Pages(connection, msgid)
    try:
        yield from _walk(
            connection,
            lambda after: JobQuery(states=_LIVE, after=after, limit=PAGE_JOBS),
            pages.see,
            pages.turn_page,
        )
    except Refused:
        return connection.dialect.word(msgid, UNKNOWN)
    finally:
        connection.service.dump_bytes -= pages.charged
    first, *rest = pages.pieces()
    connection.say_after_commit(first)
    if rest:
        connection.link.write_bulk(*rest)
    return b""


# -- many jobs in ----------------------------------------------------------------------------


def load(
    connection: PeriodicConversation, msgid: bytes, tasks: Iterable[PeriodicTask], size: int
) -> Task:
    """Many jobs, some of them in each turn. Those in front of a bad one are kept.

    All that are under way hold together no more than one frame; beyond it one is `TooMuch`.
    """
    now = yield
    service = connection.service
    rest = iter(tasks)
    word = SUCCESS
    service.loads += 1
    try:
        while _take_some(connection, rest, now):
            now = yield
    except Refused:
        word = UNKNOWN
    finally:
        service.loads -= 1
        service.load_bytes.give_back(size)
    return connection.dialect.word(msgid, word) if connection.dialect.confirms_loads else b""


def _take_some(
    connection: PeriodicConversation, tasks: Iterator[PeriodicTask], now: Millis
) -> bool:
    """Take in a turn's share, which is smaller if there are other loads; False if that was all."""
    loads = connection.service.loads
    room = LOAD_BYTES // loads
    for _ in range(max(LOAD_JOBS // loads, LOAD_JOBS_MIN)):
        task = next(tasks, None)
        if task is None:
            return False
        connection.check_may(CLIENT, task.func)
        connection.client.take_in(task, now)
        room -= max(len(task.workload), task.size)
        if room < 0:
            break
    return True


def charge_load(connection: PeriodicConversation, size: int) -> int:
    """Take room for a load of that size, if it is not small; returns how much."""
    size = size if size > SMALL_LOAD_BYTES else 0
    connection.service.load_bytes.take(size)
    return size


# -- a list of all functions -------------------------------------------------------------------


def listing(connection: PeriodicConversation, msgid: bytes, rule: Rule | None) -> Task:
    """Every function that the peer may know of.

    A long list is made in slices, once for all who ask meanwhile, and may be as old as it took to
    make it, or a second older: it costs everybody time, however many ask for it. So may any list
    while very much is listed.
    """
    now = yield
    service = connection.service
    key: ListingKey = (connection.dialect.name, rule)
    kept = service.listings.get(key)
    if kept is not None and (kept[2] or service.listed > LISTED_A_TICK):
        connection.say_data(msgid, kept[1])
        return b""
    seen, idle = (-1, -1), 0
    while (making := service.making.get(key)) is not None and idle <= IDLE_TURNS:
        # Somebody else makes it, unless whoever does is held up.
        idle = idle + 1 if seen == (id(making), making[0]) else 0
        seen = (id(making), making[0])
        now = yield
        kept = service.listings.get(key)
        if kept is not None:
            connection.say_data(msgid, kept[1])
            return b""
    slices = service.making[key] = [0]
    try:
        for _ in _make(connection, msgid, key, now):
            slices[0] += 1
            yield
    finally:
        if service.making.get(key) is slices:
            del service.making[key]
    return b""


def _make(
    connection: PeriodicConversation, msgid: bytes, key: ListingKey, now: Millis
) -> Iterator[None]:
    """The listing, a slice between two stops; a short one has none."""
    dialect, rule, service = connection.dialect, key[1], connection.service
    survey = service.survey(now)
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
            dialect.status_line(survey.status_of(name))
            for name in batch
            if rule is None or rule.allows(name)
        ]
    data = dialect.status(lines)
    if key in service.listings or len(service.listings) < LISTINGS_MAX:
        service.listings[key] = (now, data, is_long)
    if is_long:
        yield
    connection.say_data(msgid, data)
