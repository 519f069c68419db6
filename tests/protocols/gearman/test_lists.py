"""Long lists: nobody else waits for them, and who does not read one takes no memory."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.protocols.gearman import lists
from franca.protocols.gearman.conversation import BYTES_A_TURN, PIECES_A_TURN
from franca.protocols.gearman.wire import LINE_BYTES_MAX
from tests.protocols.gearman.puppet import Puppet, World, res
from tests.support.gearman import Type, request


def said_in_a_turn(world: World, *peers: Puppet) -> list[bytes]:
    """What the next turn says to each, as if all of it left."""
    world.engine.turn(world.now)
    said = [b"".join(peer.link.out) for peer in peers]
    world.listen()
    return said


@pytest.mark.parametrize("words", ["status", "workers"])
def test_a_list_is_cut_by_its_bytes_too(world: World, words: str) -> None:
    world.worker(*(f"{n:01000}" for n in range(300)))
    admin = world.connect()
    world.engine.inputs.append((admin.link, words.encode() + b"\n"))
    [first] = said_in_a_turn(world, admin)
    assert BYTES_A_TURN <= len(first) < BYTES_A_TURN + LINE_BYTES_MAX + 2_000
    world.run()
    assert len(admin.heard()) > 300_000


def test_a_list_waits_for_its_reader(world: World) -> None:
    for number in range(3 * PIECES_A_TURN):
        world.broker.queue(f"f{number}")
    admin = world.connect()
    world.engine.inputs.append((admin.link, b"status\n"))
    said_in_a_turn(world, admin)
    world.engine.hold_back(admin.link)
    admin.send(b"version\n")
    world.pass_time(500)
    before = len(admin.unread)
    admin.send(b"version\n")
    assert len(admin.unread) == before
    world.engine.go_on(admin.link)
    world.run()
    assert admin.heard().endswith(b".\nOK 2.0.0\nOK 2.0.0\n")


def test_a_line_that_is_not_very_long_is_not_cut(world: World) -> None:
    worker = world.worker(*(f"f{n}" for n in range(800)))
    handle = worker.submit("f1")
    assert worker.grab_handle() == handle
    admins = [world.connect() for _ in range(20)]
    for admin in admins:
        world.engine.inputs.append((admin.link, b"workers\n"))
    for said in said_in_a_turn(world, *admins):
        assert said.endswith(b"\n")
        assert said


def test_a_search_by_unique_id_counts_by_the_functions_it_looks_at(world: World) -> None:
    for number in range(64 * 20):
        world.broker.queue(f"f{number}")
    peer = world.connect()
    peer.begin(request(Type.GET_STATUS_UNIQUE, "u") * 20)
    assert len(peer.link.out) <= 4
    world.run()
    assert peer.take_all() == [res(42, "u", "0", "0", "0", "0", "0")] * 20


# -- what is listed changes while it is listed ------------------------------------------------------------


@given(st.integers(0, 5_000), st.data())
def test_what_is_there_all_the_time_is_listed_once(size: int, data: st.DataObject) -> None:
    source = dict.fromkeys(range(size))
    stays = set(source)
    heard: list[int] = []
    rng = Random(data.draw(st.integers(0, 1_000)))
    often = data.draw(st.sampled_from([1, 7, 100]))
    for count, item in enumerate(lists.in_parts(lambda: source)):
        heard.append(item)
        if count % often == 0 and count < size:
            for gone in rng.choices(range(size), k=rng.choice([0, 1, often // 5])):
                source.pop(gone, None)
                stays.discard(gone)
            source[size + count] = None
    assert stays <= set(heard)
    assert len(heard) == len(set(heard))


def test_what_leaves_at_the_front_moves_the_rest_up_and_none_is_missed() -> None:
    source = dict.fromkeys(range(10 * lists.PART))
    heard: list[int] = []
    for item in lists.in_parts(lambda: source):
        heard.append(item)
        if len(heard) % 2:
            del source[next(iter(source))]
    assert heard == list(range(10 * lists.PART))
