"""MUTATE beside others: what one turn does of it, and what all of them may take."""

from __future__ import annotations

import time

import pytest

from franca.core.model import State
from franca.protocols.faktory.glob import Glob, Share
from tests.protocols.faktory.client import encode_mutate
from tests.protocols.faktory.puppet import OK, Puppet, World, job
from tests.protocols.faktory.test_mutate import EVERYTHING, LATER, populated, sets


def with_large_jobs(count: int = 1, size: int = 500_000) -> tuple[World, Puppet]:
    world = World()
    client = world.client()
    for number in range(count):
        client.push(f"large-000{number}", "a" * size, at=LATER)
    return world, client


def longest_pass(world: World, client: Puppet, line: bytes) -> float:
    """The seconds of processor time of the longest turn or answer of the store."""
    world.engine.received(client.link, line)
    longest = 0.0
    while not client.link.out:
        began = time.thread_time()
        world.engine.turn(world.now)
        longest = max(longest, time.thread_time() - began)
        wants = world.broker.take_wants()
        found = world.store.write(world.broker.drain(), wants)
        began = time.thread_time()
        for want, jobs in zip(wants, found, strict=True):
            world.engine.supplied(want, jobs, world.now)
        longest = max(longest, time.thread_time() - began)
    world.run()
    return longest


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
    for _ in range(4):
        # A busy machine may count a pause of its own as ours, but not each time.
        world, client = with_large_jobs()
        line = encode_mutate("discard", "scheduled", regexp=pattern)
        longest = longest_pass(world, client, line)
        assert client.take() == OK
        assert len(world.jobs()) == (0 if is_meant else 1)
        if longest < 0.1:
            return
    raise AssertionError(f"{longest} s")


def test_a_large_mutation_is_read_in_turns() -> None:
    jid = b"\\ud800" * 80_000
    line = b'MUTATE {"cmd":"kill","target":"dead","filter":{"jids":["%b"]}}\r\n' % jid
    world, client = with_large_jobs(0)
    assert any(longest_pass(world, client, line) < 0.1 for _ in range(4))


def paused_in_search(monkeypatch: pytest.MonkeyPatch) -> tuple[World, Puppet, Puppet]:
    """A large job is being searched for the first of two clients."""
    monkeypatch.setattr("franca.protocols.faktory.mutations.SHARE", 100_000)
    world, client = with_large_jobs()
    other = world.client()
    world.engine.received(client.link, encode_mutate("kill", "scheduled", regexp="*a?]*"))
    world.engine.turn(world.now)
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
    assert (client.take(), [job.state for job in world.jobs()]) == (OK, [State.READY])


def test_a_search_goes_on_when_its_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client, _ = paused_in_search(monkeypatch)
    client.hang_up()
    assert [job.state for job in world.jobs()] == [State.DEAD]


def test_nobody_without_a_pattern_waits_for_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client, other = paused_in_search(monkeypatch)
    world.engine.received(other.link, encode_mutate("clear", "dead"))
    world.engine.turn(world.now)
    for _ in range(4):
        supply(world)
    assert (other.link.out, client.link.out) == ([b"+OK\r\n"], [])


@pytest.mark.parametrize("chosen", [{"regexp": "*"}, {"jobtype": "type"}, {}])
def test_those_who_search_a_set_take_turns_by_page(world: World, chosen: dict[str, str]) -> None:
    clients = [world.client() for _ in range(20)]
    clients[0].push_many(job(f"jid-{i:05}", i, at=LATER) for i in range(1_000))
    for client in clients:
        world.engine.received(client.link, encode_mutate("kill", "scheduled", **chosen))
    world.engine.turn(world.now)
    while not any(client.link.out for client in clients):
        assert len(world.broker.wants) == 1
        supply(world)
    world.run()
    assert [client.take() for client in clients] == [OK] * 20
    assert {job.state for job in world.jobs()} == {State.DEAD}


def gone_walkers(count: int) -> tuple[World, list[Puppet]]:
    """Many have asked for a whole set to be gone through, and hung up at once; a dozen are there.

    They came before: nobody comes without everything being done that can be.
    """
    world = World()
    clients = [world.client() for _ in range(12)]
    clients[0].push_many(job(f"jid-{i:05}", i, at=LATER) for i in range(1_000))
    for gone in [world.client() for _ in range(count)]:
        world.engine.received(gone.link, encode_mutate("kill", "scheduled", jobtype="nope"))
        world.engine.turn(world.now)
        world.engine.close_link(gone.link, world.now, undelivered=True)
        world.engine.turn(world.now)
        assert gone.link.closed
    return world, clients


def pages_until_told(world: World, client: Puppet, line: bytes) -> int:
    """How many pages are brought before a mutation is done."""
    world.engine.received(client.link, line)
    world.engine.turn(world.now)
    pages = 0
    while not client.link.out:
        pages += len(world.broker.wants)
        supply(world)
    return pages


def test_who_names_jobs_does_not_wait_for_those_who_go_through_a_set() -> None:
    world, (client, *_) = gone_walkers(50)
    line = encode_mutate("kill", "scheduled", jids=["jid-00007"])
    assert pages_until_told(world, client, line) <= 10
    world.run()
    assert (client.take(), [job.name for job in world.jobs(State.DEAD)]) == (OK, ["jid-00007"])


def test_who_is_there_goes_through_a_set_before_those_who_are_gone() -> None:
    world, (client, *_) = gone_walkers(50)
    assert pages_until_told(world, client, encode_mutate("kill", "scheduled", jobtype="type")) <= 10
    world.run()
    assert (client.take(), len(world.jobs(State.DEAD))) == (OK, 1_000)


def test_those_who_are_gone_make_room_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.faktory.mutations.WAITING_BYTES_MAX", 20_000)
    world, (client, *others) = gone_walkers(10)
    world.engine.received(client.link, encode_mutate("kill", "scheduled", jobtype="type"))
    for other in others:
        world.engine.received(other.link, encode_mutate("clear", "dead"))
    world.run()
    assert client.take() == OK
    replies = [other.take() for other in others]
    assert replies.count(OK) == 8
    assert client.ask(encode_mutate("clear", "dead")) == OK


def test_jobs_of_a_page_that_take_long_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.faktory.mutations.SHARE", 4_000_000)
    world, client = with_large_jobs(9)
    assert client.ask(encode_mutate("discard", "scheduled", regexp="*b")) == OK
    assert len(world.jobs()) == 9
    assert (
        client.ask(encode_mutate("discard", "scheduled", regexp='{*"jid":"large-000[^3]"*')) == OK
    )
    assert [job.name for job in world.jobs()] == ["large-0003"]


def test_what_all_mutations_take_together_is_bounded() -> None:
    world, _ = populated()
    clients = [world.client() for _ in range(8)]
    jids = [f"{i:017}" for i in range(9_900)]
    for client in clients:
        world.engine.received(client.link, encode_mutate("discard", "dead", jids=jids))
    for _ in range(10):
        world.engine.turn(world.now)
    refused = [client for client in clients if client.link.out]
    assert len(refused) == 1
    world.run()
    replies = [client.take() for client in clients]
    assert replies.count(OK) == 7
    assert refused[0].line("TRACK x").kind == "-"
    assert refused[0].ask(encode_mutate("discard", "dead", jids=jids[:9_900])) == OK


def test_a_mutation_names_only_so_many_jobs() -> None:
    world, client = populated()
    jids = ["dead-00001", *map(str, range(10_000))]
    assert client.ask(encode_mutate("discard", "dead", jids=jids)).kind == "-"
    assert client.ask(encode_mutate("discard", "dead", jids=["x" * 600_000])).kind == "-"
    assert sets(world) == EVERYTHING
    assert client.ask(encode_mutate("discard", "dead", jids=jids[:10_000])) == OK
    assert sets(world)["dead"] == ["dead-00002"]


def test_a_pattern_has_only_so_many_classes() -> None:
    world, client = populated()
    classes = "".join(f"[^{chr(0x100 + i)}]" for i in range(65))
    assert client.ask(encode_mutate("discard", "dead", regexp=classes)).kind == "-"
    assert sets(world) == EVERYTHING


def test_the_cost_of_a_pattern_grows_with_the_text_alone() -> None:
    for glob in (b"*" + b"a" * 4_000, b"*" + b"a" * 4_000 + b"b*", b"*" + b"?a" * 2_000 + b"b*"):
        share = Share(1 << 40)
        steps = Glob(glob).match(b"a" * (8 << 20), share)
        with pytest.raises(StopIteration):
            next(steps)
        assert (1 << 40) - share.left < 200 * (8 << 20)
