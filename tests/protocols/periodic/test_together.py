"""Several workers on one job or one resource: BROADCAST and locks."""

import pytest

from franca.core.model import State
from franca.protocols.periodic import runs
from tests.protocols.periodic.puppet import Puppet, World
from tests.support import periodic as p
from tests.support.periodic import packed, str8

# -- broadcast ----------------------------------------------------------------------------------------


def test_every_worker_that_asked_has_the_job_and_the_first_to_be_done_ends_it(world: World) -> None:
    one, two, three = (world.broadcaster() for _ in range(3))
    idle = world.worker()
    idle.say(p.BROADCAST, str8("f"))
    idle.heard()
    world.peer().submit("f", "n", b"w")
    jobs = [worker.assigned()[0] for worker in (one, two, three)]
    assert {job.workload for job in jobs} == {b"w"}
    assert idle.heard() == [], "it has not asked"
    two.done(jobs[1])
    assert world.jobs() == []
    for worker, job in ((one, jobs[0]), (three, jobs[2])):
        worker.done(job)
        assert worker.words() == [p.SUCCESS]


def test_a_grab_is_used_up_by_a_job_for_all(world: World) -> None:
    one, two, client = world.broadcaster(), world.broadcaster(), world.peer()
    client.submit("f", "n")
    assert [len(w.assigned()) for w in (one, two)] == [1, 1]
    client.submit("f", "m")
    assert [w.assigned() for w in (one, two)] == [[], []]
    assert world.jobs(State.READY)
    assert [job.name for job in two.try_grab()] == ["m"]


def test_who_waits_for_a_job_for_all_hears_the_first_result(world: World) -> None:
    one, two, client = world.broadcaster(), world.broadcaster(), world.peer()
    client.run_job("f", "n")
    jobs = [w.assigned()[0] for w in (one, two)]
    two.done(jobs[1], b"two")
    one.done(jobs[0], b"one")
    assert [m.data for m in client.heard()] == [b"two"]


def test_only_the_holder_of_a_job_for_all_can_fail_it_or_put_it_off(world: World) -> None:
    one, two = world.broadcaster(), world.broadcaster()
    world.peer().submit("f", "n")
    jobs = [w.assigned()[0] for w in (one, two)]
    two.fail(jobs[1])
    assert world.jobs(State.LEASED)
    two.hang_up()
    assert world.jobs(State.LEASED)
    one.fail(jobs[0])
    assert world.jobs(State.WAITING)


def test_a_word_about_an_earlier_broadcast_changes_nothing(world: World) -> None:
    one, two = world.broadcaster(), world.broadcaster()
    world.peer().submit("f", "n")
    jobs = [w.assigned()[0] for w in (one, two)]
    one.fail(jobs[0])
    one.heard()
    world.pass_time(1_100)
    assert one.try_grab()
    two.done(jobs[1])
    assert world.jobs(State.LEASED), "its run was over"


def test_a_late_word_about_an_earlier_broadcast_changes_nothing_either(world: World) -> None:
    one, two = world.broadcaster(), world.broadcaster()
    world.peer().submit("f", "n", timeout=1)
    one.assigned()
    (job,) = two.assigned()
    for _ in range(2):
        world.pass_time(2_000)
        assert not world.jobs(State.LEASED)
        world.pass_time(1_000)
        one.say(p.GRAB_JOB)
    one.heard()
    world.pass_time(2_000)
    two.done(job)
    assert len(world.jobs()) == 1


def test_ordinary_workers_of_the_function_have_a_job_alone(world: World, worker: Puppet) -> None:
    worker.say(p.GRAB_JOB)
    worker.heard()
    cast = world.broadcaster()
    world.peer().submit("f", "n")
    assert [len(w.assigned()) for w in (worker, cast)] == [1, 0]


def test_nothing_is_left_of_workers_that_are_gone(world: World) -> None:
    one, two = world.broadcaster(), world.broadcaster()
    one.hang_up()
    two.say(p.CANT_DO, str8("f"))
    assert not world.service.broadcasts
    world.peer().submit("f", "n")
    assert world.jobs(State.READY)


def test_runs_that_are_over_are_not_remembered_without_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RUNS_MAX", 100)
    one, two, client = world.broadcaster(), world.broadcaster(), world.peer()
    for number in range(220):
        client.send(client.message(p.SUBMIT_JOB, packed("f", f"n{number}"), b"subm"))
        (job,) = one.assigned()
        one.done(job)
        for worker in (one, two):
            worker.say(p.GRAB_JOB, msgid=b"slot")
            worker.heard()
    client.heard()
    assert len(two.conversation.worker.runs.held) <= 101


# -- locks --------------------------------------------------------------------------------------------


def test_a_lock_is_open_to_as_many_as_its_count_and_the_rest_come_again(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.submit_many(4)
    jobs = [worker.grab() for _ in range(4)]
    assert [worker.acquire(job, "l", 2) for job in jobs] == [True, True, False, False]
    assert client.status()["f"][1:4] == [4, 2, 2], "jobs, running, locked"
    assert worker.try_grab() == []
    worker.done(jobs[0])
    (third,) = worker.assigned()
    assert third.name == "n2"
    assert worker.acquire(third, "l", 2)
    assert client.status()["f"][1:4] == [3, 2, 1]


def test_a_lock_is_let_go_when_its_run_is_over_however_it_ends() -> None:
    for how in ("done", "fail", "later", "release", "vanish"):
        world = World()
        client, holder, worker = world.peer(), world.worker("f"), world.worker("f")
        client.submit("f", "a")
        client.submit("f", "b")
        first, second = holder.grab(), worker.grab()
        assert (holder.acquire(first, "l"), worker.acquire(second, "l")) == (True, False)
        worker.say(p.GRAB_JOB)
        worker.heard()
        match how:
            case "done":
                holder.done(first)
            case "fail":
                holder.fail(first)
            case "later":
                holder.later(first, 100)
            case "release":
                assert holder.word(p.RELEASE, str8("l") + first.handle) == p.SUCCESS
            case _:
                holder.hang_up()
        (again,) = worker.assigned()
        assert again.name == "b", how
        assert worker.acquire(again, "l"), how


def test_a_job_that_was_locked_out_is_nobodys_until_it_is_given_again(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "a")
    client.submit("f", "b")
    first, second = worker.grab(), worker.grab()
    assert (worker.acquire(first, "l"), worker.acquire(second, "l")) == (True, False)
    worker.done(second)
    assert (worker.words(), {job.name for job in world.jobs()}) == ([p.SUCCESS], {"a", "b"})


def test_who_waits_for_a_job_that_was_locked_out_goes_on_waiting(world: World) -> None:
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "a")
    first = worker.grab()
    assert worker.acquire(first, "l")
    msgid = client.run_job("f", "b")
    second = worker.grab()
    assert not worker.acquire(second, "l")
    worker.done(first)
    worker.heard()
    worker.done(worker.grab(), b"r")
    assert [(m.msgid, m.data) for m in client.heard()] == [(msgid, b"r")]


def test_locked_jobs_are_pending_after_a_kill(world: World, client: Puppet, worker: Puppet) -> None:
    client.submit("f", "a")
    client.submit("f", "b")
    first, second = worker.grab(), worker.grab()
    assert (worker.acquire(first, "l"), worker.acquire(second, "l")) == (True, False)
    world.crash()
    world.pass_time(61_000)
    worker = world.worker("f")
    assert {worker.grab().name, worker.grab().name} == {"a", "b"}


def test_a_submit_over_a_locked_job_replaces_it(client: Puppet, worker: Puppet) -> None:
    client.submit("f", "a")
    client.submit("f", "b", b"old")
    first, second = worker.grab(), worker.grab()
    assert (worker.acquire(first, "l"), worker.acquire(second, "l")) == (True, False)
    client.submit("f", "b", b"new")
    assert worker.grab().workload == b"new"
