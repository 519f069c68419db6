"""SUBMIT_JOB and what becomes of a job: kept, replaced, run, put off, failed, lost."""

import struct

import pytest

from franca.core.limits import Limits
from franca.core.model import NewJob, Policy, State
from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.support import periodic as p
from tests.support.periodic import BIN, CRC, DOC, packed, str8

BOTH = pytest.mark.parametrize("dialect", [CRC, DOC])


@BOTH
def test_a_job_is_durable_before_success(world: World, dialect: str) -> None:
    client = world.peer(dialect)
    assert (client.offer("f", "n", b"abc"), client.waited_for_commit) == (p.SUCCESS, True)
    (job,) = world.jobs()
    assert (job.queue, job.name, job.body, job.origin) == ("f", "n", b"abc", "periodic")
    world.crash()
    assert world.worker("f", dialect=dialect).grab().workload == b"abc"


@BOTH
def test_submitting_a_name_again_replaces_what_waits(world: World, dialect: str) -> None:
    # Facts, section 7, case 3: SUBMIT while pending -> new workload wins.
    client = world.peer(dialect)
    client.submit("f", "n", b"old", at=NOW_S + 60, count=1, timeout=5)
    client.submit("f", "n", b"new", count=2)
    client.submit("f", "m", b"other name")
    client.submit("g", "n", b"other function")
    worker = world.worker("f", dialect=dialect)
    job = worker.grab()
    assert (job.workload, job.count) == (b"new", 2)
    assert job.timeout == (600 if dialect == p.CRC else 0)
    assert (worker.grab().name, len(world.jobs())) == ("m", 3)


@BOTH
def test_a_submit_while_the_job_runs_is_kept_and_run_after_it(world: World, dialect: str) -> None:
    client, worker = world.peer(dialect), world.worker("f", dialect=dialect)
    client.submit("f", "n", b"old")
    old = worker.grab()
    client.submit("f", "n", b"new")
    client.submit("f", "n", b"newest")
    assert worker.try_grab() == []
    worker.done(old)
    (new,) = worker.assigned()
    assert new.workload == b"newest"
    worker.done(new)
    assert world.jobs() == []


def test_a_submit_in_a_run_survives_a_kill(client: Puppet, worker: Puppet, world: World) -> None:
    client.submit("f", "n", b"old")
    worker.grab()
    client.submit("f", "n", b"new")
    world.crash()
    worker = world.worker("f")
    assert worker.grab().workload == b"new"
    assert worker.try_grab() == []


def test_a_submit_while_the_job_runs_may_be_dropped_as_the_original_does() -> None:
    # Facts, section 7, case 3: SUBMIT while running -> SUCCESS and no second run.
    world = World(submit_while_running="drop")
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "n", b"old")
    job = worker.grab()
    client.submit("f", "n", b"new")
    worker.done(job)
    worker.heard()
    assert (worker.try_grab(), world.jobs()) == ([], [])


@BOTH
def test_a_job_waits_for_its_time(world: World, dialect: str) -> None:
    client, worker = world.peer(dialect), world.worker("f", dialect=dialect)
    client.submit("f", "n", at=NOW_S + 5)
    client.submit("f", "past", at=NOW_S - 1_000)
    worker.say(p.GRAB_JOB)
    (past,) = worker.try_grab()
    assert (past.name, past.sched_at) == ("past", NOW_S)
    world.pass_time(4_900)
    assert worker.assigned() == []
    world.pass_time(200)
    assert [(job.name, job.sched_at) for job in worker.assigned()] == [("n", NOW_S + 5)]


@pytest.mark.parametrize("at", [-1, -(1 << 63), (1 << 63) - 1, 253_402_300_800])
def test_any_moment_can_be_said(world: World, at: int) -> None:
    world.peer().submit("f", "n", at=at)
    assert world.job().state is (State.READY if at < 0 else State.WAITING)
    assert world.peer().status()["f"][1] == 1


@BOTH
def test_a_failed_job_is_run_again_a_second_later_each_time(world: World, dialect: str) -> None:
    client, worker = world.peer(dialect), world.worker("f", dialect=dialect)
    client.submit("f", "n", count=3)
    for _ in range(30):
        worker.fail(worker.grab())
        assert worker.try_grab() == []
        world.pass_time(900)
        assert worker.assigned() == []
        world.pass_time(200)
        (job,) = worker.assigned()
        assert job.count == 3
        worker.fail(job)
        world.pass_time(1_100)
    assert len(world.jobs()) == 1


@pytest.mark.parametrize(("timeout", "waits"), [(0, (900, 200)), (5, (4_900, 3_100))])
def test_a_job_whose_worker_vanished_or_took_too_long_is_run_again_a_second_later(
    world: World, client: Puppet, worker: Puppet, timeout: int, waits: tuple[int, int]
) -> None:
    other = world.worker("f")
    client.submit("f", "n", timeout=timeout)
    worker.grab()
    other.say(p.GRAB_JOB)
    if not timeout:
        worker.hang_up()
    world.pass_time(waits[0])
    assert other.assigned() == []
    world.pass_time(waits[1])
    (job,) = other.assigned()
    assert (job.name, job.timeout, worker.is_hung_up) == ("n", timeout or 600, timeout == 0)


def test_after_ten_unclean_ends_a_job_is_dead(world: World) -> None:
    world.peer().submit("f", "n")
    for _ in range(10):
        worker = world.worker("f")
        worker.grab()
        worker.hang_up()
        world.pass_time(1_100)
    assert world.job().state is State.DEAD


@pytest.mark.parametrize("dialect", ["doc", "text", "bin"])
def test_in_an_older_dialect_a_job_without_a_timeout_has_none(dialect: str) -> None:
    world = World(dialect=dialect)
    client, first, second = peers = [world.connect(BIN if dialect == "bin" else DOC) for _ in "123"]
    for peer in peers:
        peer.register(p.CLIENT if peer is client else p.WORKER).bytes_heard()
    job = packed("f", "n") if dialect == "bin" else b"f\0\1n"
    assert client.word(p.SUBMIT_JOB, job) == p.SUCCESS
    for worker in (first, second):
        worker.say(p.CAN_DO, worker.func("f"))
        worker.say(p.GRAB_JOB)
    assert first.words() == [p.JOB_ASSIGN]
    world.pass_time(7 * 24 * 3600 * 1000, step=3600 * 1000)
    second.say(p.GRAB_JOB)
    assert p.JOB_ASSIGN not in second.words(), "the first still runs it"
    first.hang_up()
    world.pass_time(1_100)
    second.say(p.GRAB_JOB)
    assert p.JOB_ASSIGN in second.words(), "the first is gone"


def test_in_todays_dialect_a_job_without_a_timeout_has_the_servers(world: World) -> None:
    first, second = world.worker("f"), world.worker("f")
    world.peer().submit("f", "n")
    assert first.grab().timeout == 600
    second.say(p.GRAB_JOB)
    for _ in range(6):
        world.pass_time(99_000, step=1_000)
        assert p.JOB_ASSIGN not in second.words()
        assert (first.word(p.PING), second.word(p.PING)) == (p.PONG, p.PONG)
    world.pass_time(9_000)
    assert p.JOB_ASSIGN in second.words()


def test_work_done_after_the_timeout_counts_while_nobody_else_has_the_job(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "n", timeout=1)
    job = worker.grab()
    world.pass_time(2_200)
    assert world.job().state is not State.LEASED
    worker.done(job)
    assert world.jobs() == []


def test_work_done_after_the_timeout_does_not_count_when_another_runs_the_job(world: World) -> None:
    client, worker, other = world.peer(), world.worker("f"), world.worker("f")
    client.submit("f", "n", timeout=1)
    job = worker.grab()
    world.pass_time(3_500)
    again = other.grab()
    for settle in (worker.done, worker.fail):
        settle(job)
    worker.later(job, 9)
    assert worker.words() == [p.SUCCESS] * 3
    assert world.jobs(State.LEASED)
    other.done(again)
    assert world.jobs() == []


def test_nobody_settles_what_another_holds(world: World) -> None:
    client, worker, thief = world.peer(), world.worker("f"), world.worker("f")
    client.submit("f", "n")
    job = worker.grab()
    thief.done(job)
    thief.fail(job)
    thief.later(job, 0)
    assert thief.words() == [p.SUCCESS] * 3
    assert not thief.acquire(job, "l")
    assert world.jobs(State.LEASED)
    thief.hang_up()
    assert world.jobs(State.LEASED)


@BOTH
def test_a_job_put_off_comes_again_with_its_counter_moved(world: World, dialect: str) -> None:
    client, worker = world.peer(dialect), world.worker("f", dialect=dialect)
    client.submit("f", "n", b"w", count=5, timeout=9)
    worker.later(worker.grab(), 3, 2)
    worker.say(p.GRAB_JOB)
    worker.heard()
    world.pass_time(2_900)
    assert worker.assigned() == []
    world.pass_time(200)
    (job,) = worker.assigned()
    assert (job.workload, job.count, job.timeout, job.sched_at) == (b"w", 7, 9, NOW_S + 3)
    worker.later(job, 0, -20)
    job = worker.grab()
    assert job.count == -13
    world.crash()
    worker = world.worker("f", dialect=dialect)
    assert worker.grab().count == -13


def test_a_delay_of_any_length_can_be_said(world: World, client: Puppet, worker: Puppet) -> None:
    for delay in ((1 << 63) - 1, -(1 << 63)):
        client.submit("f", "n")
        worker.later(worker.grab(), delay)
        assert len(world.jobs()) == 1
        worker.heard()


@BOTH
def test_remove_ends_a_job_wherever_it_is(dialect: str) -> None:
    world = World(limits=Limits(window_jobs=4, supply_jobs=2))
    client, worker = world.peer(dialect), world.worker("f", dialect=dialect)
    client.submit_many(9)
    client.submit("f", "later", at=NOW_S + 99)
    running = worker.grab()
    for name in ("n0", "n3", "n8", "later", "never"):
        args = str8("f") + str8(name)
        if dialect == DOC:
            args = b'{"func":"f","name":"%b"}' % name.encode()
        assert client.word(p.REMOVE_JOB, args) == p.SUCCESS
    assert {job.name for job in world.jobs()} == {f"n{n}" for n in (1, 2, 4, 5, 6, 7)}
    worker.done(running)
    assert len(world.jobs()) == 6


def test_names_of_any_bytes_are_kept_apart_and_come_back(world: World) -> None:
    client, worker = world.peer(), world.worker()
    names = [b"\xff\xfe", "ÿþ".encode(), "\ufffdÿþ".encode(), b"\0", b"\\xff\\xfe", b"n" * 255]
    worker.say(p.CAN_DO, str8(b"\xfef"))
    worker.heard()
    for name in names:
        job = str8(b"\xfef") + str8(name) + bytes(4) + bytes(8) + b"\0"
        assert client.word(p.SUBMIT_JOB, job) == p.SUCCESS
    assert len(world.jobs()) == len(names)
    for name in names:
        worker.say(p.GRAB_JOB)
        (message,) = [m for m in worker.heard() if m.command == p.JOB_ASSIGN]
        handle = str8(b"\xfef") + str8(name)
        assert message.data.startswith(handle)
        worker.say(p.WORK_DONE, handle)
    assert world.jobs() == []


def test_a_job_that_is_too_large_is_refused_and_the_connection_goes_on() -> None:
    world = World(limits=Limits(body_bytes_max=100))
    client = world.peer()
    assert client.offer("f", "n", b"x" * 101) == p.UNKNOWN
    client.submit("f", "n", b"x" * 100)


def test_a_full_disk_refuses_jobs_and_lets_running_ones_end(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "n")
    job = worker.grab()
    world.broker.refusing_new = True
    assert client.offer("f", "m") == p.UNKNOWN
    assert client.word(p.RUN_JOB, packed("f", "m")) == p.UNKNOWN
    worker.done(job)
    assert world.jobs() == []


def test_a_job_of_another_protocol_is_run_under_its_own_name(worker: Puppet, world: World) -> None:
    for name, body in (("same", b"1"), ("same", b"2"), ("", b"3"), ("x" * 300, b"4")):
        world.broker.submit(NewJob("f", "kind", body, Policy(lease_ms=60_000), name), world.now)
    jobs = [worker.grab() for _ in range(4)]
    assert [job.workload for job in jobs] == [b"1", b"2", b"3", b"4"]
    assert [job.name for job in jobs] == ["same", "#2", "#3", "#4"]
    assert {job.timeout for job in jobs} == {60}
    for job in jobs:
        worker.done(job)
    assert world.jobs() == []


def test_what_a_lost_worker_means_is_the_jobs_own_affair(world: World) -> None:
    first, second = world.worker("f"), world.worker("f")
    world.broker.submit(NewJob("f", "f", b"theirs", Policy(max_failures=0), "j1"), world.now)
    assert first.grab().workload == b"theirs"
    first.hang_up()
    assert second.grab().workload == b"theirs"


def test_a_faktory_job_shows_its_arguments(world: World) -> None:
    worker = world.worker("default")
    body = b'{"jid":"j1","args":[1,"two"]}'
    world.broker.submit(
        NewJob("default", "kind", body, Policy(), "j1", media="json-job"), world.now
    )
    assert worker.grab().workload == b'[1,"two"]'


def test_a_later_step_changes_nothing_of_a_strangers_job(world: World, worker: Puppet) -> None:
    new = NewJob("f", "f", b"", Policy(), "j1", extra=b"theirs")
    world.broker.submit(new, world.now)
    worker.later(worker.grab(), 0, 5)
    assert world.job().extra == b"theirs"
    assert worker.grab().count == 0


def test_a_reply_in_the_old_way_of_a_counter_is_read(client: Puppet, worker: Puppet) -> None:
    """The step is signed in sixteen bits."""
    client.submit("f", "n", count=1)
    job = worker.grab()
    worker.say(p.SCHED_LATER, job.handle + struct.pack(">qH", 0, 0xFFFF))
    assert worker.grab().count == 0


@BOTH
def test_a_job_is_given_only_once_the_disk_knows_who_has_it(world: World, dialect: str) -> None:
    world.peer().submit("f", "n")
    worker = world.worker("f", dialect=dialect)
    worker.waited_for_commit = False
    job = worker.grab()
    assert worker.waited_for_commit
    worker.waited_for_commit = False
    worker.done(job)
    worker.say(p.PING)
    assert worker.words() == ([p.SUCCESS, p.PONG] if dialect == CRC else [p.PONG])
    assert worker.waited_for_commit is (dialect == CRC)


def test_a_name_does_not_meet_the_key_of_another_protocol(world: World) -> None:
    world.broker.submit(NewJob("f", "f", b"theirs", Policy(), "h", key="n"), world.now)
    world.peer().submit("f", "n", b"ours")
    assert sorted(job.body for job in world.jobs()) == [b"ours", b"theirs"]


def test_a_worker_that_vanishes_does_not_fail_a_job_whose_protocol_would_not(world: World) -> None:
    """What follows from a lost worker is the job's own policy, not the worker's protocol's."""
    world.broker.submit(NewJob("f", "f", b"", Policy(max_failures=0, max_losses=3), "h"), world.now)
    worker = world.worker("f")
    worker.grab()
    worker.hang_up()
    (job,) = world.jobs()
    assert (job.state, job.failures, job.losses) == (State.READY, 0, 1)
