"""What Periodic's peers met: another worker's job, a dialect that was not told apart, sleepers not woken."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

import pytest

from tests.cases.conftest import StartServer, peak_mb
from tests.support import periodic as p
from tests.support.connection import Connection
from tests.support.gearman import Gearman, Type
from tests.support.periodic import DOC, Periodic
from tests.support.server import free_port

WAIT_S = 15.0
SHORT_S = 3.0
WAITING = 60


T = TypeVar("T")


def heard(complaint: str, wait: Callable[[], T]) -> T:
    """What is waited for; an assertion with these words if it does not come."""
    try:
        return wait()
    except (OSError, ValueError) as error:
        raise AssertionError(f"{complaint}: {error!r}") from error


@pytest.fixture
def port(start: StartServer) -> int:
    return start(speaks=("periodic",)).ports["periodic"]


@pytest.mark.case(22)
def test_in_an_old_dialect_a_job_without_a_timeout_goes_to_one_worker_only(port: int) -> None:
    with ExitStack() as stack:

        def connect(dialect: str, role: int) -> Periodic:
            return stack.enter_context(Periodic(port, role=role, dialect=dialect, timeout=WAIT_S))

        client, old_client = connect(p.CRC, p.CLIENT), connect(DOC, p.CLIENT)
        client.call(p.CONFIG_SET, p.str8("timeout") + b"\0\0\0\x3c")
        old_client.submit("old", "n")
        client.submit("new", "n", timeout=1)
        first, second = connect(DOC, p.WORKER), connect(DOC, p.WORKER)
        for worker in (first, second):
            worker.can_do("old")
        job = heard("the first worker is given nothing", first.grab)
        assert not job.timeout, "the server's own timeout is not for jobs of an old dialect"
        second.say(p.GRAB_JOB)
        # A job with a timeout is given again after it: by then an old one that is, too, has come.
        begun, again = connect(p.CRC, p.WORKER), connect(p.CRC, p.WORKER)
        for worker in (begun, again):
            worker.can_do("new")
        heard("a worker of today is given nothing", begun.grab)
        heard("the job of today is not given again", again.grab)
        second.say(p.PING, msgid=b"behind")
        came: list[p.Message] = []
        while not came or came[-1].msgid != b"behind":
            came.append(second.read())
        given = [message for message in came if message.command == p.JOB_ASSIGN]
        assert not given, "a second worker was given a job that the first still runs"


@pytest.mark.case(24)
def test_by_the_document_every_sleeping_worker_of_a_job_is_notified(start: StartServer) -> None:
    port = free_port()
    start("--periodic", f"127.0.0.1:{port}?dialect=doc", speaks=("periodic",))
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Periodic(port, role=p.WORKER, dialect=DOC, timeout=WAIT_S))
            for _ in range(3)
        ]
        for worker in workers:
            worker.can_do("f")
            worker.say(p.SLEEP, msgid=b"asleep")
            heard("a worker is not answered", worker.ping)
        client = stack.enter_context(Periodic(port, dialect=DOC, timeout=WAIT_S))
        client.submit("f", "n")
        told = []
        for worker in workers:
            # What was said to it before the answer to a PING has come with it.
            msgid = worker.say(p.PING)
            message = worker.read()
            told.append(message.command)
            if message.command != p.PONG:
                worker.answer(msgid)
        assert told == [p.NOOP] * 3, f"not every sleeper was notified: {told}"


UUIDS = [b"%08x-c0de-11e7-8f1a-1c1b0de5cafe" % number for number in range(1, 9)]
"""Ids as node-periodic 0.1.0 and 0.1.2 write them."""


@pytest.mark.case(23)
def test_npms_clients_of_2017_are_spoken_to_in_fields_of_text(port: int) -> None:
    """The bytes of node-periodic 0.1.0 and 0.1.2, which wait for no answer to their registration."""
    with (
        Periodic(port, role=p.WORKER, dialect=DOC, timeout=SHORT_S) as worker,
        Periodic(port, dialect=DOC, timeout=SHORT_S) as client,
    ):
        worker.say(p.CAN_DO, b"reverse", UUIDS[0])
        worker.say(p.GRAB_JOB, msgid=UUIDS[1])
        client.say(p.SUBMIT_JOB, b"reverse\0\1n1\0\1undefined\0\1undefined\0\1hello", UUIDS[2])
        heard("the job is not taken", lambda: client.answer(UUIDS[2]))
        given = heard("the worker is given nothing", worker.read)
        assert (given.msgid, given.command) == (UUIDS[1], p.JOB_ASSIGN)
        fields = given.data.split(p.SEPARATOR, 5)
        assert fields[1:3] == [b"reverse", b"n1"], f"not in fields of text: {given.data!r}"
        assert fields[5] == b"hello"
        worker.say(p.WORK_DONE, fields[0], UUIDS[3])
        client.say(p.STATUS, msgid=UUIDS[4])
        status = heard("there is no status", lambda: client.answer(UUIDS[4]))
        assert len(status.data.split(b",")) == 5, f"not the status of that time: {status.data!r}"


class Npm(Connection[p.Message]):
    """node-periodic 1.4.0: dies of whatever is longer than an id and answers nobody."""

    def __init__(self, port: int, role: int) -> None:
        super().__init__(port, timeout=SHORT_S)
        self.awaits: set[bytes] = set()
        self.send_bytes(p.framed(p.CRC, bytes([role])))

    def say(self, msgid: bytes, command: int, args: bytes = b"", *, awaited: bool = True) -> None:
        self.send_bytes(p.framed(p.CRC, msgid + bytes([command]) + args))
        self.awaits |= {msgid} if awaited else set()

    def read(self) -> p.Message:
        """The next answer to something that it said."""
        while True:
            while (payload := p.take_payload(p.CRC, self.unread)) is None:
                self.fill()
            msgid, data = payload[:4], payload[4:]
            assert msgid in self.awaits or not data, (
                f"uncaught: Agent {msgid!r} not found ({data!r})"
            )
            if data:
                return p.Message(msgid, data[0], data[1:])


@pytest.mark.case(23)
def test_npms_clients_of_2019_are_not_told_what_they_die_of(port: int) -> None:
    with Npm(port, p.CLIENT) as client, Npm(port, p.WORKER) as worker:
        worker.say(b"f4Kq", p.CAN_DO, p.str8("f"), awaited=False)
        worker.say(b"Zt09", p.GRAB_JOB)
        client.say(b"aB3x", p.PING)
        client.say(b"9kLm", p.SUBMIT_JOB, p.packed("f", "n", b"hello"))
        answers = [heard("the client is not answered", client.read) for _ in "12"]
        assert [answer.command for answer in answers] == [p.PONG, p.SUCCESS]
        given = heard("the worker is given nothing", worker.read)
        assert (given.msgid, given.command) == (b"Zt09", p.JOB_ASSIGN)
        worker.say(b"77aa", p.WORK_DONE, p.unpacked(given.data)[0].handle, awaited=False)
        worker.say(b"Zt09", p.GRAB_JOB)
        client.say(b"pQ2r", p.SUBMIT_JOB, p.packed("f", "m"))
        given = heard("the worker is not given a second job", worker.read)
        assert p.unpacked(given.data)[0].name == "m"


FUNC = b"\xff\xfe-job"
"""A function's name that is no UTF-8."""


@pytest.mark.case(29)
def test_a_periodic_worker_is_given_gearmans_function_of_no_utf8(start: StartServer) -> None:
    ports = start(speaks=("periodic", "gearman")).ports
    with (
        Gearman(ports["gearman"], timeout=WAIT_S) as client,
        Periodic(ports["periodic"], role=p.WORKER, timeout=SHORT_S) as worker,
    ):
        client.submit(FUNC, b"by gearman")
        worker.call(p.CAN_DO, p.str8(FUNC))
        worker.answer(worker.say(p.GRAB_JOB))
        given = heard("a worker of Periodic is not given Gearman's job", worker.read)
        assert given.command == p.JOB_ASSIGN
        assert given.data.startswith(p.str8(FUNC)), "the function's name has changed on its way"
        assert b"by gearman" in given.data


@pytest.mark.case(29)
def test_a_gearman_worker_is_given_periodics_function_of_no_utf8(start: StartServer) -> None:
    ports = start(speaks=("periodic", "gearman")).ports
    with (
        Periodic(ports["periodic"], timeout=WAIT_S) as client,
        Gearman(ports["gearman"], timeout=WAIT_S) as worker,
    ):
        job = p.str8(FUNC) + p.str8("n") + b"\0\0\0\x0bby periodic" + bytes(9)
        assert client.call(p.SUBMIT_JOB, job).command == p.SUCCESS
        worker.say(Type.CAN_DO, FUNC)
        given = worker.grab()
        assert given is not None, "a worker of Gearman is not given Periodic's job"
        assert (given.function, given.body) == (FUNC, b"by periodic")


@pytest.mark.case(1)
def test_a_list_of_jobs_without_an_end_does_not_keep_others_waiting(port: int) -> None:
    with (
        Periodic(port, dialect=DOC, timeout=WAIT_S) as hostile,
        Periodic(port, timeout=SHORT_S) as other,
    ):
        hostile.ping()
        hostile.say(p.LOAD, b'{"jobs":[{"name":"' + b'\\"' * 40_000)
        behind = hostile.say(p.PING)
        hostile.set_timeout(0.1)
        has_ended = False
        while not has_ended:
            heard("another was kept waiting by a LOAD of 80 KB", other.ping)
            with suppress(TimeoutError):
                has_ended = hostile.answer(behind).command == p.PONG


@pytest.mark.case(1)
def test_a_function_of_an_old_dialect_that_todays_cannot_name_harms_nobody(port: int) -> None:
    with (
        Periodic(port, dialect=DOC, timeout=WAIT_S) as old,
        Periodic(port, timeout=SHORT_S) as client,
        Periodic(port, timeout=SHORT_S) as other,
    ):
        old.submit("f" * 300, "n")
        answer = heard("a DUMP is not answered", lambda: client.call(p.DUMP))
        assert answer.command == p.UNKNOWN
        heard("another is not answered", other.ping)


@pytest.mark.long
@pytest.mark.case(9)
def test_all_who_wait_for_a_large_result_share_it(start: StartServer) -> None:
    server = start(speaks=("periodic",))
    port = server.ports["periodic"]
    result = b"r" * (16 << 20)
    with ExitStack() as stack:
        worker = stack.enter_context(Periodic(port, role=p.WORKER, timeout=60))
        worker.can_do("f")
        clients = [stack.enter_context(Periodic(port, timeout=60)) for _ in range(WAITING)]
        asked = [client.say(p.RUN_JOB, p.packed("f", "n", timeout=600)) for client in clients]
        for client in clients:
            client.ping()
        worker.done(worker.grab(), result)
        for client, msgid in zip(clients, asked, strict=True):
            answer = heard("somebody is not told the result", partial(client.answer, msgid))
            assert answer.data == result
        peak = peak_mb(server)
        assert peak < 400, f"{peak} MB for {WAITING} who wait for a result of 16 MB"
