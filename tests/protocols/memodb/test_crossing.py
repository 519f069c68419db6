"""Jobs that cross: run by workers of another protocol, or submitted in one."""

import json

import pytest

from franca.core.limits import Limits
from franca.core.model import Failure, Policy, State
from tests.protocols.memodb.puppet import World
from tests.support import memodb as m


def test_a_job_of_another_protocol_is_a_job_of_the_service_of_its_queue(world: World) -> None:
    worker = world.worker("mail")
    job = world.foreign_job("mail", b"body", policy=Policy(lease_ms=30_000))
    task = worker.given()
    assert (task.service, task.timeout_ms, task.payload) == ("mail", 30_000, b"body")
    worker.result(task, b"sent")
    assert (job.state, job.result) == (State.DONE, b"sent")


def test_arguments_are_shown_as_the_bytes_of_their_array(world: World) -> None:
    body = json.dumps({"jid": "j", "args": [1, {"a": 2}]}, separators=(",", ":")).encode()
    world.foreign_job("mail", body, "json-job")
    worker = world.worker("mail")
    task = worker.given()
    assert (task.payload, task.timeout_ms) == (b'[1,{"a":2}]', 2**32 - 1)


def test_what_is_durable_waits_for_the_disk_both_ways_and_nothing_else_does(world: World) -> None:
    worker, client = world.worker("mail", "s"), world.peer()
    client.job()
    worker.result(worker.given())
    assert (worker.waited_for_commit, client.waited_for_commit) == (False, False)
    world.foreign_job("mail", b"durable")
    task = worker.given()
    assert worker.waited_for_commit
    worker.waited_for_commit = False
    client.job()
    worker.result(task)
    # The next job is also the word that the last one's result was taken.
    worker.given()
    assert worker.waited_for_commit


def test_a_worker_leaving_with_a_durable_result_is_told_after_the_commit(world: World) -> None:
    worker = world.worker("mail")
    world.foreign_job("mail", b"durable")
    task = worker.given()
    worker.waited_for_commit = False
    worker.result(task, leaving=True)
    worker.disconnected()
    assert worker.waited_for_commit


def test_a_durable_job_whose_worker_is_lost_is_ready_again(world: World) -> None:
    worker = world.worker("mail")
    job = world.foreign_job("mail", b"durable")
    worker.hang_up()
    assert (job.state, job.losses) == (State.READY, 1)


@pytest.mark.parametrize("failed", [True, False])
def test_a_job_run_in_another_protocol_is_answered_or_dropped(world: World, failed: bool) -> None:
    client = world.peer()
    client.job(b"work")
    (job,) = world.all_jobs
    assert world.broker.sole(job.name) is job
    assert len(job.name) >= 8
    stranger = world.stranger_on("s")
    if failed:
        world.broker.fail(job, stranger.holder, Failure("E", "no"), world.now)
    else:
        world.broker.finish(job, stranger.holder, b"", world.now)
    world.run()
    assert client.is_hung_up is failed
    if not failed:
        assert client.answer().payload == b""


def test_names_of_jobs_are_never_the_same_after_a_restart() -> None:
    names = []
    for seed in (1, 2):
        world = World(seed=seed)
        world.peer().job()
        names += [job.name for job in world.all_jobs]
    assert names[0] != names[1]


def test_a_job_whose_body_has_left_memory_is_said_again_whole() -> None:
    world = World(limits=Limits(large_body_bytes=100, large_bytes=100))
    job = world.foreign_job("s", b"x" * 5_000)
    worker = world.peer()
    request = worker.ask(m.ready("s"))
    assert worker.given().payload == b"x" * 5_000
    world.pass_time(200)
    assert job.away or world.broker.jobs[job.id].away
    worker.ask(m.ready("s"), request)
    task = worker.given()
    assert task.payload == b"x" * 5_000
    worker.result(task)
    assert world.jobs() == []
