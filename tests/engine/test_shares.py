"""Turns that end before everything was heard, and links that are held back: nothing is lost."""

import pytest

from franca.core.model import Millis
from franca.engine.engine import COSTLY, ENDED_AT_ONCE, LAST_SHARES, SLICE
from franca.engine.roster import LAST_BYTES
from franca.protocols.conversation import FEW_PIECES, Link
from tests.engine.fixtures import Echo, T, World, echo

# -- turns that end early -----------------------------------------------------------------------


def end_after(world: World, count: int) -> list[Link]:
    """Have each part of a turn end when it was asked so many times; returns who was heard last."""
    asked: list[Link] = []

    def between(link: Link) -> bool:
        asked.append(link)
        return len(asked) % count == 0

    world.engine.between = between
    return asked


def test_input_that_a_turn_did_not_come_to_comes_first_in_the_next(world: World) -> None:
    links = [world.open() for _ in range(3 * SLICE)]
    end_after(world, 1)
    for link in links:
        world.say(link, "x\n")
    for turn in (1, 2, 3):
        world.engine.turn(T)
        assert [len(echo(link).heard) for link in links] == (
            [1] * turn * SLICE + [0] * (3 - turn) * SLICE
        )
        world.say(links[0], "half")
    assert world.engine.waiting_bytes() == 3 * len("half")
    world.engine.turn(T)
    assert not world.engine.has_input()


def test_few_who_say_little_are_all_heard_and_nobody_is_asked(world: World) -> None:
    links = [world.open() for _ in range(SLICE)]
    asked = end_after(world, 1)
    for link in links:
        world.say(link, "x\n")
    world.engine.turn(T)
    assert [world.said(link) for link in links] == ["x\n"] * SLICE
    assert not asked


def test_floods_take_turns_and_new_input_is_heard_beside_them() -> None:
    world = World(turn_messages=2)
    floods, other = [world.open() for _ in range(5)], world.open()
    for link in floods:
        world.say(link, "x\n" * 20)
    world.engine.turn(T)
    asked = end_after(world, 2)
    for turn in range(10):
        world.say(other, "y\n")
        world.engine.turn(T)
        assert world.said(other) == "y\n"
        assert len(asked) == 2 * (turn + 1)
        heard = [len(echo(link).heard) for link in floods]
        assert max(heard) - min(heard) <= 2
    assert sum(heard) == 5 * 2 + 10 * 2 * 2


def test_if_there_is_need_for_care_every_piece_of_input_is_asked_about(world: World) -> None:
    links = [world.open() for _ in range(3)]
    asked = end_after(world, 100)
    world.engine.one_by_one = True
    for link in links:
        world.say(link, "x\n")
    world.engine.turn(T)
    assert asked == links


def test_who_goes_while_many_wait_to_be_heard_is_heard_before_it_is_gone(
    world: World, link: Link
) -> None:
    others = [world.open() for _ in range(SLICE)]
    end_after(world, 1)
    for speaker in (*others, link):
        world.say(speaker, "push\n")
    world.engine.close_link(link, T, undelivered=False)
    for _ in range(3):
        assert not link.closed
        world.engine.turn(T)
    assert link.closed
    assert (echo(link).heard, echo(link).hung_up) == (["push"], [True])
    assert not world.engine.has_input()


def test_who_had_nothing_more_to_say_has_heard_what_it_was_told_however_many_others_speak(
    world: World, link: Link
) -> None:
    others = [world.open() for _ in range(2 * SLICE)]
    for speaker in others:
        world.say(speaker, "push\n")
    world.engine.close_link(link, T, undelivered=False)
    world.engine.turn(T)
    assert link.closed
    assert echo(link).hung_up == [False]


def test_when_many_go_at_once_some_go_a_little_later_and_nobody_is_forgotten(world: World) -> None:
    links = [world.open() for _ in range(3 * ENDED_AT_ONCE)]
    for link in links:
        world.engine.close_link(link, T, undelivered=False)
    for turns in (1, 2, 3):
        assert sum(link.closed for link in links) == turns * ENDED_AT_ONCE
        assert world.engine.has_input() is (turns < 3)
        world.engine.turn(T)
    assert all(echo(link).hung_up == [False] for link in links)
    assert not world.engine.links


def test_a_job_for_one_who_is_about_to_be_gone_was_not_heard_of(world: World) -> None:
    worker, producer = world.open(), world.open()
    world.say(worker, "take\n")
    world.engine.turn(T)
    for link in [world.open() for _ in range(ENDED_AT_ONCE)]:
        world.engine.close_link(link, T, undelivered=False)
    world.engine.close_link(worker, T, undelivered=False)
    world.say(producer, "push\n")
    world.engine.turn(T)
    assert worker.closed
    assert echo(worker).hung_up == [True]


def test_what_is_left_of_one_who_is_gone_is_acted_on_though_others_are_put_off() -> None:
    world = World(turn_messages=1)
    link = world.open()
    world.say(link, "x\n" * 20)
    world.engine.close_link(link, T, undelivered=False)
    assert not link.closed
    world.engine.put_off(link)
    for _ in range(20):
        world.engine.turn(T)
        assert link.out == [], "nobody will hear it"
    assert link.closed
    assert (len(echo(link).heard), echo(link).hung_up) == (20, [True])


def test_of_many_who_go_with_much_unsaid_only_a_few_shares_are_acted_on_at_once() -> None:
    world = World(turn_messages=1)
    links = [world.open() for _ in range(30)]
    for link in links:
        world.say(link, "x\n" * 20)
    world.engine.turn(T)
    for link in links:
        world.engine.close_link(link, T, undelivered=False)
    assert sum(len(echo(link).heard) for link in links) == len(links) + LAST_SHARES
    for _ in range(30 * 20):
        world.engine.turn(T)
    assert all(link.closed and len(echo(link).heard) == 20 for link in links)


def test_what_is_left_of_those_who_are_gone_waits_while_the_disk_is_behind() -> None:
    world = World(turn_messages=1_000, pending_jobs=10)
    links = [world.open() for _ in range(2 * SLICE)]
    for link in links:
        world.say(link, "push\n" * 99)
        world.say(link, "push\n")
    for link in links:
        world.engine.close_link(link, T, undelivered=False)
    other = world.open()
    world.say(other, "x\n")
    drained = 0
    while world.engine.has_input():
        world.engine.turn(T)
        world.engine.turn(T)
        world.engine.turn(T)
        assert echo(other).heard == ["x"], "those who are gone come last"
        assert world.broker.pending_jobs <= 10 + LAST_BYTES // len("push\n")
        if world.broker.pending_jobs > 10:
            assert not world.engine.has_input(), "until the disk is done"
        drained += world.broker.pending_jobs
        world.broker.drain()
    assert drained == 100 * len(links)
    assert all(link.closed for link in links)


# -- links that are held back ---------------------------------------------------------------------


def test_what_comes_from_a_link_that_is_held_back_is_kept_and_acted_on_after_that() -> None:
    world = World(turn_messages=2)
    link, other = world.open(), world.open()
    world.say(link, "one\ntwo\nthree\n")
    world.engine.turn(T)
    world.engine.put_off(link)
    for word in ("four\nfi", "ve\n"):
        world.say(link, word)
        world.say(other, "x\n")
        world.engine.turn(T)
    assert (world.said(link), world.said(other)) == ("one\ntwo\n", "x\nx\n")
    assert not link.full, "it takes what is said to it"
    assert world.engine.kept_bytes() == len("three\nfour\nfive\n")
    assert not world.engine.has_input()
    world.engine.go_on(link)
    for _ in range(3):
        world.engine.turn(T)
    assert world.said(link) == "three\nfour\nfive\n"
    assert world.engine.kept_bytes() == 0


@pytest.mark.parametrize(("deaf", "drops"), [(False, False), (True, False), (True, True)])
def test_who_was_held_back_and_goes_is_acted_on_unless_it_did_not_read(
    deaf: bool, drops: bool
) -> None:
    world = World(turn_messages=2)
    link = world.open()
    world.say(link, "x\n" * 3)
    world.engine.turn(T)
    link.full, link.conversation.drops = deaf, drops
    world.engine.put_off(link)
    world.say(link, "y\n")
    world.engine.turn(T)
    world.engine.close_link(link, T, undelivered=False)
    for _ in range(3):
        world.engine.turn(T)
    assert link.closed
    assert echo(link).heard == ["x"] * 2 if deaf and not drops else ["x"] * 3 + ["y"]
    assert not world.engine.held_back


# -- links that were told enough in one turn --------------------------------------------------------


def test_a_link_is_full_as_soon_as_one_turn_wrote_more_than_may_wait() -> None:
    world = World(output_soft_bytes=1_000)
    link = world.open()
    for count in range(2 * FEW_PIECES):
        assert link.is_full() is (count * 100 > 1_000)
        link.write(b"x" * 100)
    assert link.is_full()
    world.said(link)
    assert not link.is_full()
    link.write_pieces((b"x" * 500, b"y" * 500))
    assert not link.is_full()
    link.write(b"z")
    assert link.is_full()
    assert not link.full
    world.said(link)
    link.full = True
    assert link.is_full()


# -- what takes long ------------------------------------------------------------------------------


def test_a_link_whose_messages_take_long_comes_behind_the_others(world: World) -> None:
    slow, other = world.open(), world.open()
    spend(slow, COSTLY + 1)
    world.say(slow, "one\n")
    world.engine.turn(T)
    assert (world.said(slow), slow.costly) == ("one\n", True)
    for link in (slow, other):
        world.say(link, "two\n")
    world.engine.turn(T)
    assert (world.said(slow), world.said(other)) == ("", "two\n")
    spend(slow, 0)
    world.engine.turn(T)
    assert (world.said(slow), slow.costly) == ("two\n", False)
    world.say(slow, "three\n")
    world.engine.turn(T)
    assert world.said(slow) == "three\n"


def test_what_a_message_costs_counts_among_those_of_its_share() -> None:
    world = World(turn_messages=10)
    link = world.open()
    spend(link, 4)
    world.say(link, "x\n" * 3)
    world.engine.turn(T)
    assert world.said(link) == "x\n" * 2
    world.engine.turn(T)
    assert world.said(link) == "x\n"


def test_after_messages_that_take_long_it_is_asked_whether_the_turn_should_end(
    world: World,
) -> None:
    links = [world.open() for _ in range(3)]
    end_after(world, 1)
    for link in links:
        spend(link, SLICE)
        world.say(link, "x\n")
    for turn in (1, 2, 3):
        world.engine.turn(T)
        assert [len(echo(link).heard) for link in links] == [1] * turn + [0] * (3 - turn)


def spend(link: Link, cost: int) -> None:
    """Have each message of a link take so much time."""
    conversation = echo(link)

    def on_message(message: tuple[bytes, ...], now: Millis) -> None:
        Echo.on_message(conversation, message, now)
        conversation.spent += cost

    conversation.on_message = on_message  # type: ignore[method-assign]


def test_between_two_messages_everybody_is_told_what_has_happened(world: World) -> None:
    taker, pusher = world.open(), world.open()
    world.say(taker, "take\n")
    world.engine.turn(T)
    world.say(pusher, "push\ntake\n")
    world.engine.turn(T)
    assert world.said(taker) == "given\n"
    assert world.said(pusher) == "taken\n", "its own job is with another"
