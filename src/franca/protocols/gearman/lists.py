"""The lists that operators and monitoring programs ask for, in pieces that take a moment each.

Lists end with a line that has only a dot. While one is written the server goes on, so it shows
each line as it is when its turn has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from franca.core.broker import Broker
from franca.core.model import Job
from franca.core.ready import Queue
from franca.protocols.gearman.jobs import HIGH, LOW, NORMAL, ORIGIN, unique_of
from franca.protocols.gearman.wire import on_one_line

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation
    from franca.protocols.gearman.service import GearmanService

T = TypeVar("T")

LISTED_MAX: Final = 100_000
"""Jobs in one list."""
PART: Final = 500
"""What is copied of a collection at a time: thousands may read lists, and stop in their middle."""
_END: Final = b".\n"


def in_parts(source: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Everything in a collection to which things are added at its end, though it changes meanwhile.

    What was there all the time comes once, unless more than a part of it goes between two parts.
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


# -- functions ------------------------------------------------------------------------------


def listed(broker: Broker) -> Iterator[Queue | None]:
    """Every function that is listed; None for each that is not."""
    for name in in_parts(lambda: broker.queues):
        queue = broker.queues.get(name)
        yield queue if queue is not None and queue.listed else None


def status(service: GearmanService) -> Iterator[bytes]:
    """status: function, jobs, running, workers."""
    for queue in listed(service.broker):
        if queue is None:
            yield b""
        else:
            name = _name_of(service, queue)
            yield b"%b\t%d\t%d\t%d\n" % (name, queue.live, queue.leased, queue.servers)
    yield _END


def priority_status(service: GearmanService) -> Iterator[bytes]:
    """prioritystatus: function, high, normal, low, workers."""
    for queue in listed(service.broker):
        yield b"" if queue is None else _priorities(service, queue)
    yield _END


def _priorities(service: GearmanService, queue: Queue) -> bytes:
    counts = {HIGH: 0, NORMAL: 0, LOW: 0}
    for priority, count in queue.by_priority().items():
        counts[max(HIGH, min(priority, LOW))] += count
    counts[NORMAL] += queue.scheduled + queue.retrying
    high, normal, low = counts.values()
    name = _name_of(service, queue)
    return b"%b\t%d\t%d\t%d\t%d\n" % (name, high, normal, low, queue.servers)


def _name_of(service: GearmanService, queue: Queue) -> bytes:
    return on_one_line(service.names.raw(queue.name))


# -- connections ----------------------------------------------------------------------------


def _peers(service: GearmanService) -> Iterator[GearmanConversation]:
    for peer in in_parts(lambda: service.conversations):
        if not peer.link.closed:
            yield peer


def workers(service: GearmanService) -> Iterator[bytes]:
    """workers: every connection, and what it can do, the newest first."""
    for peer in _peers(service):
        yield b"%d %b %b :" % (peer.number, _host(peer), peer.client_id)
        yield from _abilities(peer)
        yield b"\n"
    yield _END


def _abilities(peer: GearmanConversation) -> Iterator[bytes]:
    for function in in_parts(lambda: reversed(peer.functions)):
        yield b" " + on_one_line(function)


def _host(conversation: GearmanConversation) -> bytes:
    address = conversation.link.peer.address
    return (address.rpartition(":")[0] or address).encode()


def clients(service: GearmanService) -> Iterator[bytes]:
    """clients, as the Perl server has it: each address, and below it the jobs it waits for."""
    for peer in _peers(service):
        yield peer.link.peer.address.encode() + b"\n"
        yield from _waited_for(service, peer)
    yield _END


def _waited_for(service: GearmanService, peer: GearmanConversation) -> Iterator[bytes]:
    for job_id in islice(in_parts(lambda: peer.session.watches), LISTED_MAX):
        job = service.broker.jobs.get(job_id)
        yield b"" if job is None else b"\t%b\n" % _described(service, job)


# -- jobs -------------------------------------------------------------------------------------


def _jobs(service: GearmanService) -> Iterator[Job | None]:
    """Gearman's own live jobs, as far as they are in memory; None for each of the others."""
    broker = service.broker
    left = LISTED_MAX
    for job_id in in_parts(lambda: broker.jobs):
        job = broker.jobs.get(job_id)
        if job is None or job.origin != ORIGIN:
            yield None
        else:
            yield job
            left -= 1
            if left <= 0:
                return


def show_jobs(service: GearmanService) -> Iterator[bytes]:
    """show jobs: handle, unclean ends, whether nobody waits any more, whether it is durable."""
    for job in _jobs(service):
        yield b"" if job is None else _shown(service, job)
    yield _END


def _shown(service: GearmanService, job: Job) -> bytes:
    policy = job.policy
    ignored = policy.dies_unwatched and not service.broker.watchers_of(job.id)
    return b"%b\t%d\t%d\t%d\n" % (job.name.encode(), job.losses, ignored, policy.durable)


def show_unique_jobs(service: GearmanService) -> Iterator[bytes]:
    """show unique jobs: the unique id of each."""
    for job in _jobs(service):
        yield b"" if job is None else on_one_line(unique_of(job)) + b"\n"
    yield _END


def jobs(service: GearmanService) -> Iterator[bytes]:
    """jobs, as the Perl server has it: function, unique id, worker's address, who waits."""
    broker = service.broker
    for job in _jobs(service):
        if job is None:
            yield b""
        else:
            yield b"%b\t%d\n" % (_described(service, job), broker.watchers_of(job.id))
    yield _END


def _described(service: GearmanService, job: Job) -> bytes:
    function = on_one_line(service.names.raw(job.queue))
    return b"%b\t%b\t%b" % (function, on_one_line(unique_of(job)), service.address_of(job))
