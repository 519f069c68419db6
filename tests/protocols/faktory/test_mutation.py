"""MUTATE beside others: what one turn does of it, and what all of them may take."""

import pytest

from franca.core.model import State
from franca.protocols.faktory.glob import Glob, Share
from tests.protocols.faktory.puppet import OK, Puppet, World
from tests.protocols.faktory.test_mutate import LATER, populated, sets
from tests.support.faktory import job, mutate_line


def with_large_jobs(count: int = 1, size: int = 500_000) -> tuple[World, Puppet]:
    world = World()
    client = world.peer()
    for number in range(count):
        client.push(f"large-000{number}", "a" * size, at=LATER)
    return world, client


@pytest.mark.parametrize(
    ("pattern", "is_meant"),
    [
        ("*" + "a" * 4_000, False),
        ("*" + "a" * 4_000 + '"*', True),
        ("*" + "?a" * 2_000 + "b*", False),
        ("*" + "?a" * 2_000 + '"*', True),
        ("*[!-~]" * 680, True),
        ("*" + "[!-~]" * 800 + "\\[*", False),
        ("*a" * 2_000 + "*b", False),
    ],
)
def test_a_large_job_is_searched_in_turns(pattern: str, is_meant: bool) -> None:
    # A busy machine may count a pause of its own as ours, but not each time.
    for _ in range(4):
        world, client = with_large_jobs()
        longest = client.longest_turn(mutate_line("discard", "scheduled", regexp=pattern))
        assert (client.cut(), len(world.jobs())) == (OK, 0 if is_meant else 1)
        if longest < 0.1:
            return
    raise AssertionError(f"{longest} s")


def test_a_large_mutation_is_read_in_turns(client: Puppet) -> None:
    line = mutate_line("kill", "dead", jids=["\ud800" * 80_000])
    assert any(client.longest_turn(line) < 0.1 for _ in range(4))


def paused_in_search(monkeypatch: pytest.MonkeyPatch) -> tuple[World, Puppet, Puppet]:
    """A large job is being searched for the first of two clients."""
    monkeypatch.setattr("franca.protocols.faktory.mutations.SHARE", 100_000)
    world, client = with_large_jobs()
    other = world.peer()
    client.begin(mutate_line("kill", "scheduled", regexp="*a?]*"))
    supply(world)
    assert not client.link.out
    return world, client, other


def supply(world: World) -> None:
    """Bring what was asked for so far."""
    wants = world.broker.take_wants()
    found = world.store.write(world.broker.drain(), wants)
    for want, jobs in zip(wants, found, strict=True):
        world.engine.supplied(want, jobs, world.now)


def test_a_job_that_changed_during_a_search_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client, _ = paused_in_search(monkeypatch)
    (found,) = world.jobs()
    live = world.broker.jobs[found.id]
    world.broker.retry(live, world.now)
    world.run()
    assert (client.cut(), [job.state for job in world.jobs()]) == (OK, [State.READY])


def test_a_search_goes_on_when_its_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client, _ = paused_in_search(monkeypatch)
    client.hang_up()
    assert [job.state for job in world.jobs()] == [State.DEAD]


def test_nobody_without_a_pattern_waits_for_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client, other = paused_in_search(monkeypatch)
    other.begin(mutate_line("clear", "dead"))
    for _ in range(4):
        supply(world)
    assert (other.link.out, client.link.out) == ([b"+OK\r\n"], [])


@pytest.mark.parametrize("chosen", [{"regexp": "*"}, {"jobtype": "prove"}, {}])
def test_those_who_search_a_set_take_turns_by_page(world: World, chosen: dict[str, str]) -> None:
    clients = [world.peer() for _ in range(20)]
    clients[0].push_many(job(f"jid-{i:05}", i, at=LATER) for i in range(1_000))
    for client in clients:
        client.begin(mutate_line("kill", "scheduled", **chosen), turns=0)
    client.begin()
    while not any(client.link.out for client in clients):
        assert len(world.broker.wants) == 1
        supply(world)
    world.run()
    assert [client.cut() for client in clients] == [OK] * 20
    assert {job.state for job in world.jobs()} == {State.DEAD}


def gone_walkers(count: int) -> tuple[World, list[Puppet]]:
    """Many have asked for a whole set to be gone through, and hung up at once; a dozen are there.

    They came before: nobody comes without everything being done that can be.
    """
    world = World()
    clients = [world.peer() for _ in range(12)]
    clients[0].push_many(job(f"jid-{i:05}", i, at=LATER) for i in range(1_000))
    for gone in [world.peer() for _ in range(count)]:
        gone.begin(mutate_line("kill", "scheduled", jobtype="nope"))
        world.engine.close_link(gone.link, world.now, undelivered=True)
        world.engine.turn(world.now)
        assert gone.link.closed
    return world, clients


@pytest.mark.parametrize(
    ("chosen", "killed"), [({"jids": ["jid-00007"]}, 1), ({"jobtype": "prove"}, 1_000)]
)
def test_who_is_there_does_not_wait_for_those_who_are_gone(
    chosen: dict[str, object], killed: int
) -> None:
    world, (client, *_) = gone_walkers(50)
    client.begin(mutate_line("kill", "scheduled", **chosen))
    pages = 0
    while not client.link.out:
        pages += len(world.broker.wants)
        supply(world)
    assert pages <= 10
    world.run()
    dead = [job.name for job in world.jobs(State.DEAD)]
    assert (client.cut(), len(dead), "jid-00007" in dead) == (OK, killed, True)


def test_those_who_are_gone_make_room_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.faktory.mutations.WAITING_BYTES_MAX", 20_000)
    world, (client, *others) = gone_walkers(10)
    client.begin(mutate_line("kill", "scheduled", jobtype="prove"), turns=0)
    for other in others:
        other.begin(mutate_line("clear", "dead"), turns=0)
    world.run()
    assert client.cut() == OK
    assert [other.cut() for other in others].count(OK) == 8
    assert client.call(mutate_line("clear", "dead")) == OK


def test_jobs_of_a_page_that_take_long_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.faktory.mutations.SHARE", 4_000_000)
    world, client = with_large_jobs(9)
    assert client.call(mutate_line("discard", "scheduled", regexp="*b")) == OK
    assert len(world.jobs()) == 9
    others = '{*"jid":"large-000[^3]"*'
    assert client.call(mutate_line("discard", "scheduled", regexp=others)) == OK
    assert [job.name for job in world.jobs()] == ["large-0003"]


def test_what_all_mutations_take_together_is_bounded() -> None:
    world, _ = populated()
    clients = [world.peer() for _ in range(8)]
    jids = [f"{i:017}" for i in range(9_900)]
    for client in clients:
        client.begin(mutate_line("discard", "dead", jids=jids), turns=0)
    client.begin(turns=10)
    refused = [client for client in clients if client.link.out]
    assert len(refused) == 1
    world.run()
    assert [client.cut() for client in clients].count(OK) == 7
    assert refused[0].call("TRACK x").kind == "-"
    assert refused[0].call(mutate_line("discard", "dead", jids=jids[:9_900])) == OK


def test_a_mutation_may_name_ten_thousand_jobs() -> None:
    world, client = populated()
    jids = ["dead-00001", *map(str, range(9_999))]
    assert client.call(mutate_line("discard", "dead", jids=jids)) == OK
    assert sets(world)["dead"] == ["dead-00002"]


def test_the_cost_of_a_pattern_grows_with_the_text_alone() -> None:
    size = 1 << 20
    for glob in (b"*" + b"a" * 4_000, b"*" + b"a" * 4_000 + b"b*", b"*" + b"?a" * 2_000 + b"b*"):
        share = Share(1 << 40)
        with pytest.raises(StopIteration):
            next(Glob(glob).match(b"a" * size, share))
        assert (1 << 40) - share.left < 200 * size
