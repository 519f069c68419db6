"""What Periodic's peers met: another worker's job, a dialect that was not told apart, sleepers not woken."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import pytest

from tests.cases.conftest import StartServer
from tests.support import periodic as p
from tests.support.gearman import Gearman, Type
from tests.support.periodic import DOC, Periodic
from tests.support.server import free_port

WAIT_S = 15.0
SHORT_S = 3.0


T = TypeVar("T")


def heard(complaint: str, wait: Callable[[], T]) -> T:
    """What is waited for; an assertion with these words if it does not come."""
    try:
        return wait()
    except (OSError, ValueError) as error:
        raise AssertionError(f"{complaint}: {error!r}") from error


@pytest.mark.case(22)
def test_in_an_old_dialect_a_job_without_a_timeout_is_not_given_to_a_second_worker(
    start: StartServer,
) -> None:
    port = start(speaks=("periodic",)).ports["periodic"]
    with ExitStack() as stack:

        def connect(dialect: str, role: int) -> Periodic:
            return stack.enter_context(Periodic(port, role=role, dialect=dialect, timeout=WAIT_S))

        client, old_client = connect(p.CRC, p.CLIENT), connect(DOC, p.CLIENT)
        client.call(p.CONFIG_SET, p.str8("timeout") + b"\0\0\0\1")
        old_client.submit("old", "n")
        client.submit("new", "n")
        first, second = connect(DOC, p.WORKER), connect(DOC, p.WORKER)
        for worker in (first, second):
            worker.can_do("old")
        heard("the first worker is given nothing", first.grab)
        second.send(p.GRAB_JOB)
        # A job of today's dialect is given again after the server's timeout: by then an old one
        # that is, too, has come.
        begun, again = connect(p.CRC, p.WORKER), connect(p.CRC, p.WORKER)
        for worker in (begun, again):
            worker.can_do("new")
        heard("a worker of today is given nothing", begun.grab)
        heard("the job of today is not given again", again.grab)
        second.send(p.PING, msgid=b"behind")
        came: list[p.Message] = []
        while not came or came[-1].msgid != b"behind":
            came.append(second.read())
        given = [message for message in came if message.command == p.JOB_ASSIGN]
        assert not given, "a second worker was given a job that the first still runs"


@pytest.mark.case(24)
def test_by_the_document_every_sleeping_worker_of_a_function_is_notified(
    start: StartServer,
) -> None:
    port = free_port()
    start("--periodic", f"127.0.0.1:{port}?dialect=doc", speaks=("periodic",))
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Periodic(port, role=p.WORKER, dialect=DOC, timeout=WAIT_S))
            for _ in range(3)
        ]
        for worker in workers:
            worker.can_do("f")
            worker.send(p.SLEEP, msgid=b"asleep")
            heard("a worker is not answered", worker.ping)
        client = stack.enter_context(Periodic(port, dialect=DOC, timeout=WAIT_S))
        client.submit("f", "n")
        told = []
        for worker in workers:
            # What was said to it before the answer to a PING has come with it.
            msgid = worker.send(p.PING)
            message = worker.read()
            told.append(message.command)
            if message.command != p.PONG:
                worker.answer(msgid)
        assert told == [p.NOOP] * 3, f"not every sleeper was notified: {told}"


FUNC = b"\xff\xfe-job"
"""A function's name that is no UTF-8."""


@pytest.mark.case(29)
def test_a_periodic_worker_is_given_gearmans_job_of_a_function_whose_name_is_no_utf8(
    start: StartServer,
) -> None:
    ports = start(speaks=("periodic", "gearman")).ports
    with (
        Gearman(ports["gearman"], timeout=WAIT_S) as client,
        Periodic(ports["periodic"], role=p.WORKER, timeout=SHORT_S) as worker,
    ):
        client.submit(FUNC, b"by gearman")
        worker.call(p.CAN_DO, p.str8(FUNC))
        worker.answer(worker.send(p.GRAB_JOB))
        given = heard("a worker of Periodic is not given Gearman's job", worker.read)
        assert given.command == p.JOB_ASSIGN
        assert given.data.startswith(p.str8(FUNC)), "the function's name has changed on its way"
        assert b"by gearman" in given.data


@pytest.mark.case(29)
def test_a_gearman_worker_is_given_periodics_job_of_a_function_whose_name_is_no_utf8(
    start: StartServer,
) -> None:
    ports = start(speaks=("periodic", "gearman")).ports
    with (
        Periodic(ports["periodic"], timeout=WAIT_S) as client,
        Gearman(ports["gearman"], timeout=WAIT_S) as worker,
    ):
        job = p.str8(FUNC) + p.str8("n") + b"\0\0\0\x0bby periodic" + bytes(9)
        assert client.call(p.SUBMIT_JOB, job).command == p.SUCCESS
        worker.send(Type.CAN_DO, FUNC)
        given = worker.grab()
        assert given is not None, "a worker of Gearman is not given Periodic's job"
        assert (given.function, given.body) == (FUNC, b"by periodic")
