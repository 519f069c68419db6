"""What is done to many jobs at once: functions are dropped, everything is dumped and loaded again."""

import struct

import pytest

from franca.core.limits import Limits
from franca.core.model import NewJob, Policy, State
from tests.protocols.periodic.puppet import NOW_S, Puppet, World
from tests.support import periodic as p
from tests.support.periodic import listed, packed, str8

SMALL = Limits(window_jobs=4, supply_jobs=2)


# -- drop -----------------------------------------------------------------------------------------


def test_a_dropped_function_loses_its_jobs_wherever_they_lie() -> None:
    world = World(limits=SMALL)
    client = world.peer()
    for number in range(30):
        client.submit("f", f"n{number}")
        client.submit("f", f"l{number}", at=NOW_S + 99)
        client.submit("kept", f"n{number}")
    client.drop("f")
    assert {job.queue for job in world.jobs()} == {"kept"}
    assert set(client.status()) == {"kept"}
    world.crash()
    assert set(world.peer().status()) == {"kept"}


def test_a_function_that_runs_is_not_dropped(client: Puppet, worker: Puppet, world: World) -> None:
    client.submit("f", "n")
    client.drop("f")
    worker.grab()
    worker.say(p.CANT_DO, str8("f"))
    client.submit("f", "m")
    assert (client.word(p.DROP_FUNC, str8("f")), len(world.jobs())) == (p.SUCCESS, 2)


def test_what_is_submitted_behind_a_drop_is_kept(world: World, client: Puppet) -> None:
    client.submit("f", "old")
    drop = client.message(p.DROP_FUNC, str8("f"), b"drop")
    submits = client.message(p.SUBMIT_JOB, packed("f", "new"), b"new1")
    submits += client.message(p.SUBMIT_JOB, packed("f", "later", at=NOW_S + 9), b"new2")
    client.send(drop + submits)
    assert [(m.msgid, m.command) for m in client.heard()] == [
        (b"drop", p.SUCCESS), (b"new1", p.SUCCESS), (b"new2", p.SUCCESS),
    ]  # fmt: skip
    assert sorted(job.name for job in world.jobs()) == ["later", "new"]


def test_what_others_submit_while_a_drop_is_under_way_is_kept() -> None:
    world = World(limits=SMALL)
    client, other = world.peer(), world.peer()
    client.submit_many(9)
    world.turn((client, client.message(p.DROP_FUNC, str8("f"), b"drop")))
    job = packed("f", "new", at=NOW_S + 9)
    world.engine.inputs.append((other.link, other.message(p.SUBMIT_JOB, job, b"subm")))
    world.run()
    assert (client.words(), [job.name for job in world.jobs()]) == ([p.SUCCESS], ["new"])


# -- dump and load --------------------------------------------------------------------------------


def test_a_dump_is_what_a_load_takes() -> None:
    world = World(limits=SMALL)
    client, worker = world.peer(), world.worker("f")
    jobs = [packed("f", f"n{n:02}", b"w%d" % n, at=NOW_S + 9 + n, count=n) for n in range(20)]
    for job in jobs:
        client.word(p.SUBMIT_JOB, job)
    client.submit("f", "runs", b"x", timeout=77)
    worker.grab()
    world.broker.submit(NewJob("strangers", "k", b"", Policy()), world.now)
    everything = client.dump()
    assert everything == [*jobs, packed("f", "runs", b"x", timeout=77)]

    other = World()
    other.peer().load(everything)
    assert (other.peer().dump(), other.jobs(State.LEASED)) == (everything, [])


def test_a_large_load_takes_many_turns_and_is_answered_once(client: Puppet, world: World) -> None:
    jobs = [packed("f", f"n{n}") for n in range(2_300)]
    load = client.message(p.LOAD, listed(jobs), b"load")
    world.turn((client, load + client.message(p.PING, b"", b"ping")))
    assert world.peer().status()["f"][1] >= 500
    world.run()
    assert [(m.msgid, m.command) for m in client.heard()] == [
        (b"load", p.SUCCESS), (b"ping", p.PONG),
    ]  # fmt: skip
    assert len(world.jobs()) == 2_300


@pytest.mark.parametrize("count", [3, -1, 1 << 62])
def test_a_load_cut_short_keeps_what_was_whole(world: World, client: Puppet, count: int) -> None:
    jobs = (
        struct.pack(">q", count) + packed("f", "a") + packed("f", "b") + b"\x01f\x01c" + bytes(11)
    )
    assert client.word(p.LOAD, jobs) == p.UNKNOWN
    assert len(world.jobs()) == (2 if count == 3 else 0)
    assert client.word(p.PING) == p.PONG


def test_a_dump_that_fits_into_no_frame_is_refused() -> None:
    world = World(limits=Limits(frame_bytes_max=20_000, body_bytes_max=20_000))
    client = world.peer()
    client.submit_many(5, b"x" * 5_000)
    assert client.word(p.DUMP) == p.UNKNOWN
    client.remove("f", "n0")
    client.remove("f", "n1")
    assert len(client.dump()) == 3


def test_who_leaves_during_a_drop_or_a_dump_harms_nobody() -> None:
    for command, args in ((p.DUMP, b""), (p.DROP_FUNC, str8("f"))):
        world = World(limits=SMALL)
        client = world.peer()
        client.submit_many(9)
        world.turn((client, client.message(command, args, b"long")))
        client.hang_up()
        world.run()
        assert world.peer().word(p.PING) == p.PONG
