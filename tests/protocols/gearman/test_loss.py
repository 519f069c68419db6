"""Workers vanish, clients hang up, time runs out: no job is lost and nobody waits in vain."""

from typing import Any

import pytest

from franca.core.model import Job, State
from franca.protocols.gearman.conversation import GRANTS_KEPT
from franca.protocols.gearman.settings import GearmanSettings
from tests.protocols.gearman.puppet import Puppet, World, err, res
from tests.support.gearman import Type, Work, request

NOT_FOUND = err("JOB_NOT_FOUND", "Job given in work result not found")


def test_a_lost_workers_jobs_come_back_to_the_head_in_their_old_order(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    handles = [client.submit_bg() for _ in range(5)]
    assert [worker.grab_handle() for _ in range(3)] == handles[:3]
    worker.hang_up()
    other = world.worker("f")
    assert [other.grab_handle() for _ in range(5)] == handles
    assert client.bytes_heard() == b""


@pytest.mark.parametrize("heard", [True, False])
def test_a_job_counts_as_lost_if_its_delivery_was_heard(world: World, heard: bool) -> None:
    _, worker, handle = world.running(kind=Type.SUBMIT_JOB_BG)
    if heard:
        worker.say(Type.ECHO_REQ, "alive")
    worker.hang_up(undelivered=True)
    [job] = world.broker.jobs.values()
    assert (job.name.encode(), job.state, job.losses) == (handle, State.READY, heard)


@pytest.mark.parametrize("turns", [1, 4, 100])
def test_jobs_that_were_asked_for_at_once_and_never_left_were_never_given(turns: int) -> None:
    world = World(settings=GearmanSettings(job_retries=0))
    client, worker = world.connect(), world.worker("f")
    handles = [client.submit() for _ in range(200)]
    worker.begin(request(Type.GRAB_JOB) * 200, turns=turns)
    worker.hang_up(undelivered=True)
    assert client.heard() == []
    other = world.worker("f")
    assert [other.grab_handle() for _ in handles] == handles
    assert {job.losses for job in world.broker.jobs.values()} == {0}


def test_only_what_was_given_since_a_worker_last_waited_goes_back(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    for _ in range(5):
        client.submit_bg()
    worker.grab()
    worker.send(request(Type.GRAB_JOB) * 3)
    worker.hang_up(undelivered=True)
    assert [job.losses for job in world.broker.jobs.values()] == [1, 0, 0, 0, 0]


def test_an_undoable_delivery_is_forgotten_when_its_job_ends(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    worker.send(request(Type.ECHO_REQ, "x")[:5])
    rest = request(Type.ECHO_REQ, "x")
    for _ in range(300):
        handle = client.submit_bg()
        ended = request(Type.WORK_COMPLETE, handle)
        worker.send(rest[5:] + request(Type.GRAB_JOB) + ended + rest[:5])
    assert len(worker.conversation._grants) <= GRANTS_KEPT + 1


@pytest.mark.parametrize(("retries", "runs"), [(0, 1), (1, 2), (3, 4), (25, 26)])
@pytest.mark.parametrize("background", [True, False])
def test_a_job_is_run_so_often_and_has_failed(retries: int, runs: int, background: bool) -> None:
    world = World(settings=GearmanSettings(job_retries=retries))
    client = world.connect()
    handle = client.submit_bg() if background else client.submit()
    for _ in range(runs):
        worker = world.worker("f")
        assert worker.grab_handle() == handle
        worker.hang_up()
    assert world.worker("f").grab() is None
    assert client.heard() == ([] if background else [res(Type.WORK_FAIL, handle)])
    reasons = [(job.attempt_log or [])[-1].error_kind for job in world.jobs(State.DEAD)]
    assert reasons == ["WorkerLost"] * background


@pytest.mark.parametrize("background", [True, False])
def test_without_a_limit_a_job_outlives_any_number_of_workers(background: bool) -> None:
    world = World(settings=GearmanSettings(job_retries=-1))
    client = world.connect()
    handle = client.submit_bg() if background else client.submit()
    for _ in range(40):
        worker = world.worker("f")
        assert worker.grab_handle() == handle
        worker.hang_up()
        world.pass_time(100)
    assert (client.heard(), world.jobs(State.DEAD)) == ([], [])


def test_progress_restarts_with_a_new_worker(world: World) -> None:
    client, worker, handle = world.running(kind=Type.SUBMIT_JOB_BG)
    worker.say(Type.WORK_STATUS, handle, "1", "2")
    assert client.status(handle) == [b"1", b"1", b"1", b"2"]
    worker.hang_up()
    assert client.status(handle) == [b"1", b"0", b"0", b"0"]
    world.worker("f").grab()
    assert client.status(handle) == [b"1", b"1", b"0", b"0"]


# -- time ------------------------------------------------------------------------------------------------


def timed(world: World, said: str = "1000") -> tuple[Puppet, Puppet, bytes]:
    """A client, a worker that gives itself so much time, and the job that it runs."""
    client, worker = world.connect(), world.connect()
    worker.say(Type.CAN_DO_TIMEOUT, "f", said)
    handle = client.submit()
    assert worker.grab_handle() == handle
    return client, worker, handle


@pytest.mark.parametrize(
    ("said", "ms"), [("5000", 5_000), ("3", 1_000), ("999", 1_000), ("1500", 1_500)]
)
def test_a_worker_slower_than_its_own_limit_loses_a_job(world: World, said: str, ms: int) -> None:
    client, worker, handle = timed(world, said)
    [job] = world.broker.jobs.values()
    assert job.until == world.now + ms
    world.pass_time(ms - 100)
    assert client.status(handle)[1] == b"1"
    world.pass_time(1_300)
    assert client.status(handle)[1] == b"0"
    other = world.worker("f")
    assert other.grab_handle() == handle
    assert worker.call(Type.WORK_COMPLETE, handle, "late") == NOT_FOUND
    other.complete(handle, "r")
    assert client.heard() == [res(Type.WORK_COMPLETE, handle, "r")]


@pytest.mark.parametrize("said", ["0", "-5", "never", "", "9" * 30])
def test_no_time_is_no_timeout(world: World, said: str) -> None:
    client, worker, handle = timed(world, said)
    world.pass_time(3_600_000, step=60_000)
    worker.complete(handle, "r")
    assert client.cut() == res(Type.WORK_COMPLETE, handle, "r")


def test_each_job_of_a_worker_has_its_own_time(world: World) -> None:
    client, worker, slow = timed(world, "5000")
    worker.can_do("g")
    free = client.submit("g")
    assert worker.grab_handle() == free
    worker.say(Type.PRE_SLEEP)
    world.pass_time(7_000)
    assert (client.status(slow)[1], client.status(free)[1]) == (b"0", b"1")


def test_a_timeout_may_be_a_failure_as_the_document_says() -> None:
    world = World(settings=GearmanSettings(on_timeout="fail"))
    client, worker, handle = timed(world)
    world.pass_time(2_500)
    assert client.heard() == [res(Type.WORK_FAIL, handle)]
    worker.complete(handle, "late")
    assert worker.bytes_heard() == b"", "nobody else has the job: there is nothing to complain of"


def test_timeouts_are_unclean_ends_and_come_to_an_end() -> None:
    world = World(settings=GearmanSettings(job_retries=2))
    client, worker, handle = timed(world)
    for _ in range(2):
        world.pass_time(2_500)
        assert worker.grab_handle() == handle
    world.pass_time(2_500)
    assert client.heard() == [res(Type.WORK_FAIL, handle)]


# -- who waits hangs up -----------------------------------------------------------------------------------


def test_a_job_that_nobody_waits_for_any_more_is_gone_from_the_queue(world: World) -> None:
    client, worker = world.connect(), world.worker("f")
    client.submit()
    client.hang_up()
    assert worker.say_line("status") == b"f\t0\t0\t1\n.\n"
    assert worker.grab() is None


def test_a_running_job_that_nobody_waits_for_any_more_may_be_finished(world: World) -> None:
    client, worker, handle = world.running()
    client.hang_up()
    worker.say(Type.WORK_DATA, handle, "d")
    worker.complete(handle, "r")
    assert worker.bytes_heard() == b""


def test_a_running_job_that_nobody_waits_for_is_not_run_again(world: World) -> None:
    client, worker, _ = world.running()
    client.hang_up()
    worker.hang_up()
    assert world.worker("f").grab() is None


def test_whoever_joins_an_abandoned_job_gets_its_result(world: World) -> None:
    client, worker, handle = world.running(unique="u")
    client.hang_up()
    late = world.connect()
    assert late.submit(unique="u") == handle
    worker.complete(handle, "r")
    assert late.heard() == [res(Type.WORK_COMPLETE, handle, "r")]


def test_a_submit_like_an_abandoned_unrun_job_is_a_new_job(client: Puppet, world: World) -> None:
    handle = client.submit(unique="u")
    client.hang_up()
    late, worker = world.connect(), world.worker("f")
    again = late.submit(unique="u")
    assert again != handle
    assert worker.grab_handle() == again


def test_a_background_job_survives_a_client_that_waited_for_it_and_left(world: World) -> None:
    background, waiting = world.connect(), world.connect()
    handle = background.submit_bg(unique="u")
    assert waiting.submit(unique="u") == handle
    waiting.hang_up()
    assert world.worker("f").grab_handle() == handle


def test_of_two_that_wait_the_one_that_stays_gets_the_result(world: World) -> None:
    one, two, worker = world.connect(), world.connect(), world.worker("f")
    handle = one.submit(unique="u")
    two.submit(unique="u")
    one.hang_up()
    assert worker.grab_handle() == handle
    worker.complete(handle, "r")
    assert two.heard() == [res(Type.WORK_COMPLETE, handle, "r")]


# -- crashes, where the original loses jobs -------------------------------------------------------------------


@pytest.mark.parametrize("unique", ["", "-"])
def test_acknowledged_jobs_survive_any_unique_id(client: Puppet, world: World, unique: str) -> None:
    handles = [client.submit_bg("f", f"work {n}", unique) for n in range(5)]
    worker = world.worker("f")
    worker.complete(worker.grab_handle())
    again = world.restart().worker("f")
    assert [again.grab_handle() for _ in range(4)] == handles[1:]
    assert again.grab() is None


def test_an_empty_workload_survives(world: World) -> None:
    handle = world.connect().submit_bg("f", "")
    assert world.restart().worker("f").grab() == Work(handle, b"f", b"")


def test_a_running_job_is_run_again_after_a_crash_under_its_own_handle(world: World) -> None:
    _, _, handle = world.running(body=bytes(range(256)), kind=Type.SUBMIT_JOB_BG)
    again = world.restart()
    assert again.connect().status(handle) == [b"1", b"0", b"0", b"0"]
    assert again.worker("f").grab() == Work(handle, b"f", bytes(range(256)))


def test_priorities_and_order_survive(world: World, client: Puppet) -> None:
    for number, text in ((34, "low"), (18, "normal 1"), (18, "normal 2"), (32, "high")):
        client.submit("f", text, kind=number)
    worker = world.restart().worker("f")
    got = [worker.call(Type.GRAB_JOB).arguments[2] for _ in range(4)]
    assert got == [b"high", b"normal 1", b"normal 2", b"low"]


def test_a_job_that_was_joined_and_left_is_not_run_again_after_a_restart(world: World) -> None:
    background, waiting, worker = world.connect(), world.connect(), world.worker("f")
    background.submit_bg(unique="u")
    waiting.submit(unique="u")
    waiting.hang_up()
    worker.complete(worker.grab_handle())
    assert world.restart().worker("f").grab() is None


# -- many at once ------------------------------------------------------------------------------------------


class CountedDict(dict[bytes, Job]):
    """A dict that counts how often somebody goes through all of it."""

    walks = 0

    def items(self) -> Any:
        self.walks += 1
        return super().items()


@pytest.mark.parametrize("protocol", ["gearman", "faktory"])
def test_a_lost_job_is_found_without_looking_at_the_others(world: World, protocol: str) -> None:
    worker = world.connect().can_do("f", timeout_ms=1_000)
    client, faktory = world.connect(), world.faktory()
    for number in range(3):
        if protocol == "gearman":
            client.submit_bg()
        else:
            faktory.push(f"jid-000{number}", queue="f")
    handles = [worker.grab_handle() for _ in range(3)]
    held = CountedDict(worker.conversation.held)
    worker.conversation.held = held
    worker.complete(handles[0])
    world.pass_time(2_500)
    assert (held, held.walks, worker.conversation.foreign) == ({}, 0, {})
    assert worker.call(Type.WORK_COMPLETE, handles[1], "late") == NOT_FOUND
