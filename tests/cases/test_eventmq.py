"""EventMQ: hostile headers, large results and requests, and results that follow an identity."""

import json
import os
import threading
from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

import pytest

from tests.cases.conftest import StartServer, or_none, peak_mb
from tests.support import memodb
from tests.support.eventmq import EventMQ, Given, call, encoded
from tests.support.faktory import Faktory, job
from tests.support.memodb import MemoDB
from tests.support.server import Server
from tests.support.shared import eventually

PATIENCE_S = 10.0
MIB = 1024 * 1024
HOSTILE = b"{'a':0x" + b"f" * 3_800 + b"}"
T = TypeVar("T")


def peer(server: Server, identity: bytes = b"", timeout: float = PATIENCE_S) -> EventMQ:
    return EventMQ(server.ports["eventmq"], identity=identity, timeout=timeout)


# -- one peer's trouble ------------------------------------------------------------------------------


class Pusher:
    """Pushes jobs with long arguments until it is told to stop, and notes what it is answered."""

    def __init__(self, port: int, number: int) -> None:
        self.sent: dict[str, str] = {}
        self.answers: list[str] = []
        self.stop = threading.Event()
        self._port = port
        self._number = number
        self.thread = threading.Thread(target=self._push)
        self.thread.start()

    def _push(self) -> None:
        with Faktory(self._port, timeout=5.0) as client:
            client.hello()
            while not self.stop.is_set():
                jid = f"job-{self._number}-{len(self.sent):06}"
                self.sent[jid] = f"{jid} " * 3_000
                try:
                    client.say("PUSH " + json.dumps(job(jid, self.sent[jid])))
                    self.answers.append(client.read().text)
                except OSError:
                    self.answers.append("nothing")
                    return


def attack(server: Server) -> None:
    """Connect, and say what cannot be read."""
    with peer(server, timeout=2.0) as hostile:
        hostile.say("REQUEST", "default", HOSTILE, b"x")


@pytest.fixture
def server(start: StartServer) -> Server:
    return start(speaks=("eventmq",))


@pytest.mark.case(1)
def test_a_header_with_an_endless_number_hurts_nobody_else(server: Server) -> None:
    pushers = [Pusher(server.port, number) for number in range(4)]
    for _ in range(150):
        if not all(pusher.thread.is_alive() for pusher in pushers):
            break
        or_none(lambda: attack(server))
    for pusher in pushers:
        pusher.stop.set()
        pusher.thread.join()
    answers = [answer for pusher in pushers for answer in pusher.answers]
    strange = [answer for answer in answers if answer != "OK"]
    assert strange == [], f"of {len(answers)} PUSHes beside it: {strange[:3]}"
    sent = {jid: args for pusher in pushers for jid, args in pusher.sent.items()}
    with Faktory(server.port) as worker:
        worker.hello("worker")
        fetched = {work["jid"]: work["args"] for work in iter(worker.fetch, None)}
    mangled = [jid for jid, args in sent.items() if fetched.get(jid) != [args]]
    assert mangled == [], f"{len(mangled)} of {len(sent)} acknowledged jobs are not as pushed"


@pytest.mark.case(1)
@pytest.mark.parametrize("headers", [HOSTILE, b'{"a": "\\ud800"}'])
def test_and_such_a_request_is_run_like_any_other(server: Server, headers: bytes) -> None:
    worker = peer(server).inform(slots=1)
    client = peer(server, timeout=3.0)
    client.say("REQUEST", "default", headers, call("os.getpid"), msgid="hostile")
    client.request(call("os.getpid"), msgid="plain")
    first = or_none(worker.next_job)
    assert first is not None, "the request was never given to a worker"
    worker.reply(first.msgid)
    worker.ready()
    second = or_none(worker.next_job)
    assert second is not None, "the request behind it was never given to a worker"
    assert (first.msgid, second.msgid) == (b"hostile", b"plain")


# -- large results and requests ------------------------------------------------------------------------


def runs(worker: EventMQ, result: bytes) -> list[Given]:
    """How often a worker is given the job if it replies with this each time, until an idle moment."""
    given: list[Given] = []
    worker.set_timeout(3.0)
    while len(given) < 3:
        work = or_none(worker.next_job)
        if work is None:
            return given
        given.append(work)
        or_none(lambda work=work: worker.reply(work.msgid, result))  # type: ignore[misc]
        or_none(worker.ready)
    return given


@pytest.mark.case(25)
@pytest.mark.long
def test_a_result_that_nobody_asked_for_may_be_of_any_size(server: Server) -> None:
    worker, client = peer(server).inform(slots=1), peer(server)
    client.request(call("os.getpid"))
    result = json.dumps({"value": "x" * (80 * MIB)}).encode()
    given = runs(worker, result)
    assert len(given) == 1, f"the job was given out {len(given)} times"
    client.request(call("os.getpid"), msgid="next")
    work = or_none(worker.next_job)
    assert work is not None, "the worker's connection was closed because of its result"
    assert work.msgid == b"next"
    worker.reply(work.msgid)
    status = peer(server).ask("STATUS")
    assert status["inflight_messages_by_queue"] == {}
    assert peak_mb(server) < 400, f"{peak_mb(server)} MB"


@pytest.mark.case(25)
@pytest.mark.long
def test_one_that_was_asked_for_fails_its_job_with_a_reason(server: Server) -> None:
    worker, client = peer(server).inform(slots=1), peer(server)
    msgid = client.request(call("os.getpid"), headers="reply-requested")
    given = runs(worker, b"x" * (80 * MIB))
    assert len(given) == 1, f"the job was given out {len(given)} times"
    heard = or_none(client.result)
    assert heard is not None, "the client never heard what became of its request"
    assert heard[0] == msgid
    assert str(80 * MIB) in json.loads(heard[1])["error"]
    lines = [line for line in server.log_lines() if str(80 * MIB) in line]
    assert lines, "nothing about it in the log"
    assert str(worker.local_port) in lines[0], f"without the peer: {lines[0]}"


@pytest.mark.case(26)
@pytest.mark.long
@pytest.mark.parametrize("size", [17 * MIB, 40 * MIB, 64 * MIB])
def test_large_requests_and_results_pass(server: Server, size: int) -> None:
    worker, client = peer(server).inform(slots=1), peer(server, timeout=30.0)
    body = os.urandom(MIB) * (size // MIB)
    msgid = or_none(lambda: client.request(body, headers="reply-requested"))
    worker.set_timeout(30.0)
    work = or_none(worker.next_job)
    assert work is not None, f"a request of {size} bytes was never given to a worker"
    assert work.body == body
    worker.reply(work.msgid, body[::-1])
    heard = or_none(client.result)
    assert heard is not None, f"a result of {size} bytes never came"
    assert heard == (msgid, body[::-1])
    assert peak_mb(server) < 800, f"{peak_mb(server)} MB"


@pytest.mark.case(26)
@pytest.mark.long
def test_a_request_that_is_too_large_is_answered_so_and_logged(server: Server) -> None:
    client = peer(server, timeout=30.0)
    size = 70 * MIB
    frames = [b"", b"eMQP/1.0", b"REQUEST", b"large", b"default", b"reply-requested", b"x" * size]
    or_none(lambda: client.send_bytes(encoded(frames)))
    heard = or_none(client.result)
    assert heard is not None, "a request that is too large is not answered"
    assert heard[0] == b"large"
    assert "at most" in json.loads(heard[1])["error"]
    lines = [line for line in server.log_lines() if str(size) in line]
    assert lines, "nothing about it in the log"
    assert str(client.local_port) in lines[0], f"without the peer: {lines[0]}"
    assert or_none(lambda: client.ask("STATUS")) is not None, "the connection was closed"


def work_off(worker: EventMQ, count: int, result: bytes) -> threading.Thread:
    """Have a worker answer so many jobs as fast as it can."""

    def work() -> None:
        for _ in range(count):
            worker.reply(worker.next_job().msgid, result)
            worker.ready()

    thread = threading.Thread(target=lambda: or_none(work))
    thread.start()
    return thread


def results(client: EventMQ, most: int) -> Iterator[tuple[bytes, bytes]]:
    """What a client hears until nothing comes any more."""
    return islice(iter(lambda: or_none(client.result), None), most)


@pytest.mark.parametrize(("count", "size"), [(200, 200_000), (40, 4_000_000)])
def test_a_client_that_reads_hears_every_large_result(
    server: Server, count: int, size: int
) -> None:
    worker, client = peer(server).inform(slots=64), peer(server, b"the-client", timeout=5.0)
    asked = [client.request(call("os.getpid"), headers="reply-requested") for _ in range(count)]
    thread = work_off(worker, count, b"x" * size)
    heard = [msgid for msgid, _ in results(client, count)]
    thread.join()
    assert len(heard) == count, f"{len(heard)} of {count} results were heard"
    assert heard == asked
    assert peak_mb(server) < 400, f"{peak_mb(server)} MB"


def test_and_so_does_one_that_asked_for_the_same_later(server: Server) -> None:
    first, second, worker = peer(server, b"first"), peer(server, b"second"), peer(server)
    for client in (first, second):
        for number in range(50):
            client.request(call("os.getpid"), headers="reply-requested", msgid=f"job-{number}")
        client.ask("STATUS")  # they are all there
    thread = work_off(worker.inform(slots=64), 50, b"x" * 200_000)
    heard: dict[str, int] = {}

    def listen(client: EventMQ, name: str) -> None:
        heard[name] = len(list(results(client, 50)))

    listeners = [
        threading.Thread(target=listen, args=each) for each in ((first, "first"), (second, "later"))
    ]
    for listener in listeners:
        listener.start()
    for listener in (*listeners, thread):
        listener.join()
    assert heard == {"first": 50, "later": 50}


# -- results follow an identity --------------------------------------------------------------------------


def connections(observer: Faktory) -> int:
    """How many peers of any protocol the server has."""
    server = observer.info()["server"]
    assert isinstance(server, dict)
    return int(server["connections"])


@pytest.mark.case(27)
def test_a_result_reaches_a_connection_made_anew_with_the_same_identity(server: Server) -> None:
    worker, client = peer(server).inform(slots=1), peer(server, b"the-client")
    msgid = client.request(call("os.getpid"), headers="reply-requested")
    work = worker.next_job()
    client.close()
    again = peer(server, b"the-client", timeout=3.0)
    again.ask("STATUS")  # the server has noticed
    worker.reply(work.msgid, b'{"value": 5}')
    heard = or_none(again.result)
    assert heard == (msgid, b'{"value": 5}'), f"the same client, come back, heard {heard}"


@pytest.mark.case(27)
def test_also_one_that_is_made_after_the_job_has_ended(server: Server) -> None:
    worker, client = peer(server).inform(slots=1), peer(server, b"the-client")
    msgid = client.request(call("os.getpid"), headers="reply-requested")
    work = worker.next_job()
    with Faktory(server.port) as observer:
        observer.hello()
        before = connections(observer)
        client.close()
        eventually(lambda: connections(observer) < before, "the end of its connection")
    worker.reply(work.msgid, b'{"value": 5}')
    asker = peer(server)
    eventually(lambda: asker.ask("STATUS")["inflight_messages_by_queue"] == {}, "the job's end")
    heard = or_none(peer(server, b"the-client", timeout=3.0).result)
    assert heard == (msgid, b'{"value": 5}'), f"the same client, come back, heard {heard}"


@pytest.mark.case(27)
def test_and_after_a_restart(server: Server) -> None:
    worker, client = peer(server).inform(slots=1), peer(server, b"the-client")
    ran = client.request(call("os.getpid"), headers="reply-requested")
    waits = client.request(call("os.getpid"), headers="reply-requested")
    work = worker.next_job()
    assert client.handed_over() == ran
    client.ask("STATUS")  # what was said before it is on the disk
    server.restart()
    again = peer(server, b"the-client", timeout=3.0)
    again.ask("STATUS")
    worker = peer(server).inform()
    worker.reply(work.msgid, b'{"value": 5}')
    heard = or_none(again.result)
    assert heard == (ran, b'{"value": 5}'), f"of the job that ran: {heard}"
    worker.ready()
    worker.reply(worker.next_job().msgid, b'{"value": 6}')
    heard = or_none(again.result)
    assert heard == (waits, b'{"value": 6}'), f"of the job that waited: {heard}"


# -- names ---------------------------------------------------------------------------------------------


@pytest.mark.case(29)
def test_a_queue_whose_name_is_not_utf8_is_the_same_as_a_service(start: StartServer) -> None:
    server = start(speaks=("eventmq", "memodb"))
    name = b"\xff\xfequeue"
    worker = MemoDB(server.ports["memodb"], timeout=3.0)
    worker.ask(memodb.ready(name.decode("utf-8", "surrogateescape")))
    client = peer(server, timeout=0.5)

    def is_handed_over() -> bool:
        client.say("REQUEST", name, "", call("os.getpid"))
        return or_none(client.handed_over) is not None

    eventually(is_handed_over, "a worker of that name that is given a request")
    given = or_none(worker.given)
    assert given is not None, "somebody else has it"
    assert given.service.encode("utf-8", "surrogateescape") == name
