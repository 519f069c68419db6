"""What operators send: STATUS, DROP_FUNC, DUMP, LOAD, CONFIG_GET, CONFIG_SET, SHUTDOWN.

The first four may take many turns. Jobs may be in the store alone, so they are recalled page by
page; a page is acted on in the turn that brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final
from zlib import crc32

from msgspec.structs import replace

from franca.core.errors import Refused, TooMuch
from franca.core.model import Job, JobQuery, Millis, State
from franca.protocols.conversation import WHOLE_SHARE, Task
from franca.protocols.periodic import messages
from franca.protocols.periodic.auth import CLIENT, Rule
from franca.protocols.periodic.client_commands import submit
from franca.protocols.periodic.crc import Shared
from franca.protocols.periodic.jobs import NUMBER_MAX, ORIGIN, as_dumped
from franca.protocols.periodic.messages import Message, Unreadable, WireJob

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

CONFIG: Final = {
    "timeout": 600,
    "lock-timeout": 300,
    "assign-wait": 2,
    "keepalive": 120,
    "max-batch-size": 500,
    "max-pool-size": 10,
    "run-job-aggressive": 0,
}
"""What CONFIG_GET tells, by the names that the original gave it; it lasts as long as the server.

`timeout` and `keepalive` do what they say. The others control what this server does in another way,
and are only remembered.
"""
_CONFIG_MIN: Final = {"timeout": 60, "keepalive": 120}
"""No client can make the two so small that others cannot work: a minute for a job, and as long as
the original waits for a message of a peer."""
PAGE_JOBS: Final = 200
LOAD_JOBS: Final = 500
"""Jobs taken in during one turn: more would hold up everybody else's."""
LOAD_BYTES: Final = 1 << 20
"""And the bytes of their workloads."""
LOAD_JOBS_MIN: Final = 20
"""But this many of each load, however many there are."""
SMALL_LOAD_BYTES: Final = 8 * 1024
"""A load that is always taken, as it is soon done."""
JOB_COST_BYTES: Final = 64
"""What a job in a dump is counted as beyond its bytes."""
_LIVE: Final = (State.WAITING, State.READY, State.LEASED)
_DROPPED: Final = (State.WAITING, State.READY, State.DEAD)


# -- settings and shutdown ---------------------------------------------------------------------


def on_config_get(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """CONFIG_GET: a number, 0 where nothing is known."""
    connection.rule()
    name, _ = connection.binary.read_setting(message.args)
    value = connection.service.config.get(name, 0)
    connection.link.write(connection.binary.number(message.id, value))


def on_config_set(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """CONFIG_SET: until the server ends; one that is not known stays so."""
    connection.check_admin()
    name, value = connection.binary.read_setting(message.args)
    if name in CONFIG:
        value = max(_CONFIG_MIN.get(name, 0), min(value, NUMBER_MAX))
        connection.service.config[name] = value
        connection.link.did("CONFIG_SET", f"{name} {value}")
    connection.answer(message.id, messages.SUCCESS)


def on_shutdown(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """SHUTDOWN: no answer, the whole server stops; or that the peer may not ask for that.

    Without a CRC almost any bytes could be one.
    """
    if not connection.is_checked:
        raise Unreadable("only a frame with a CRC stops the server")
    connection.check_admin()
    if connection.link.peer.may(connection.service.settings.remote_shutdown):
        connection.link.did("SHUTDOWN")
        connection.service.request_stop()
    else:
        connection.answer(message.id, messages.NO_WORKER)


# -- STATUS --------------------------------------------------------------------------------------


def on_status(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """STATUS: every function that the peer may know of. It is all that one gets of a turn."""
    connection.spent += WHOLE_SHARE
    connection.begin(_list(connection, message.id, connection.rule()), now)


def _list(connection: PeriodicConversation, msgid: bytes, rule: Rule | None) -> Task:
    now = yield
    listing = yield from connection.service.listings.listing(connection.dialect, rule, now)
    connection.answer_data(msgid, listing.data)
    return b""


# -- jobs, page by page --------------------------------------------------------------------------


def _walk(
    connection: PeriodicConversation, query: JobQuery, on_page: Callable[[list[Job]], None]
) -> Generator[JobQuery, list[Job], None]:
    """Have every job seen that there was at the start, in order of their ids.

    Jobs that have changed since a page was read are not in it, so one empty page may stand before a
    full one; two in a row are the end.
    """
    last = connection.broker.totals.last_job_id
    after, was_empty = 0, False
    while True:
        jobs = yield replace(query, after=after)
        on_page([job for job in jobs if job.id <= last])
        if jobs and jobs[-1].id < last:
            after, was_empty = jobs[-1].id, False
        elif jobs or was_empty:
            return
        else:
            was_empty = True


def on_drop_func(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """DROP_FUNC: a function and its jobs, while nobody runs or awaits them; SUCCESS always."""
    func = connection.dialect.read_func(message.args)
    connection.check_admin()
    queue = connection.broker.queues.get(func)
    if queue is not None and (queue.servers or queue.demands or queue.leased):
        connection.succeed(message.id)
        return
    connection.service.funcs.pop(func, None)
    connection.link.did("DROP_FUNC", func)
    connection.begin(_drop(connection, message.id, func), now)


def _drop(connection: PeriodicConversation, msgid: bytes, func: str) -> Task:
    """Remove a function with its jobs, but for one that still runs somewhere."""
    yield
    broker = connection.broker

    def cancel(jobs: list[Job]) -> None:
        for job in jobs:
            try:
                broker.cancel(job, connection.now)
            except Refused:
                pass  # it has ended since

    yield from _walk(connection, JobQuery(states=_DROPPED, queue=func, limit=PAGE_JOBS), cancel)
    queue = broker.queues.get(func)
    if queue is not None and not queue.ready:
        broker.remove_queues((func,), connection.now)
    return connection.dialect.bare(msgid, messages.SUCCESS)


# -- DUMP ----------------------------------------------------------------------------------------


def on_dump(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """DUMP: every live job that came by this protocol."""
    connection.check_admin()
    connection.begin(_dump(connection, message.id), now)


def _dump(connection: PeriodicConversation, msgid: bytes) -> Task:
    """Every live job of this protocol, in one answer or in many; each page is one piece.

    More than a frame can hold is refused: half a dump would pass for a whole one. So is what all
    dumps under way hold together, beyond one frame.
    """
    yield
    service, dialect = connection.service, connection.dialect
    pages: list[bytes] = []
    count = crc = charged = 0

    def add(jobs: list[Job]) -> None:
        nonlocal count, crc, charged
        dumped: list[bytes] = []
        for job in jobs:
            if job.origin == ORIGIN:
                dumped.append(dialect.dumped(as_dumped(job, dialect, connection.broker)))
                size = len(dumped[-1]) + JOB_COST_BYTES
                service.dump_bytes += size
                charged += size
                if service.dump_bytes > service.limits.frame_bytes_max:
                    raise TooMuch("a dump cannot be larger than a frame")
        if dumped:
            count += len(dumped)
            pages.append(dialect.dump_page(msgid, dumped))
            crc = crc32(pages[-1], crc)

    try:
        yield from _walk(connection, JobQuery(states=_LIVE, limit=PAGE_JOBS), add)
    except Refused:
        return dialect.bare(msgid, messages.UNKNOWN)
    finally:
        service.dump_bytes -= charged
    front, back = dialect.dump_around(msgid, count, Shared(b"", sum(map(len, pages)), crc))
    said = [piece for piece in (front, *pages, back) if piece]
    connection.link.write_pieces(said, durable=True)
    return b""


# -- LOAD ----------------------------------------------------------------------------------------


def on_load(connection: PeriodicConversation, message: Message, now: Millis) -> None:
    """LOAD: many jobs at once. All that are under way hold together no more than one frame."""
    connection.check_admin()
    size = len(message.args) if len(message.args) > SMALL_LOAD_BYTES else 0
    try:
        jobs = connection.dialect.read_jobs(message.args)
        connection.service.load_bytes.take(size)
    except Refused:
        if connection.dialect.confirms_loads:
            raise
        return
    connection.link.did("LOAD", f"{len(message.args)} bytes")
    connection.begin(_load(connection, message.id, jobs, size), now)


def _load(
    connection: PeriodicConversation, msgid: bytes, jobs: Iterable[WireJob], size: int
) -> Task:
    """Many jobs, some of them in each turn. Those in front of a bad one are kept."""
    now = yield
    service = connection.service
    rest = iter(jobs)
    answer = messages.SUCCESS
    service.loads += 1
    try:
        while _load_some(connection, rest, now):
            now = yield
    except Refused:
        answer = messages.UNKNOWN
    finally:
        service.loads -= 1
        service.load_bytes.give_back(size)
    return connection.dialect.bare(msgid, answer) if connection.dialect.confirms_loads else b""


def _load_some(connection: PeriodicConversation, jobs: Iterator[WireJob], now: Millis) -> bool:
    """Take in a turn's share, which is smaller if there are other loads; False if that was all."""
    loads = connection.service.loads
    room = LOAD_BYTES // loads
    for _ in range(max(LOAD_JOBS // loads, LOAD_JOBS_MIN)):
        job = next(jobs, None)
        if job is None:
            return False
        connection.check_may(CLIENT, job.func)
        submit(connection, job, now)
        room -= max(len(job.workload), job.size)
        if room < 0:
            break
    return True
