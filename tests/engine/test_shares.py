"""Turns that end before everything was heard, and links that are held back: nothing is lost."""

import pytest

from franca.core.model import Millis
from franca.engine.engine import COSTLY, ENDED_AT_ONCE, LAST_SHARES, SLICE
from franca.engine.roster import LAST_BYTES
from franca.protocols.conversation import FEW_PIECES, Link
from tests.engine.fixtures import Echo, Stage, T, echo

# -- turns that end early -----------------------------------------------------------------------


def end_after(stage: Stage, count: int) -> list[Link]:
    """Have each part of a turn end when it was asked so many times; returns who was heard last."""
    asked: list[Link] = []

    def between(link: Link) -> bool:
        asked.append(link)
        return len(asked) % count == 0

    stage.engine.between = between
    return asked


def test_input_that_a_turn_did_not_come_to_comes_first_in_the_next(stage: Stage) -> None:
    links = [stage.open() for _ in range(3 * SLICE)]
    end_after(stage, 1)
    for link in links:
        stage.say(link, "x\n")
    for turn in (1, 2, 3):
        stage.engine.turn(T)
        assert [len(echo(link).heard) for link in links] == (
            [1] * turn * SLICE + [0] * (3 - turn) * SLICE
        )
        stage.say(links[0], "half")
    assert stage.engine.waiting_bytes() == 3 * len("half")
    stage.engine.turn(T)
    assert not stage.engine.has_input()


def test_few_who_say_little_are_all_heard_and_nobody_is_asked(stage: Stage) -> None:
    links = [stage.open() for _ in range(SLICE)]
    asked = end_after(stage, 1)
    for link in links:
        stage.say(link, "x\n")
    stage.engine.turn(T)
    assert [stage.said(link) for link in links] == ["x\n"] * SLICE
    assert not asked


def test_floods_take_turns_and_new_input_is_heard_beside_them() -> None:
    stage = Stage(turn_messages=2)
    floods, other = [stage.open() for _ in range(5)], stage.open()
    for link in floods:
        stage.say(link, "x\n" * 20)
    stage.engine.turn(T)
    asked = end_after(stage, 2)
    for turn in range(10):
        stage.say(other, "y\n")
        stage.engine.turn(T)
        assert stage.said(other) == "y\n"
        assert len(asked) == 2 * (turn + 1)
        heard = [len(echo(link).heard) for link in floods]
        assert max(heard) - min(heard) <= 2
    assert sum(heard) == 5 * 2 + 10 * 2 * 2


def test_if_there_is_need_for_care_every_piece_of_input_is_asked_about(stage: Stage) -> None:
    links = [stage.open() for _ in range(3)]
    asked = end_after(stage, 100)
    stage.engine.one_by_one = True
    for link in links:
        stage.say(link, "x\n")
    stage.engine.turn(T)
    assert asked == links


def test_who_goes_while_many_wait_to_be_heard_is_heard_before_it_is_gone(
    stage: Stage, link: Link
) -> None:
    others = [stage.open() for _ in range(SLICE)]
    end_after(stage, 1)
    for speaker in (*others, link):
        stage.say(speaker, "push\n")
    stage.engine.close_link(link, T, undelivered=False)
    for _ in range(3):
        assert not link.closed
        stage.engine.turn(T)
    assert link.closed
    assert (echo(link).heard, echo(link).hung_up) == (["push"], [True])
    assert not stage.engine.has_input()


def test_who_had_nothing_more_to_say_has_heard_what_it_was_told_however_many_others_speak(
    stage: Stage, link: Link
) -> None:
    others = [stage.open() for _ in range(2 * SLICE)]
    for speaker in others:
        stage.say(speaker, "push\n")
    stage.engine.close_link(link, T, undelivered=False)
    stage.engine.turn(T)
    assert link.closed
    assert echo(link).hung_up == [False]


def test_when_many_go_at_once_some_go_a_little_later_and_nobody_is_forgotten(stage: Stage) -> None:
    links = [stage.open() for _ in range(3 * ENDED_AT_ONCE)]
    for link in links:
        stage.engine.close_link(link, T, undelivered=False)
    for turns in (1, 2, 3):
        assert sum(link.closed for link in links) == turns * ENDED_AT_ONCE
        assert stage.engine.has_input() is (turns < 3)
        stage.engine.turn(T)
    assert all(echo(link).hung_up == [False] for link in links)
    assert not stage.engine.links


def test_a_job_for_one_who_is_about_to_be_gone_was_not_heard_of(stage: Stage) -> None:
    worker, producer = stage.open(), stage.open()
    stage.say(worker, "take\n")
    stage.engine.turn(T)
    for link in [stage.open() for _ in range(ENDED_AT_ONCE)]:
        stage.engine.close_link(link, T, undelivered=False)
    stage.engine.close_link(worker, T, undelivered=False)
    stage.say(producer, "push\n")
    stage.engine.turn(T)
    assert worker.closed
    assert echo(worker).hung_up == [True]


def test_what_is_left_of_one_who_is_gone_is_acted_on_though_others_are_put_off() -> None:
    stage = Stage(turn_messages=1)
    link = stage.open()
    stage.say(link, "x\n" * 20)
    stage.engine.close_link(link, T, undelivered=False)
    assert not link.closed
    stage.engine.put_off(link)
    for _ in range(20):
        stage.engine.turn(T)
        assert link.out == [], "nobody will hear it"
    assert link.closed
    assert (len(echo(link).heard), echo(link).hung_up) == (20, [True])


def test_of_many_who_go_with_much_unsaid_only_a_few_shares_are_acted_on_at_once() -> None:
    stage = Stage(turn_messages=1)
    links = [stage.open() for _ in range(30)]
    for link in links:
        stage.say(link, "x\n" * 20)
    stage.engine.turn(T)
    for link in links:
        stage.engine.close_link(link, T, undelivered=False)
    assert sum(len(echo(link).heard) for link in links) == len(links) + LAST_SHARES
    for _ in range(30 * 20):
        stage.engine.turn(T)
    assert all(link.closed and len(echo(link).heard) == 20 for link in links)


def test_what_is_left_of_those_who_are_gone_waits_while_the_disk_is_behind() -> None:
    stage = Stage(turn_messages=1_000, pending_jobs=10)
    links = [stage.open() for _ in range(2 * SLICE)]
    for link in links:
        stage.say(link, "push\n" * 99)
        stage.say(link, "push\n")
    for link in links:
        stage.engine.close_link(link, T, undelivered=False)
    other = stage.open()
    stage.say(other, "x\n")
    drained = 0
    while stage.engine.has_input():
        stage.engine.turn(T)
        stage.engine.turn(T)
        stage.engine.turn(T)
        assert echo(other).heard == ["x"], "those who are gone come last"
        assert stage.broker.pending_jobs <= 10 + LAST_BYTES // len("push\n")
        if stage.broker.pending_jobs > 10:
            assert not stage.engine.has_input(), "until the disk is done"
        drained += stage.broker.pending_jobs
        stage.broker.drain()
    assert drained == 100 * len(links)
    assert all(link.closed for link in links)


# -- links that are held back ---------------------------------------------------------------------


def test_what_comes_from_a_link_that_is_held_back_is_kept_and_acted_on_after_that() -> None:
    stage = Stage(turn_messages=2)
    link, other = stage.open(), stage.open()
    stage.say(link, "one\ntwo\nthree\n")
    stage.engine.turn(T)
    stage.engine.put_off(link)
    for word in ("four\nfi", "ve\n"):
        stage.say(link, word)
        stage.say(other, "x\n")
        stage.engine.turn(T)
    assert (stage.said(link), stage.said(other)) == ("one\ntwo\n", "x\nx\n")
    assert not link.full, "it takes what is said to it"
    assert stage.engine.kept_bytes() == len("three\nfour\nfive\n")
    assert not stage.engine.has_input()
    stage.engine.go_on(link)
    for _ in range(3):
        stage.engine.turn(T)
    assert stage.said(link) == "three\nfour\nfive\n"
    assert stage.engine.kept_bytes() == 0


@pytest.mark.parametrize(("deaf", "drops"), [(False, False), (True, False), (True, True)])
def test_who_was_held_back_and_goes_is_acted_on_unless_it_did_not_read(
    deaf: bool, drops: bool
) -> None:
    stage = Stage(turn_messages=2)
    link = stage.open()
    stage.say(link, "x\n" * 3)
    stage.engine.turn(T)
    link.full, link.conversation.drops = deaf, drops
    stage.engine.put_off(link)
    stage.say(link, "y\n")
    stage.engine.turn(T)
    stage.engine.close_link(link, T, undelivered=False)
    for _ in range(3):
        stage.engine.turn(T)
    assert link.closed
    assert echo(link).heard == ["x"] * 2 if deaf and not drops else ["x"] * 3 + ["y"]
    assert not stage.engine.held_back


# -- links that were told enough in one turn --------------------------------------------------------


def test_a_link_is_full_as_soon_as_one_turn_wrote_more_than_may_wait() -> None:
    stage = Stage(output_soft_bytes=1_000)
    link = stage.open()
    for count in range(2 * FEW_PIECES):
        assert link.is_full() is (count * 100 > 1_000)
        link.write(b"x" * 100)
    assert link.is_full()
    stage.said(link)
    assert not link.is_full()
    link.write_pieces((b"x" * 500, b"y" * 500))
    assert not link.is_full()
    link.write(b"z")
    assert link.is_full()
    assert not link.full
    stage.said(link)
    link.full = True
    assert link.is_full()


# -- what takes long ------------------------------------------------------------------------------


def test_a_link_whose_messages_take_long_comes_behind_the_others(stage: Stage) -> None:
    slow, other = stage.open(), stage.open()
    spend(slow, COSTLY + 1)
    stage.say(slow, "one\n")
    stage.engine.turn(T)
    assert (stage.said(slow), slow.costly) == ("one\n", True)
    for link in (slow, other):
        stage.say(link, "two\n")
    stage.engine.turn(T)
    assert (stage.said(slow), stage.said(other)) == ("", "two\n")
    spend(slow, 0)
    stage.engine.turn(T)
    assert (stage.said(slow), slow.costly) == ("two\n", False)
    stage.say(slow, "three\n")
    stage.engine.turn(T)
    assert stage.said(slow) == "three\n"


def test_what_a_message_costs_counts_among_those_of_its_share() -> None:
    stage = Stage(turn_messages=10)
    link = stage.open()
    spend(link, 4)
    stage.say(link, "x\n" * 3)
    stage.engine.turn(T)
    assert stage.said(link) == "x\n" * 2
    stage.engine.turn(T)
    assert stage.said(link) == "x\n"


def test_after_messages_that_take_long_it_is_asked_whether_the_turn_should_end(
    stage: Stage,
) -> None:
    links = [stage.open() for _ in range(3)]
    end_after(stage, 1)
    for link in links:
        spend(link, SLICE)
        stage.say(link, "x\n")
    for turn in (1, 2, 3):
        stage.engine.turn(T)
        assert [len(echo(link).heard) for link in links] == [1] * turn + [0] * (3 - turn)


def spend(link: Link, cost: int) -> None:
    """Have each message of a link take so much time."""
    conversation = echo(link)

    def on_message(line: str, now: Millis) -> None:
        Echo.on_message(conversation, line, now)
        conversation.spent += cost

    conversation.on_message = on_message  # type: ignore[method-assign]


def test_between_two_messages_everybody_is_told_what_has_happened(stage: Stage) -> None:
    taker, pusher = stage.open(), stage.open()
    stage.say(taker, "take\n")
    stage.engine.turn(T)
    stage.say(pusher, "push\ntake\n")
    stage.engine.turn(T)
    assert stage.said(taker) == "given\n"
    assert stage.said(pusher) == "taken\n", "its own job is with another"
