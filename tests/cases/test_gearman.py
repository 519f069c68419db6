"""Gearman's cases: what gearmand does, and what no other limit or peer may change about it."""

import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cases.conftest import StartServer
from tests.support.faktory import Faktory
from tests.support.gearman import Gearman, Type

GEARMAN = ("gearman",)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


# -- time ----------------------------------------------------------------------------------


@pytest.mark.case(7)
def test_a_lease_ends_soon_after_its_time(start: StartServer, stack: ExitStack) -> None:
    port = start(speaks=GEARMAN).ports["gearman"]
    client = stack.enter_context(Gearman(port))
    given: dict[Gearman, float] = {}
    for number in range(20):
        function = f"f{number}"
        client.submit(function)
        holder = stack.enter_context(Gearman(port)).can_do(function, timeout_ms=1_000)
        assert holder.grab() is not None
        sleeper = stack.enter_context(Gearman(port)).can_do(function)
        sleeper.say(Type.PRE_SLEEP)
        given[sleeper] = time.monotonic()
        time.sleep(0.03)  # so that the ends do not fall into one tick
    late: list[float] = []
    deadline = time.monotonic() + 10
    waiting = {sleeper._socket: began for sleeper, began in given.items()}
    while waiting and time.monotonic() < deadline:
        for ready in select.select(list(waiting), [], [], 0.1)[0]:
            began = waiting.pop(ready)
            late.append(time.monotonic() - began - 1.0)
    assert len(late) == 20, f"{20 - len(late)} of 20 leases of 1,000 ms did not end within 10 s"
    p95 = sorted(late)[18]
    assert p95 < 0.25, f"leases of 1,000 ms end {p95 * 1000:.0f} ms late (p95)"


# -- peers that say nothing ------------------------------------------------------------------


@pytest.mark.case(11)
def test_silent_connections_keep_nobody_out(
    start: StartServer, stack: ExitStack, tmp_path: Path
) -> None:
    settings = tmp_path / "franca.toml"
    settings.write_text("[limits]\nconnections_max = 60\nunknown_max = 20\nhandshake_ms = 500\n")
    server = start("--config", str(settings), speaks=GEARMAN)
    port = server.ports["gearman"]
    known = stack.enter_context(Gearman(port))
    known.echo()
    where = ("127.0.0.1", port)
    silent = [stack.enter_context(socket.create_connection(where)) for _ in range(80)]
    deadline = time.monotonic() + 10
    while len(select.select(silent, [], [], 0.1)[0]) < 20:  # those for whom there was no room
        assert time.monotonic() < deadline, "more connections are taken than may be"
    answered = False
    while not answered and time.monotonic() < deadline:
        try:
            with Faktory(server.port) as client:
                client.hello()
                answered = True
        except (OSError, ValueError, RuntimeError):
            time.sleep(0.1)
    assert answered, "80 silent Gearman connections keep every other peer out"
    known.echo()


# -- unique ids ------------------------------------------------------------------------------


@pytest.mark.case(19)
def test_all_64_bytes_of_a_unique_id_count(start: StartServer) -> None:
    with Gearman(start(speaks=GEARMAN).ports["gearman"]) as peer:
        peer.can_do("f")
        uniques = [b"u" * 62 + b"%02d" % number for number in range(10)]
        handles = [peer.submit("f", b"x", unique) for unique in uniques]
        assert len(set(handles)) == 10, f"ten jobs were acknowledged as {len(set(handles))}"
        assert peer.submit("f", b"x", uniques[3]) == handles[3], "the same id is another job"
        seen = [work.unique for work in iter(lambda: peer.grab(Type.GRAB_JOB_UNIQ), None)]
        assert seen == uniques
        refused = peer.call(Type.SUBMIT_JOB_BG, b"f", b"u" * 65, b"x", wanted=(Type.JOB_CREATED,))
        assert refused.body == b"ARGUMENT_TOO_LARGE\0Unique value too large"


# -- retries ---------------------------------------------------------------------------------


def runs(port: int, most: int) -> int:
    """Let one worker after the other take the job and vanish; how many got it, up to `most`."""
    for run in range(most):
        with Gearman(port, timeout=3.0) as worker:
            try:
                worker.can_do("f").next_job()
            except TimeoutError:
                return run
    return most


@pytest.mark.case(20)
@pytest.mark.parametrize(("said", "expected"), [("-1", 25), ("14", 15), ("10", 11)])
def test_a_job_is_run_as_often_as_flagged(start: StartServer, said: str, expected: int) -> None:
    server = start("--gearman-job-retries", said, speaks=GEARMAN)
    port = server.ports["gearman"]
    with Gearman(port) as client:
        client.submit("f", b"x", kind=Type.SUBMIT_JOB)
        ran = runs(port, 25)
        assert ran == expected, f"--gearman-job-retries {said}: {ran} workers were given the job"


# -- words that other programs read ------------------------------------------------------------


@pytest.mark.case(21)
def test_handles_have_the_originals_form_and_are_never_used_twice(start: StartServer) -> None:
    server = start(speaks=GEARMAN)
    port = server.ports["gearman"]
    form = rb"H:%b:[0-9]+" % re.escape(socket.gethostname().encode())
    handles: list[bytes] = []
    for _ in range(3):
        with Gearman(port) as client, Gearman(port) as worker:
            kinds = (Type.SUBMIT_JOB, Type.SUBMIT_JOB_BG, Type.SUBMIT_JOB)
            handles += [client.submit("f", kind=kind) for kind in kinds]
            work = worker.can_do("f").grab()
            assert work is not None
            assert work.handle in handles
            assert all(client.status(handle)[0] == b"1" for handle in handles[-3:])
            assert client.status(handles[1])[0] == b"1", "a stored job lost its handle"
        server.restart()
    odd = [handle for handle in handles if not re.fullmatch(form, handle)]
    assert not odd, f"{odd[0]!r} is not {form!r}"
    assert len(set(handles)) == 9, "a handle was used again after a restart"


@pytest.mark.case(21)
def test_a_dash_is_kept_as_it_was_sent(start: StartServer) -> None:
    with Gearman(start(speaks=GEARMAN).ports["gearman"]) as peer:
        peer.can_do("f")
        for body in (b"some", b"", b""):
            peer.submit("f", body, b"-")
        works = list(iter(lambda: peer.grab(Type.GRAB_JOB_UNIQ), None))
        assert [work.body for work in works] == [b"some", b"", b""]
        assert [work.unique for work in works] == [b"-"] * 3, "a worker is told another unique id"


@pytest.mark.case(21)
@pytest.mark.parametrize("numbers", [(b"5000000000", b"9999999999"), (b"0.5", b"1.0")])
def test_a_status_arrives_as_it_was_sent(start: StartServer, numbers: tuple[bytes, bytes]) -> None:
    port = start(speaks=GEARMAN).ports["gearman"]
    with Gearman(port) as client, Gearman(port) as worker:
        handle = client.submit("f", kind=Type.SUBMIT_JOB)
        assert worker.can_do("f").grab() is not None
        worker.say(Type.WORK_STATUS, handle, *numbers)
        assert client.wait_for(Type.WORK_STATUS).data == b"\0".join(numbers)
        assert client.status(handle) == [b"1", b"1", *numbers], "GET_STATUS tells other numbers"


@pytest.mark.case(21)
def test_prioritystatus_counts_stored_jobs_by_priority(start: StartServer, tmp_path: Path) -> None:
    settings = tmp_path / "franca.toml"
    settings.write_text("[limits]\nwindow_jobs = 10\nsupply_jobs = 2\n")
    server = start("--config", str(settings), speaks=GEARMAN)
    port = server.ports["gearman"]
    kinds = {Type.SUBMIT_JOB_HIGH_BG: 10, Type.SUBMIT_JOB_BG: 20, Type.SUBMIT_JOB_LOW_BG: 30}
    with Gearman(port) as client:
        for kind, count in kinds.items():
            for _ in range(count):
                client.submit("f", kind=kind)
        assert client.lines("prioritystatus") == [b"f\t10\t20\t30\t0\n"]
    server.restart()
    with Gearman(port) as client:
        assert client.lines("prioritystatus") == [b"f\t10\t20\t30\t0\n"], "after a restart"
