"""C12: a million names of queues that come and go."""

from collections.abc import Callable, Iterator

from bench.bounds.common import memory
from bench.client import Client
from bench.findings import Finding, Setup, guarded
from bench.million.fill import Part
from bench.servers import Server, running, scratch, start_all
from tests.support import gearman, periodic
from tests.support.gearman import Gearman, Type
from tests.support.periodic import Periodic

NAMES = 1_000_000
PORTION = 1_000
MSGID = b"\0\0\0\1"  # a number: letters alone are the mark of old clients that want no answer


def names(setup: Setup) -> Iterator[Finding]:
    """Jobs through a million queues, and workers that name a million functions."""
    count = setup.sized(NAMES)
    for name, act in (
        ("names-faktory-jobs", _jobs),
        ("names-gearman-can-do", _gearman_functions),
        ("names-periodic-can-do", _periodic_functions),
    ):
        with scratch(setup.directory) as path, running(start_all(path / "data")) as server:
            yield from guarded(name, _played(name, act, server, count))


def _played(
    name: str, act: Callable[[Server, int], None], server: Server, count: int
) -> Iterator[Finding]:
    before_mb = server.rss_mb()
    act(server, count)
    more = f"names={count} before_mb={before_mb:.0f} now_mb={server.rss_mb():.0f}"
    yield memory(name, server, more=more)


def _jobs(server: Server, count: int) -> None:
    """One job for each name, pushed, fetched and acknowledged."""
    part = Part("name", count, lambda number: f"queue-of-one-job-{number:09}")
    with Client(server.port) as producer, Client(server.port, "names") as worker:
        for first, command in zip(range(0, count, PORTION), part.commands(PORTION), strict=True):
            numbers = range(first, min(first + PORTION, count))
            producer.send(command)
            producer.expect(b"$2")
            producer.expect(b"{}")
            worker.sock.sendall(b"".join(b"FETCH %s\r\n" % part.queue(n).encode() for n in numbers))
            for _ in numbers:
                worker.expect(b"$")
                worker.expect(b"{")
            worker.sock.sendall(
                b"".join(b'ACK {"jid":"%s"}\r\n' % part.jid(n).encode() for n in numbers)
            )
            worker.send(b'BEAT {"wid":"names"}')
            for _ in (*numbers, "beat"):
                worker.expect(b"+OK")


def _gearman_functions(server: Server, count: int) -> None:
    with Gearman(server.ports["gearman"]) as worker:
        for first in range(0, count, PORTION):
            functions = [b"function-%09d" % n for n in range(first, min(first + PORTION, count))]
            said = [gearman.request(Type.CAN_DO, function) for function in functions]
            unsaid = [gearman.request(Type.CANT_DO, function) for function in functions]
            worker.send_bytes(b"".join(said + unsaid))
            worker.echo()


def _periodic_functions(server: Server, count: int) -> None:
    with Periodic(server.ports["periodic"], role=periodic.WORKER) as worker:
        for first in range(0, count, PORTION):
            functions = [f"function-{n:09}" for n in range(first, min(first + PORTION, count))]
            words = [
                worker.message(command, periodic.str8(function), MSGID)
                for command in (periodic.CAN_DO, periodic.CANT_DO)
                for function in functions
            ]
            worker.send_bytes(b"".join(words))
            for _ in words:
                worker.read()
