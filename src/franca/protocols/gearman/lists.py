"""The lists that operators and monitoring programs ask for, in pieces of a microsecond each.

Lists end with a line that has only a dot. While one is written other peers are served, so each
line shows what was true when it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from franca.core.model import Job
from franca.core.queues import Queue
from franca.protocols.gearman.jobs import HIGH, LOW, NORMAL, ORIGIN, unique_of
from franca.protocols.gearman.wire import on_one_line

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation
    from franca.protocols.gearman.service import GearmanService

T = TypeVar("T")

LISTED_MAX: Final = 100_000
"""Jobs in one list."""
PART: Final = 500
"""What is copied of a collection at a time: thousands of peers may be in the middle of a list."""


def in_parts(source: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Everything in a collection to which things are added at its end, though it changes meanwhile.

    What was there all the time comes once, unless more than a part of it goes between two.
    """
    at, last = 0, list[T]()
    while True:
        begin = max(at - PART, 0)
        some = list(islice(source(), begin, at + PART))
        new = at - begin
        if new and (len(some) < new or some[new - 1] != last[-1]):
            # Some of what came before is gone: the rest has moved up.
            seen = set(last)
            known = [place for place, item in enumerate(some) if item in seen]
            new = known[-1] + 1 if known else 0
        last = some[new:]
        at = begin + len(some)
        del some
        if not last:
            return
        yield from last


# -- what is listed: None stands for what is not --------------------------------------------


def functions(service: GearmanService) -> Iterator[Queue | None]:
    """Every function that is listed; None for each that is not."""
    broker = service.broker
    for name in in_parts(lambda: broker.queues):
        queue = broker.queues.get(name)
        yield queue if queue is not None and queue.listed else None


def _peers(service: GearmanService) -> Iterator[GearmanConversation | None]:
    for peer in in_parts(service.conversations.values):
        yield None if peer.link.closed else peer


def _jobs(service: GearmanService) -> Iterator[Job | None]:
    """Gearman's own live jobs, as far as they are in memory; None for each of the others."""
    broker = service.broker
    left = LISTED_MAX
    for job_id in in_parts(lambda: broker.jobs):
        job = broker.jobs.get(job_id)
        is_ours = job is not None and job.origin == ORIGIN
        yield job if is_ours else None
        left -= is_ours
        if not left:
            return


# -- how each of them is shown ---------------------------------------------------------------


def _status(service: GearmanService, queue: Queue) -> Iterator[bytes]:
    """Function, jobs, running, workers."""
    name = on_one_line(service.names.raw(queue.name))
    yield b"%b\t%d\t%d\t%d\n" % (name, queue.live, queue.leased, queue.servers)


def _priority_status(service: GearmanService, queue: Queue) -> Iterator[bytes]:
    """Function, high, normal, low, workers."""
    counts = {HIGH: 0, NORMAL: queue.scheduled + queue.retrying, LOW: 0}
    for priority, count in queue.by_priority().items():
        counts[max(HIGH, min(priority, LOW))] += count
    high, normal, low = counts.values()
    name = on_one_line(service.names.raw(queue.name))
    yield b"%b\t%d\t%d\t%d\t%d\n" % (name, high, normal, low, queue.servers)


def _worker(service: GearmanService, peer: GearmanConversation) -> Iterator[bytes]:
    """A connection, and what it can do, the newest first."""
    address = peer.link.peer.address
    host = (address.rpartition(":")[0] or address).encode()
    yield b"%d %b %b :" % (peer.number, host, peer.client_id)
    for function in in_parts(lambda: reversed(peer.functions)):
        yield b" " + on_one_line(function)
    yield b"\n"


def _client(service: GearmanService, peer: GearmanConversation) -> Iterator[bytes]:
    """As the Perl server has it: an address, and below it the jobs it waits for."""
    yield peer.link.peer.address.encode() + b"\n"
    for job_id in islice(in_parts(lambda: peer.session.watches), LISTED_MAX):
        job = service.broker.jobs.get(job_id)
        yield b"" if job is None else b"\t%b\n" % _described(service, job)


def _job(service: GearmanService, job: Job) -> Iterator[bytes]:
    """As the Perl server has it: function, unique id, worker's address, how many wait."""
    yield b"%b\t%d\n" % (_described(service, job), service.broker.watchers_of(job.id))


def _described(service: GearmanService, job: Job) -> bytes:
    function = on_one_line(service.names.raw(job.queue))
    return b"%b\t%b\t%b" % (function, on_one_line(unique_of(job)), service.address_of(job))


def _shown_job(service: GearmanService, job: Job) -> Iterator[bytes]:
    """Handle, unclean ends, whether nobody waits any more, whether it is durable."""
    policy = job.policy
    ignored = policy.dies_unwatched and not service.broker.watchers_of(job.id)
    yield b"%b\t%d\t%d\t%d\n" % (job.name.encode(), job.losses, ignored, policy.durable)


def _unique_id(service: GearmanService, job: Job) -> Iterator[bytes]:
    yield on_one_line(unique_of(job)) + b"\n"


List = Callable[["GearmanService"], Iterator[bytes]]


def _list_of(
    items: Callable[[GearmanService], Iterator[T | None]],
    lines: Callable[[GearmanService, T], Iterator[bytes]],
) -> List:
    def pieces(service: GearmanService) -> Iterator[bytes]:
        for item in items(service):
            if item is None:
                yield b""
            else:
                yield from lines(service, item)
        yield b".\n"

    return pieces


LISTS: Final[Mapping[bytes, List]] = {
    b"status": _list_of(functions, _status),
    b"prioritystatus": _list_of(functions, _priority_status),
    b"workers": _list_of(_peers, _worker),
    b"clients": _list_of(_peers, _client),
    b"jobs": _list_of(_jobs, _job),
    b"show jobs": _list_of(_jobs, _shown_job),
    b"show unique jobs": _list_of(_jobs, _unique_id),
}
