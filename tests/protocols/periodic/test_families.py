"""Every family of workers lives with the same server: none runs hot, dies or takes it for broken."""

from __future__ import annotations

import pytest

from franca.core.model import State
from tests.protocols.periodic.families import MODERN, Family, OlderNode, OldNode, live
from tests.protocols.periodic.puppet import World
from tests.support import periodic as p
from tests.support.periodic import Assigned

EACH = pytest.mark.parametrize("family", MODERN)


@EACH
def test_a_worker_runs_what_it_is_given(family: type[Family]) -> None:
    world = World()
    worker = family(world, "f")
    live(world, 2_000, worker)
    client = world.client()
    for number in range(20):
        client.submit("f", f"n{number}", b"w")
    live(world, 5_000, worker)
    assert sorted(job.name for job in worker.ran) == sorted(f"n{n}" for n in range(20))
    assert not worker.dead
    assert world.jobs() == []


@EACH
def test_an_idle_worker_is_neither_hot_nor_dead_after_ten_minutes(family: type[Family]) -> None:
    world = World()
    worker = family(world, "f")
    live(world, 600_000, worker, step=250)
    assert not worker.dead
    assert worker.grabs <= 2 * 600 * 1.3, "about one a second for each slot, at most"
    world.client().submit("f", "n")
    live(world, 2_000, worker)
    assert [job.name for job in worker.ran] == ["n"]


@EACH
def test_a_busy_worker_does_not_run_hot_either(family: type[Family]) -> None:
    world = World()
    worker = family(world, "f", 1)
    client = world.client()
    for number in range(100):
        client.submit("f", f"n{number}")
        live(world, 100, worker)
    assert len(worker.ran) == 100
    assert worker.sent < 1_000
    assert not worker.dead


@EACH
def test_a_worker_that_fails_and_puts_off(family: type[Family]) -> None:
    def work(worker: Family, job: Assigned) -> None:
        tries = [j.name for j in worker.ran].count(job.name)
        if tries == 1:
            worker.say(p.WORK_FAIL, job.handle)
        elif tries == 2:
            worker.later(job, 1, 1)
        else:
            worker.say(p.WORK_DONE, job.handle)

    world = World()
    worker = family(world, "f", 2, work)
    world.client().submit("f", "n")
    live(world, 15_000, worker)
    assert [job.count for job in worker.ran] == [0, 0, 1]
    assert not worker.dead
    assert world.jobs() == []


def test_all_of_them_share_one_function() -> None:
    world = World()
    workers = [family(world, "f") for family in MODERN]
    live(world, 3_000, *workers)
    client = world.client()
    for number in range(100):
        client.submit("f", f"n{number}")
    live(world, 5_000, *workers)
    assert sum(len(worker.ran) for worker in workers) == 100
    assert all(worker.ran for worker in workers)
    assert [worker.dead for worker in workers] == [""] * len(workers)


def test_an_old_node_worker_needs_old_confirmation() -> None:
    for confirm, dies in (("modern", True), ("old", False)):
        world = World(confirm=confirm)
        worker = OldNode(world, "f")
        live(world, 5_000, worker)
        world.client().submit("f", "n")
        live(world, 5_000, worker)
        assert bool(worker.dead) is dies, worker.dead
    assert [job.name for job in worker.ran] == ["n"]


def test_a_node_worker_that_begins_with_a_function_lives_without_confirmations() -> None:
    world = World()
    worker = OlderNode(world, "f")
    world.client().submit("f", "n")
    live(world, 5_000, worker)
    assert not worker.dead
    assert [job.name for job in worker.ran] == ["n"]


def test_a_worker_that_waits_for_its_confirmation_has_it_whatever_its_id_looks_like() -> None:
    world = World()
    worker = world.connect().register(p.WORKER)
    worker.say(p.CAN_DO, p.str8("f"), b"abcd")
    world.pass_time(900)
    assert worker.heard() == []
    world.pass_time(200)
    assert [(m.msgid, m.command) for m in worker.heard()] == [(b"abcd", p.SUCCESS)]
    assert worker.word(p.CANT_DO, p.str8("f")) == p.SUCCESS


@EACH
def test_what_a_worker_that_vanishes_held_goes_to_another(family: type[Family]) -> None:
    def hang(worker: Family, job: Assigned) -> None:
        """Never be done."""

    world = World()
    worker = family(world, "f", 1, hang)
    world.client().submit("f", "n")
    live(world, 1_000, worker)
    assert world.jobs(State.LEASED)
    worker.peer.hang_up()
    other = family(world, "f", 1)
    live(world, 12_000, other)
    assert [job.name for job in other.ran] == ["n"]
