"""What follows a failure, a timeout or a loss: retry-count, guarantee and the server's own limit."""

from franca.core.model import State
from tests.protocols.eventmq.puppet import Puppet, World
from tests.support.eventmq import call

BOOM = '{"error": "boom"}'
TIMED_OUT = '{"value": "TimeoutError"}'


def served(headers: str = "", slots: int = 50) -> tuple[World, Puppet, Puppet]:
    """A request with these headers, and the worker that has it."""
    world = World()
    worker, client = world.worker(slots=slots), world.peer()
    client.request(call(), headers=headers)
    return world, worker, client


# -- failures -------------------------------------------------------------------------------------


def test_a_failed_job_is_run_again_as_often_as_its_retry_count_says() -> None:
    world, worker, client = served("reply-requested,retry-count:2")
    msgid = client.heard()[0][4].decode()
    for delay in (1_000, 2_000):
        worker.done(worker.take(), BOOM)
        world.pass_time(delay - 100, worker)
        assert (worker.given(), client.words()) == ([], [])
        world.pass_time(200, worker)
    worker.done(worker.take(), BOOM)
    assert client.words() == [("REPLY", '{"error":"boom"}', msgid)]
    assert world.job().state is State.DEAD


def test_a_job_that_its_worker_said_had_failed_is_not_done_by_its_next_word() -> None:
    world, worker, _ = served("retry-count:5")
    given = worker.take()
    worker.done(given, BOOM, ready=False)
    worker.done(given, ready=False)
    assert world.job().state is State.WAITING
    world.pass_time(1_100, worker)
    assert worker.take().msgid == given.msgid


def test_without_a_retry_count_the_first_failure_is_the_last() -> None:
    world, worker, _ = served()
    worker.done(worker.take(), BOOM)
    assert (world.job().state, world.job().failures) == (State.DEAD, 1)


def test_a_failure_is_said_in_one_form_only() -> None:
    for result in ('{"value": {"error": "x"}}', '{"error": 1, "value": 2}', '["error"]', '"error"'):
        world, worker, _ = served("retry-count:5")
        worker.done(worker.take(), result)
        assert world.jobs() == [], result


def test_an_error_may_be_any_value() -> None:
    _, worker, client = served("reply-requested")
    client.heard()
    worker.done(worker.take(), '{"error": {"code": 5}}')
    assert client.replies()[0][0] == '{"error":"{\\"code\\": 5}"}'


# -- timeouts ---------------------------------------------------------------------------------------


def test_a_job_over_its_timeout_is_given_up_without_a_retry_count() -> None:
    world, worker, client = served("reply-requested,timeout:5")
    client.heard()
    given = worker.take()
    world.pass_time(6_900, worker)
    assert world.job().state is State.LEASED
    world.pass_time(2_500, worker)
    assert world.job().state is State.DEAD
    assert "lease expired" in client.replies()[0][0]
    worker.done(given)
    assert world.job().state is State.DEAD


def test_with_one_it_is_run_again() -> None:
    world, worker, _ = served("timeout:5,retry-count:1")
    late = worker.take()
    world.pass_time(12_000, worker)
    assert worker.take().msgid == late.msgid
    assert world.job().failures == 1


def test_a_worker_that_kills_a_job_in_time_reports_a_failure_that_is_retried() -> None:
    world, worker, client = served("reply-requested,timeout:5,retry-count:1")
    client.heard()
    given = worker.take()
    world.pass_time(5_000, worker)
    worker.done(given, TIMED_OUT)
    world.pass_time(1_100, worker)
    again = worker.take()
    world.pass_time(5_000, worker)
    worker.done(again, TIMED_OUT)
    assert (client.replies(), world.jobs()) == ([(TIMED_OUT, given.msgid.decode())], [])


def test_the_same_text_before_its_time_is_a_result() -> None:
    world, worker, client = served("reply-requested,timeout:5,retry-count:1")
    client.heard()
    given = worker.take()
    world.pass_time(1_000, worker)
    worker.done(given, TIMED_OUT)
    assert client.replies() == [(TIMED_OUT, given.msgid.decode())]


def test_a_timeouts_answer_that_comes_late_does_not_end_the_next_run() -> None:
    world, worker, _ = served("timeout:5,retry-count:3", slots=2)
    late = worker.take()
    world.pass_time(7_500, worker)
    worker.done(late, TIMED_OUT, ready=False)
    assert world.job().state is State.WAITING


def test_without_a_timeout_a_job_may_take_for_ever() -> None:
    world, worker, _ = served()
    given = worker.take()
    world.pass_time(3_600_000, worker, step=2_000)
    assert world.job().state is State.LEASED
    worker.done(given)
    assert world.jobs() == []


# -- losses -------------------------------------------------------------------------------------------


def test_a_lost_worker_is_made_good_ten_times_without_retries(client: Puppet, world: World) -> None:
    msgid = client.request(call(), headers="reply-requested").decode()
    for _ in range(10):
        assert world.job().state is State.READY
        worker = world.worker(slots=1)
        assert worker.take().msgid == msgid.encode()
        worker.hang_up()
    assert world.job().state is State.DEAD
    assert "went away" in client.replies()[-1][0]


def test_what_is_no_call_is_made_good_twice_and_harms_nobody(world: World, client: Puppet) -> None:
    """A job manager drops its connection over what it cannot read, and loses all that it runs."""
    client.request(call(), msgid=b"innocent")
    client.request(b"not json", msgid=b"poison")
    for _ in range(3):
        worker = world.worker(slots=2)
        assert [given.msgid for given in worker.given()] == [b"innocent", b"poison"]
        worker.hang_up()
    innocent, poison = world.jobs()
    assert (innocent.state, innocent.losses) == (State.READY, 0)
    assert (poison.state, poison.losses) == (State.DEAD, 3)


def test_a_guaranteed_job_is_never_given_up_and_waits_longer_each_time(world: World) -> None:
    world.peer().request(call(), headers="guarantee")
    waits = []
    for _ in range(12):
        worker = world.worker(slots=1)
        worker.take()
        worker.hang_up()
        job = world.job()
        assert job.state is State.WAITING
        waits.append((job.run_at - world.now) // 1000)
        world.now = job.run_at
        world.pass_time(100)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    worker = world.worker(slots=1)
    worker.done(worker.take(), BOOM)
    assert world.job().state is State.WAITING
    world.now = world.job().run_at
    world.pass_time(100)
    worker.done(worker.take())
    assert world.jobs() == []


def test_a_lost_job_returns_to_its_old_place(worker: Puppet, world: World, client: Puppet) -> None:
    client.request("1")
    client.request("2")
    worker.hang_up()
    assert [given.body for given in world.worker(slots=2).given()] == [b"1", b"2"]


def test_jobs_that_ran_when_the_server_died_are_run_again(world: World, worker: Puppet) -> None:
    world.peer().request("1")
    assert worker.take().body == b"1"
    world = world.restarted()
    assert world.worker(slots=1).take().body == b"1"
