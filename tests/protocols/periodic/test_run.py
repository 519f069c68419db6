"""RUN_JOB and RECV_DATA: who waits for a job, and what everybody is told."""

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.support import periodic as p
from tests.support.periodic import Message, packed, str8


def result(client: Puppet) -> bytes:
    """The one answer that a client has heard."""
    (message,) = client.heard()
    assert message.command == p.DATA
    return message.data


def test_the_result_is_the_answer(world: World, client: Puppet, worker: Puppet) -> None:
    msgid = client.run_job("f", "n", b"w")
    job = worker.grab()
    assert job.workload == b"w"
    assert client.heard() == []
    worker.done(job, b"\0result\0\1")
    assert client.heard() == [Message(msgid, p.DATA, b"\0result\0\1")]
    assert (client.waited_for_commit, world.jobs()) == (True, [])


def test_without_a_worker_the_answer_says_so_at_once(client: Puppet, world: World) -> None:
    assert (client.word(p.RUN_JOB, packed("f", "n")), world.jobs()) == (p.NO_WORKER, [])
    world.worker("f").hang_up()
    assert client.word(p.RUN_JOB, packed("f", "n")) == p.NO_WORKER


@pytest.mark.parametrize("how", ["fail", "later", "vanish", "expire"])
def test_two_who_wait_are_told_that_it_failed_and_it_is_not_rerun(world: World, how: str) -> None:
    # Facts, section 7, case 4: two waiters; worker killed -> both get `failed`.
    one, two, worker = world.peer(), world.peer(), world.worker("f")
    world.worker("f")
    one.run_job("f", "n", timeout=100 if how != "expire" else 1)
    job = worker.grab()
    two.run_job("f", "n", timeout=100)
    match how:
        case "fail":
            worker.fail(job)
        case "later":
            worker.later(job, 1)
        case "vanish":
            worker.hang_up()
        case _:
            world.pass_time(3_000)
    if how == "expire":
        assert result(one) in (b"failed", b"expired")
    else:
        assert result(one) == b"failed"
    assert result(two) == b"failed"
    world.pass_time(3_000)
    assert world.jobs() == []


def test_who_waits_on_one_connection_twice_is_told_twice(client: Puppet, worker: Puppet) -> None:
    ids = [client.run_job("f", "n"), client.run_job("f", "n")]
    worker.done(worker.grab(), b"r")
    assert client.heard() == [Message(msgid, p.DATA, b"r") for msgid in ids]


def test_whoever_waits_for_a_job_that_is_removed_is_told_so(world: World) -> None:
    # Facts, section 7, case 4: REMOVE_JOB -> `removed`.
    one, two, worker = world.peer(), world.peer(), world.worker("f")
    one.run_job("f", "n")
    two.run_job("f", "n")
    worker.grab()
    world.peer().remove()
    assert (result(one), result(two)) == (b"removed", b"removed")


@pytest.mark.parametrize("timeout", [0, 5])
def test_when_the_wait_is_over_it_is_told_so_and_the_job_stays(world: World, timeout: int) -> None:
    # Facts, section 7, case 4: wait over -> `expired`.
    client, worker = world.peer(), world.worker("f")
    client.run_job("f", "n", timeout=timeout)
    wait_ms = 1000 * (timeout or 60)
    world.pass_time(wait_ms - 100)
    assert client.heard() == []
    world.pass_time(200)
    assert (result(client), len(world.jobs(State.READY))) == (b"expired", 1)
    assert not world.broker.watches.by_job
    worker.done(worker.grab(), b"late")
    assert client.heard() == []


def test_one_wait_that_ends_leaves_the_others(client: Puppet, worker: Puppet, world: World) -> None:
    client.run_job("f", "n", timeout=2)
    late = client.run_job("f", "n", timeout=90)
    world.pass_time(3_000)
    assert result(client) == b"expired"
    worker.done(worker.grab(), b"r")
    assert client.heard() == [Message(late, p.DATA, b"r")]


def test_a_submit_under_the_same_name_is_what_is_waited_for(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.run_job("f", "n", b"old")
    world.peer().submit("f", "n", b"new")
    job = worker.grab()
    assert job.workload == b"new"
    worker.done(job, b"r")
    assert result(client) == b"r"
    assert worker.try_grab() == []


def test_a_run_replaces_what_waits_and_is_not_lost_on_those_who_wait(world: World) -> None:
    one, two, worker = world.peer(), world.peer(), world.worker("f")
    world.peer().submit("f", "n", b"old", at=NOW_S + 1_000)
    one.run_job("f", "n", b"new")
    two.run_job("f", "n", b"newest")
    job = worker.grab()
    assert job.workload == b"newest"
    worker.done(job, b"r")
    assert (result(one), result(two)) == (b"r", b"r")


def test_a_run_waits_for_the_run_under_way(client: Puppet, worker: Puppet, world: World) -> None:
    world.peer().submit("f", "n", b"submitted")
    job = worker.grab()
    client.run_job("f", "n", b"run")
    worker.done(job, b"r")
    assert (result(client), world.jobs()) == (b"r", [])


def test_a_submitted_job_is_run_again_though_somebody_waits_for_it(world: World) -> None:
    """It was acknowledged: whoever joins it must not make it vanish."""
    client, worker = world.peer(), world.worker("f")
    world.peer().submit("f", "n")
    job = worker.grab()
    client.run_job("f", "n")
    worker.fail(job)
    worker.heard()
    world.pass_time(1_100)
    worker.done(worker.grab(), b"second")
    assert result(client) == b"second"


def test_a_client_that_leaves_is_told_nothing_and_its_job_is_run(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.run_job("f", "n")
    client.hang_up()
    assert not world.broker.watches.by_job
    worker.fail(worker.grab())
    worker.heard()
    world.pass_time(1_100)
    worker.done(worker.grab())
    assert world.jobs() == []


def test_so_many_answers_may_be_waited_for_and_no_more(world: World, client: Puppet) -> None:
    world.worker("f")
    jobs = [packed("f", f"n{n}") for n in range(10_001)]
    client.send(b"".join(client.message(p.RUN_JOB, job, b"jobs") for job in jobs))
    assert client.words() == [p.UNKNOWN]


def test_a_result_that_is_too_large_fails_for_who_waits_and_is_done_for_nobody() -> None:
    world = World(limits=Limits(body_bytes_max=100))
    client, worker = world.peer(), world.worker("f")
    client.run_job("f", "n")
    worker.done(worker.grab(), b"x" * 101)
    assert result(client) == b"failed"
    worker.heard()
    client.submit("f", "n")
    worker.done(worker.grab(), b"x" * 101)
    assert world.jobs() == []


# -- streams ------------------------------------------------------------------------------------------


def data(client: Puppet) -> list[bytes]:
    return [message.data for message in client.heard() if message.command == p.DATA]


def test_a_stream_is_every_piece_and_an_end(world: World, client: Puppet, worker: Puppet) -> None:
    client.submit("f", "n")
    job = worker.grab()
    assert client.word(p.RECV_DATA, packed("f", "n")) == p.SUCCESS
    for piece in (b"one", b"", b"two"):
        assert worker.word(p.WORK_DATA, job.handle + piece) == p.SUCCESS
    assert data(client) == [b"one", b"", b"two"]
    worker.done(job, b"result")
    assert (data(client), world.service.streams) == ([b"EOF"], {})


def test_a_stream_may_be_asked_for_before_its_job_is_there(client: Puppet, worker: Puppet) -> None:
    """One client says RUN_JOB and RECV_DATA beside each other."""
    stream = client.say(p.RECV_DATA, packed("f", "n"))
    run = client.run_job("f", "n")
    job = worker.grab()
    worker.say(p.WORK_DATA, job.handle + b"piece")
    worker.done(job, b"result")
    heard = [(m.msgid, m.command, m.data) for m in client.heard()]
    assert heard == [
        (stream, p.SUCCESS, b""),
        (stream, p.DATA, b"piece"),
        (stream, p.DATA, b"EOF"),
        (run, p.DATA, b"result"),
    ]


def test_a_stream_outlives_runs_that_failed(client: Puppet, worker: Puppet, world: World) -> None:
    client.submit("f", "n")
    client.say(p.RECV_DATA, packed("f", "n"))
    job = worker.grab()
    worker.say(p.WORK_DATA, job.handle + b"first try")
    worker.fail(job)
    worker.heard()
    world.pass_time(1_100)
    job = worker.grab()
    worker.say(p.WORK_DATA, job.handle + b"second")
    worker.done(job)
    assert data(client) == [b"first try", b"second", b"EOF"]


def test_a_stream_of_a_function_without_workers_is_refused() -> None:
    assert World().peer().word(p.RECV_DATA, packed("f", "n")) == p.NO_WORKER


def test_streams_of_who_left_are_forgotten(client: Puppet, worker: Puppet, world: World) -> None:
    client.say(p.RECV_DATA, packed("f", "n"))
    client.hang_up()
    assert not world.service.streams
    world.peer().submit("f", "n")
    job = worker.grab()
    worker.say(p.WORK_DATA, job.handle + b"piece")
    worker.done(job)
    assert not world.broker.watches.by_job


def test_a_piece_for_nobody_is_confirmed(world: World) -> None:
    world.peer().submit("f", "n")
    worker = world.worker("f")
    job = worker.grab()
    assert worker.word(p.WORK_DATA, job.handle + b"piece") == p.SUCCESS
    assert worker.word(p.WORK_DATA, str8("f") + str8("other") + b"piece") == p.SUCCESS


def test_a_submit_is_kept_and_acknowledged_however_many_wait_for_jobs() -> None:
    world = World(limits=Limits(watches_max=0))
    client, worker = world.peer(), world.worker("f")
    client.say(p.RECV_DATA, packed("f", "n"))
    client.heard()
    world.peer().submit()
    worker.done(worker.grab())
    assert data(client) == [b"EOF"]
