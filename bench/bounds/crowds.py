"""Very many of one thing: names, queues, keys, stories, leases, waits, subscribers.

Each crowd is small on the wire and would be large in memory, or slow, if it were not bounded.
What is refused or cut off is the crowd's own; somebody else asks for the status all the while.
"""

import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench.bounds.common import PATIENCE_S, Asking, memory
from bench.findings import Finding, Setup, guarded
from bench.servers import Server, running, scratch, start_all
from tests.support import memodb, periodic
from tests.support.eventmq import EventMQ, encoded, handshake
from tests.support.faktory import Faktory, job
from tests.support.gearman import Gearman, Type, request
from tests.support.memodb import MemoDB
from tests.support.periodic import Periodic, packed

JOBS = 60_000
KEYED_JOBS = 1_000_000
PORTION = 1_000
WAITS = 10_000


def crowds(setup: Setup) -> Iterator[Finding]:
    """Each crowd has a server of its own."""
    for name, act in CROWDS.items():
        with scratch(setup.directory) as path, running(start_all(path / "data")) as server:
            yield from guarded(name, _played(f"crowds-{name}", act, server, setup))


def _played(
    name: str, act: Callable[[Server, Setup, ExitStack], str], server: Server, setup: Setup
) -> Iterator[Finding]:
    with Asking(server) as asking, ExitStack() as stack:
        more = act(server, setup, stack)
    yield memory(name, server, more=more)
    yield asking.finding(name)


def _client(server: Server, stack: ExitStack, wid: str | None = None) -> Faktory:
    return stack.enter_context(Faktory(server.port, timeout=PATIENCE_S)).hello(wid=wid)


def _push(client: Faktory, count: int, make: Callable[[int], dict[str, object]]) -> int:
    """Push so many jobs; how many were refused."""
    refused = 0
    for first in range(0, count, PORTION):
        refused += len(client.push_many(make(n) for n in range(first, first + PORTION)))
    return refused


def _sent(sock: socket.socket, data: bytes) -> None:
    """Send as much as the server takes, beside what else is done."""

    def send() -> None:
        try:
            sock.sendall(data)
        except OSError:
            pass

    threading.Thread(target=send, daemon=True).start()


def _raw(server: Server, protocol: str, stack: ExitStack, receive: int = 0) -> socket.socket:
    sock = stack.enter_context(socket.socket())
    if receive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    sock.settimeout(PATIENCE_S)
    sock.connect(("127.0.0.1", server.ports[protocol]))
    return sock


# -- Faktory -------------------------------------------------------------------------------------


def _one_jid(server: Server, setup: Setup, stack: ExitStack) -> str:
    client, worker = _client(server, stack), _client(server, stack, "worker")
    _push(client, setup.sized(JOBS), lambda n: job("the-same-jid", n))
    for _ in range(200):
        worker.fetch("default")
    for _ in range(200):
        worker.ack("the-same-jid")
    client.queue("REMOVE", ["default"])
    return ""


def _queues(server: Server, setup: Setup, stack: ExitStack) -> str:
    client = _client(server, stack)
    count = setup.sized(2 * JOBS)
    refused = _push(client, count, lambda n: job(f"jid-{n:09}", queue=f"queue-{n:09}"))
    client.info()
    client.queue("REMOVE", ["*"])
    return f"refused={refused}"


def _stories(server: Server, setup: Setup, stack: ExitStack) -> str:
    client, worker = _client(server, stack), _client(server, stack, "worker")
    count = setup.sized(JOBS)
    _push(client, count, lambda n: job(f"jid-{n:09}"))
    said = {"message": "m" * 1_000, "errtype": "E", "backtrace": ["l" * 200] * 50}
    for _ in range(count // 20):
        jids = []
        for _ in range(20):
            found = worker.fetch("default")
            assert found is not None
            jids.append(found["jid"])
        worker.say(*(f"FAIL {json.dumps({**said, 'jid': jid})}" for jid in jids))
        for _ in jids:
            worker.read().checked()
    return ""


def _leases(server: Server, setup: Setup, stack: ExitStack) -> str:
    client, worker = _client(server, stack), _client(server, stack, "worker")
    count = setup.sized(2 * JOBS)
    _push(client, count, lambda n: job(f"jid-{n:09}", "x" * 1_900))
    running_jobs = 0
    while running_jobs < count and worker.fetch("default") is not None:
        running_jobs += 1
    return f"running={running_jobs}"


def _labels(server: Server, setup: Setup, stack: ExitStack) -> str:
    labels = [f"label-{n}" for n in range(1_000)]
    for number in range(setup.sized(800)):
        client = stack.enter_context(Faktory(server.port, timeout=PATIENCE_S))
        client.hello(wid=f"w{number}", labels=labels)
    return ""


def _pattern(server: Server, setup: Setup, stack: ExitStack) -> str:
    client = _client(server, stack)
    client.push(job("a-large-job", "a" * setup.sized(8_000_000), at="2090-01-01T00:00:00Z"))
    order = {"cmd": "kill", "target": "scheduled", "filter": {"regexp": "*" + "a" * 4_000}}
    client.call(f"MUTATE {json.dumps(order)}")
    return ""


# -- Gearman -------------------------------------------------------------------------------------


def _uniques(server: Server, setup: Setup, stack: ExitStack) -> str:
    client = stack.enter_context(Gearman(server.ports["gearman"], timeout=PATIENCE_S))
    refused = 0
    for first in range(0, setup.sized(KEYED_JOBS), PORTION):
        numbers = range(first, first + PORTION)
        client.send_bytes(
            b"".join(request(Type.SUBMIT_JOB_BG, b"f", b"%036d" % n, b"x") for n in numbers)
        )
        refused += sum(client.read().type is Type.ERROR for _ in numbers)
    client.line("drop function f")
    return f"refused={refused}"


def _data(server: Server, setup: Setup, stack: ExitStack) -> str:
    for _ in range(setup.sized(WAITS // 64)):
        client = _raw(server, "gearman", stack, receive=4_096)
        _sent(client, request(Type.SUBMIT_JOB, b"f", b"u", b"x") * 64)
    worker = stack.enter_context(Gearman(server.ports["gearman"], timeout=PATIENCE_S)).can_do("f")
    found = worker.next_job()
    worker.send_bytes(request(Type.WORK_DATA, found.handle, b"d" * 4_000) * 64)
    worker.complete(found.handle, b"d" * 4_000)
    worker.echo()
    return ""


def _lists(server: Server, setup: Setup, stack: ExitStack) -> str:
    worker = stack.enter_context(Gearman(server.ports["gearman"], timeout=PATIENCE_S))
    worker.send_bytes(b"".join(request(Type.CAN_DO, b"%01000d" % n) for n in range(3_990)))
    worker.echo()
    for _ in range(setup.sized(200)):
        _raw(server, "gearman", stack, receive=4_096).sendall(b"status\n")
    worker.echo()
    return ""


def _gone(server: Server, setup: Setup, stack: ExitStack) -> str:
    """A client whose jobs lie behind those of another, and a worker with very many, hang up."""
    count = setup.sized(25_000)
    for _ in range(2):
        client = Gearman(server.ports["gearman"], timeout=PATIENCE_S)
        client.send_bytes(request(Type.SUBMIT_JOB, b"f", b"", b"x") * count)
        for _ in range(count):
            client.read()
        stack.callback(client.close)
    client.close()
    worker = Gearman(server.ports["gearman"], timeout=PATIENCE_S).can_do("f")
    worker.send_bytes(request(Type.GRAB_JOB) * count)
    for _ in range(count):
        worker.read()
    worker.close()
    stack.enter_context(Gearman(server.ports["gearman"], timeout=PATIENCE_S)).echo()
    return ""


# -- Periodic, MemoDB, EventMQ -------------------------------------------------------------------


def _waits(server: Server, setup: Setup, stack: ExitStack) -> str:
    worker = stack.enter_context(Periodic(server.ports["periodic"], timeout=PATIENCE_S))
    worker.ping()
    worker.can_do("f")
    client = stack.enter_context(Periodic(server.ports["periodic"], timeout=PATIENCE_S))
    client.ping()
    waits = (
        client.message(periodic.RUN_JOB, packed("f", "n", timeout=3_000), struct.pack(">I", n))
        for n in range(setup.sized(WAITS))
    )
    client.send_bytes(b"".join(waits))
    given = worker.grab()
    client.ping()
    worker.done(given, b"r" * 65_000)
    worker.ping()
    return ""


def _resends(server: Server, setup: Setup, stack: ExitStack) -> str:
    producer = _client(server, stack)
    for number in range(setup.sized(12)):
        producer.push(job(f"jid-{number:09}", "x" * 2_000_000, queue="q"))
        sock = _raw(server, "memodb", stack, receive=4_096)
        sock.sendall(memodb.HELLO)
        sock.recv(8)
        asks = struct.pack(">I", number | 1 << 31) + memodb.ready("q")
        _sent(sock, (struct.pack(">Q", len(asks)) + asks) * 64)
        bystander = MemoDB(server.ports["memodb"], timeout=PATIENCE_S)
        bystander.close()
    return ""


def _subscribers(server: Server, setup: Setup, stack: ExitStack) -> str:
    for _ in range(setup.sized(500)):
        subscriber = _raw(server, "eventmq_subscribe", stack, receive=4_096)
        subscriber.sendall(handshake("SUB") + encoded([b"\x01"]))
    publisher = stack.enter_context(EventMQ(server.ports["eventmq"], timeout=PATIENCE_S))
    body = os.urandom(15_000)
    publisher.send_bytes(encoded([b"", b"eMQP/1.0", b"PUBLISH", b"i", b"t", body]) * 300)
    publisher.ask("STATUS")
    return ""


def _frames(server: Server, setup: Setup, stack: ExitStack) -> str:
    client = stack.enter_context(EventMQ(server.ports["eventmq"], timeout=PATIENCE_S))
    more = os.urandom(1 << 20)
    for number in range(setup.sized(600)):
        words = [b"", b"eMQP/1.0", b"REQUEST", b"m%d" % number, b"default", b"", b"b", more]
        client.send_bytes(encoded(words))
    client.ask("STATUS")
    return ""


CROWDS: dict[str, Callable[[Server, Setup, ExitStack], str]] = {
    "one-jid": _one_jid,
    "queues": _queues,
    "stories": _stories,
    "leases": _leases,
    "labels": _labels,
    "pattern": _pattern,
    "uniques": _uniques,
    "data": _data,
    "lists": _lists,
    "gone": _gone,
    "waits": _waits,
    "resends": _resends,
    "subscribers": _subscribers,
    "frames": _frames,
}
