"""Whatever a peer sends: nothing is raised, nobody else is disturbed, memory stays bounded."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from franca.protocols.memodb import sp
from tests.protocols.memodb.puppet import Puppet, World
from tests.support import memodb as m
from tests.support.memodb import stack
from tests.support.memory import traced

MIB = 1024 * 1024


def still_served(world: World) -> bool:
    """Whether others are served as if nothing had been."""
    client, worker = world.peer(), world.worker("check")
    client.job(b"ping", "check")
    worker.result(worker.given(), b"pong")
    served = client.answer().payload == b"pong"
    client.hang_up()
    worker.hang_up()
    return served


@settings(deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_after_the_handshake(data: bytes, unix: bool) -> None:
    world = World()
    peer = world.peer(unix=unix)
    peer.send(data)
    peer.heard()
    assert still_served(world)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=20), st.integers(1, 9))
def test_random_bodies_in_proper_frames(bodies: list[bytes], cut: int) -> None:
    world = World()
    peer = world.peer()
    raw = b"".join(peer.asking(n, body) for n, body in enumerate(bodies))
    for at in range(0, len(raw), cut):
        peer.send(raw[at : at + cut])
    peer.heard()
    assert not peer.is_hung_up
    assert still_served(world)


GOOD = [
    m.ready("s", "t"),
    m.job("s", b"payload", 5_000),
    m.result(b"12345678", b"payload"),
    m.result(b"12345678", b"payload", leaving=True),
    m.heartbeat(b"12345678"),
]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_messages_with_wrong_bytes(seed: int) -> None:
    chance = Random(seed)
    world = World()
    peers = [world.peer(unix=chance.random() < 0.3) for _ in range(3)]
    ids = [b"12345678"]
    for _ in range(40):
        peer = chance.choice(peers)
        message = bytearray(chance.choice(GOOD).replace(b"12345678", chance.choice(ids)))
        for _ in range(chance.choice((0, 0, 1, 3))):
            message[chance.randrange(len(message))] = chance.randrange(256)
        request = chance.randrange(5)
        if chance.random() < 0.1:
            message = message[: chance.randrange(len(message))]
        raw = peer.asking(request, bytes(message))
        if chance.random() < 0.05:
            raw = raw[: chance.randrange(len(raw))]
        peer.send(raw)
        ids += [reply.worker for reply in peer.heard() if reply.worker]
        if chance.random() < 0.1:
            world.pass_time(chance.choice((100, 3_000, 12_000)), step=500)
        if peer.is_hung_up or chance.random() < 0.05:
            peers.remove(peer)
            if not peer.is_hung_up:
                peer.hang_up(undelivered=chance.random() < 0.5)
            peers.append(world.peer())
    for peer in peers:
        peer.hang_up()
    world.pass_time(130_000, step=1_000)
    world.pass_time(600_000, step=30_000)  # workers that were given a job of years
    # Whatever was asked, nothing of it is left.
    assert (world.all_jobs, world.service.requests.by_key) == ([], {})
    assert (world.service.registry.by_id, world.service.conversations) == ({}, {})
    assert world.service.room.bytes == 0
    assert still_served(world)


@pytest.mark.parametrize(
    "raw",
    [
        (2**63 - 1).to_bytes(8, "big"),
        (2**64 - 1).to_bytes(8, "big") + b"x" * 1_000,
        (16 * MIB).to_bytes(8, "big") + b"\0\0\0\x01" * 250_000,  # hops without end
        (16 * MIB).to_bytes(8, "big") + b"\x80\0\0\x01" + b"\x9f" * MIB,
        (16 * MIB).to_bytes(8, "big"),
        (16 * MIB).to_bytes(8, "big") + stack(1) + m.job("s", b"x" * 1_000, 1),
        (16 * MIB).to_bytes(8, "big") + stack(1) + m.result(b"12345678", b"x" * 1_000),
    ],
)
def test_frames_that_promise_much_take_little(world: World, raw: bytes) -> None:
    peers = [world.connect() for _ in range(20)]
    with traced() as memory:
        for peer in peers[: 20 if len(raw) < 10_000 else 1]:
            peer.send(sp.HELLO_OF_CLIENT + raw)
            peer.send(b"more")
    assert memory.peak < 8 * MIB
    assert still_served(world)


def test_a_million_hops_are_looked_at_nine_times(world: World, peer: Puppet) -> None:
    peer.send(peer.frame(b"\0\0\0\x01" * 1_000_000 + stack(1)))
    assert not peer.is_hung_up
    assert still_served(world)


def test_many_kinds_of_jobs_are_not_all_remembered(world: World, client: Puppet) -> None:
    for n in range(3_000):
        client.job(b"", f"service-{n}", n)
        if n % 500 == 499:
            client.hang_up()
            client = world.peer()
    assert len(world.service.job_headers) <= 1_024


@pytest.mark.parametrize("long", [True, False])
def test_a_kind_that_is_named_at_length_is_not_remembered(world: World, long: bool) -> None:
    client, worker = world.peer(), world.peer()
    name = "n" * (1_000 if long else 4)
    for n in range(3):
        client.job(b"", name, 5_000 + n)
        client.job(b"", f"{name}{n}", 5_000)
    kinds = world.service.job_headers
    assert len(kinds) == (0 if long else 6)
    jobs = world.all_jobs
    assert len({id(job.policy) for job in jobs}) == 3
    assert not long or max(len(job.extra) for job in jobs) < 10
    # Their workers are told the same, however it is kept.
    worker.ready(name, f"{name}2")
    worker.ready(name, f"{name}2")
    told = {(task.service, task.timeout_ms) for task in worker.heard()}
    assert told == {(name, 5_000), (name, 5_001)}


def test_requests_with_long_names_are_not_mixed_up(client: Puppet, world: World) -> None:
    for n in range(3):
        client.job(b"same", "n" * 1_000 + str(n), request=7)
    assert len(world.all_jobs) == 3


def test_names_in_many_pieces_are_no_names(world: World, peer: Puppet) -> None:
    for pieces, taken in ((64, True), (65, False), (16_000, False)):
        name = b"\x7f" + b"\x60" * (pieces - 1) + b"\x61s\xff"
        peer.ask(b"\x85\x66memo01\x02\x40" + name + b"\x01")
        assert bool(world.all_jobs) is taken
        world.cancel(*world.all_jobs)
        peer = world.peer()
    names = b"".join(b"\x7f\x61s" + b"\x60" * 30 + b"\x62%02d\xff" % n for n in range(33))
    peer.ask(b"\x84\x66memo01\x01\x40\x98\x21" + names)
    assert not world.service.registry.by_id
    peer.ask(b"\x84\x66memo01\x01\x40\x98\x20" + names[: len(names) // 33 * 32])
    assert len(world.service.registry.by_id) == 1


@pytest.mark.parametrize("cut", [True, False])
def test_a_message_that_takes_long_ends_a_share(peer: Puppet, world: World, cut: bool) -> None:
    many = [f"service-{n}" for n in range(1_024)]
    raw = b"".join(peer.asking(n, m.ready(*many)) for n in range(3))
    rubbish = peer.asking(7, m.ready(*many)[:-1])
    small = peer.asking(8, m.ready("x"))
    data = raw + rubbish + rubbish + small
    if cut:
        assert not world.share(peer.link, data[:100])
        data = data[100:]
    workers = []
    while world.share(peer.link, data) or data:
        data = b""
        workers.append(len(world.service.registry.by_id))
    assert (workers, len(world.service.registry.by_id)) == ([1, 2, 3, 3, 3], 4)


def test_replies_to_a_flood_of_unknown_workers_stay_its_own_affair(world: World) -> None:
    flood: Puppet = world.peer()
    raw = b"".join(flood.asking(n, m.heartbeat(b"nobody")) for n in range(1_000))
    flood.send(raw)
    assert len(flood.heard()) == 1_000
    assert still_served(world)
