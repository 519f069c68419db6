"""Every measured way in which the original loses a job or leaves a peer without an answer, on a real server.

Each promise is a scene that is played twice: here it holds; and where Debian's gearmand is installed it is
seen to break there, so that the scene is known to show what it says.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.real.gearman.kinds import need
from tests.real.gearman.kit import Gearmand
from tests.support.gearman import Gearman, GearmanError, Type, Work
from tests.support.server import Server, ServerFailed

MEASURED = "1.1.20"
SOON_S = 2.0
"""Far longer than an answer takes, and not long for one that never comes."""


Running = Server | Gearmand


@pytest.fixture
def gearmand(tmp_path: Path) -> Iterator[Running]:
    """The original with the queue that promises most."""
    need("gearmand")
    with Gearmand(tmp_path / "data").start() as server:
        with peer(server) as client:
            version = client.line("version").split()[-1].decode()
        if not version.startswith(MEASURED):
            pytest.skip(f"these were measured on gearmand {MEASURED}, and this is {version}")
        yield server


Scene = Callable[[Running], None]
SCENES: dict[str, Scene] = {}


def promise(scene: Scene) -> Scene:
    SCENES[scene.__name__.replace("_", " ")] = scene
    return scene


def peer(server: Running) -> Gearman:
    return Gearman(server.ports["gearman"], timeout=SOON_S)


def grabbed(worker: Gearman) -> Work:
    work = worker.grab()
    assert work is not None
    return work


def drained(server: Running, function: str = "f", kind: Type = Type.GRAB_JOB_ALL) -> list[Work]:
    """All jobs that are there, run one after the other."""
    found: list[Work] = []
    with peer(server) as worker:
        worker.can_do(function)
        while (work := worker.grab(kind)) is not None:
            found.append(work)
            worker.complete(work.handle)
        assert not worker.echo()
    return found


# -- what is acknowledged survives -------------------------------------------------------------


@promise
def every_acknowledged_job_without_a_unique_id_survives_a_crash(server: Running) -> None:
    with peer(server) as client:
        for number in range(5):
            client.submit("f", b"%d" % number)
    server.restart()
    assert [work.body for work in drained(server)] == [b"0", b"1", b"2", b"3", b"4"]


@promise
def jobs_that_go_by_their_workload_survive_a_crash(server: Running) -> None:
    with peer(server) as client:
        client.submit("f", b"one", b"-")
        client.submit("f", b"two", b"-")
    server.restart()
    assert sorted(work.body for work in drained(server)) == [b"one", b"two"]


@promise
def a_job_with_an_empty_workload_survives_a_crash_and_so_does_the_server(server: Running) -> None:
    with peer(server) as client:
        client.submit("f", b"", b"u")
    server.restart()
    assert [work.body for work in drained(server)] == [b""]


@promise
def a_job_that_runs_when_the_server_crashes_is_run_again_under_its_own_handle(
    server: Running,
) -> None:
    with peer(server) as client, peer(server) as worker:
        client.submit("f", b"done before", b"a")
        handle = client.submit("f", b"x", b"b")
        worker.can_do("f")
        first = grabbed(worker)
        worker.complete(first.handle)
        assert not worker.echo()
        assert worker.grab() is not None
        client.submit("f", b"y", b"c")  # the end of the first is on the disk by now
    server.restart()
    works = drained(server)
    assert [work.body for work in works] == [b"x", b"y"]
    assert works[0].handle == handle


@promise
def a_handle_never_means_another_job_after_a_restart(server: Running) -> None:
    with peer(server) as client:
        old = client.submit("f", b"x", b"u")
    drained(server)
    with peer(server) as client:
        client.submit("g", b"z", b"w")  # the end of the first is on the disk by now
    server.restart()
    with peer(server) as client:
        assert client.submit("f", b"y", b"v") != old
        assert client.status(old)[:2] == [b"0", b"0"]


@promise
def a_reducer_survives_a_crash(server: Running) -> None:
    with peer(server) as client:
        client.submit("f", b"x", b"u", Type.SUBMIT_REDUCE_JOB_BACKGROUND, b"reducer", b"")
    server.restart()
    assert [work.reducer for work in drained(server)] == [b"reducer"]


@promise
def a_background_job_that_a_client_joined_and_left_is_run(server: Running) -> None:
    with peer(server) as client:
        client.submit("f", b"x", b"u")
        with peer(server) as other:
            other.submit("f", b"x", b"u", Type.SUBMIT_JOB)
        client.echo()
        time.sleep(0.1)  # until the server has noticed
    assert [work.body for work in drained(server)] == [b"x"]


@promise
def a_job_of_a_function_that_was_dropped_is_not_out_of_reach(server: Running) -> None:
    with peer(server) as client:
        handle = client.submit("f", b"x", b"u")
        said = client.line("drop function f")
        found = drained(server)
        # Refused, or done and told so: what is known and never runs helps nobody.
        assert found or (said == b"OK\r\n" and client.status(handle)[0] == b"0")


# -- who runs a job keeps it, and is left alone --------------------------------------------------


@promise
def a_worker_that_takes_no_more_jobs_may_finish_what_it_has(server: Running) -> None:
    for goodbye in ((Type.CANT_DO, b"f"), (Type.RESET_ABILITIES,)):
        with peer(server) as client, peer(server) as worker:
            client.submit("f", b"x", bytes([goodbye[0] + 64]))
            worker.can_do("f")
            work = grabbed(worker)
            worker.say(goodbye[0], *goodbye[1:])
            worker.complete(work.handle)
            assert not worker.echo()
        assert drained(server) == []


@promise
def a_failure_after_an_exception_is_no_error(server: Running) -> None:
    with peer(server) as client, peer(server) as worker:
        client.submit("f", b"x", b"u")
        worker.can_do("f")
        work = grabbed(worker)
        worker.say(Type.WORK_EXCEPTION, work.handle, b"died")
        worker.fail(work.handle)
        assert worker.echo() == []


@promise
def jobs_of_a_lost_worker_come_back_in_their_order_before_all_others(server: Running) -> None:
    with peer(server) as client:
        for number in range(4):
            client.submit("f", b"%d" % number, b"u%d" % number)
        with peer(server) as worker:
            worker.can_do("f")
            assert [worker.grab() is not None for _ in range(2)] == [True, True]
        client.echo()
        time.sleep(0.1)  # until the server has noticed
    assert [work.body for work in drained(server)] == [b"0", b"1", b"2", b"3"]


# -- who sleeps is woken -------------------------------------------------------------------------


@promise
def who_was_woken_in_vain_is_woken_again(server: Running) -> None:
    with peer(server) as client, peer(server) as worker, peer(server) as quick:
        worker.can_do("f")
        quick.can_do("f")
        worker.say(Type.PRE_SLEEP)
        assert not worker.echo()
        client.submit("f", b"x", b"u")
        worker.wait_for(Type.NOOP)
        work = grabbed(quick)
        quick.complete(work.handle)
        worker.say(Type.PRE_SLEEP)
        assert not worker.echo()
        client.submit("f", b"y", b"v")
        worker.wait_for(Type.NOOP)


@promise
def who_learns_a_function_in_its_sleep_is_woken_for_jobs_that_wait(server: Running) -> None:
    with peer(server) as client, peer(server) as worker:
        client.submit("f", b"x", b"u")
        worker.can_do("g")
        worker.say(Type.PRE_SLEEP)
        worker.can_do("f")
        worker.wait_for(Type.NOOP)


@promise
def a_sleeper_is_woken_when_a_jobs_time_has_come(server: Running) -> None:
    with peer(server) as client, peer(server) as worker:
        due = b"%d" % (time.time() + 1)
        client.submit("f", b"x", b"u", Type.SUBMIT_JOB_EPOCH, due)
        worker.can_do("f")
        worker.set_timeout(2 * SOON_S)
        worker.say(Type.PRE_SLEEP)
        worker.wait_for(Type.NOOP)
        assert worker.grab() is not None


# -- who asks is answered --------------------------------------------------------------------------


@promise
def a_client_that_knows_no_exceptions_hears_that_its_job_failed(server: Running) -> None:
    with peer(server) as client, peer(server) as worker:
        handle = client.submit("f", b"x", b"u", Type.SUBMIT_JOB)
        worker.can_do("f")
        work = grabbed(worker)
        worker.say(Type.WORK_EXCEPTION, work.handle, b"died")
        assert client.wait_for(Type.WORK_FAIL).body == handle


@promise
def who_joins_a_job_that_was_abandoned_gets_its_result(server: Running) -> None:
    with peer(server) as first:
        first.submit("f", b"x", b"u", Type.SUBMIT_JOB)
    time.sleep(0.1)  # until the server has noticed
    with peer(server) as client:
        handle = client.submit("f", b"x", b"u", Type.SUBMIT_JOB)
        with peer(server) as worker:
            worker.can_do("f")
            work = grabbed(worker)
            worker.complete(work.handle, b"result")
            assert client.result(handle).data == b"result"


@promise
def a_packet_with_too_few_arguments_swallows_nothing_behind_it(server: Running) -> None:
    with peer(server) as client:
        client.say(Type.SUBMIT_JOB_BG, b"f")
        client.say(Type.ECHO_REQ, b"behind it")
        assert client.wait_for(Type.ECHO_RES).type is Type.ERROR
        assert client.wait_for(Type.ECHO_RES).body == b"behind it"


@promise
def a_long_handle_is_answered(server: Running) -> None:
    with peer(server) as client:
        assert client.status(b"H:" + b"x" * 70)[:2] == [b"0", b"0"]


@promise
def a_moment_that_no_calendar_knows_is_answered(server: Running) -> None:
    with peer(server) as client:
        with suppress(GearmanError):
            client.submit("f", b"x", b"u", Type.SUBMIT_JOB_EPOCH, b"9" * 30)
        client.echo()


# -- both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SCENES))
def test_it_is_kept_here(name: str, server: Server) -> None:
    SCENES[name](server)


@pytest.mark.parametrize("name", list(SCENES))
def test_it_is_broken_by_the_original(name: str, gearmand: Running) -> None:
    with pytest.raises((AssertionError, OSError, ValueError, ServerFailed)):
        SCENES[name](gearmand)
