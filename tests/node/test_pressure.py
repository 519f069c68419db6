"""Back-pressure: who must wait while the disk is behind, and that they go on after it."""

import pytest

from franca.core.model import Millis, NewJob, Policy
from franca.engine.engine import SLICE
from franca.node.pressure import FAR, LITTLE_BYTES
from franca.protocols.conversation import WHOLE_SHARE
from tests.node.fixtures import Guest, NodeFixture


def adding_without_an_answer(
    s: NodeFixture, guests: list[Guest], patch: pytest.MonkeyPatch
) -> list[str]:
    """Have all that these peers send add a job of 6,000 bytes; returns what was acted on."""
    acted: list[str] = []

    def on_message(message: tuple[bytes, ...], now: Millis) -> None:
        acted.append(b"".join(message).decode().strip())
        s.broker.submit(NewJob("q", "k", b"x" * 6_000, Policy()), now)

    for guest in guests:
        patch.setattr(guest.conversation, "on_message", on_message)
    return acted


async def test_while_too_much_waits_for_the_disk_only_those_who_wait_for_it_are_not_read() -> None:
    with NodeFixture(pending_bytes=10) as s:
        await s.writer("push a")
        producer, other = s.guest(), s.guest()
        producer.says("push " + "x" * 20)
        await s.until(lambda: not producer.wire.reading)
        await other.asks("ping", hears="pong;")
        assert other.wire.reading
        await s.ends()
        await s.commits()
        await s.until(lambda: producer.wire.reading)


async def test_a_peer_that_is_not_answered_adds_no_more_while_too_much_waits_for_the_disk() -> None:
    with NodeFixture(pending_bytes=10_000) as s, pytest.MonkeyPatch.context() as patch:
        await s.writer("push a")
        guest, other = s.guest(), s.guest()
        acted = adding_without_an_answer(s, [guest], patch)
        for _ in range(5):
            guest.says("a report")
            await s.turns()
        assert len(acted) == 3, "the third added to what was too much already"
        assert not guest.wire.reading
        await other.asks("ping", hears="pong;")
        assert other.wire.reading
        await s.ends()
        await s.commits()
        await s.until(lambda: len(acted) == 5)
        assert guest.wire.reading


async def test_what_is_long_is_not_acted_on_while_too_much_waits_for_the_disk() -> None:
    with NodeFixture(pending_jobs=2) as s:
        await s.writer("push a")
        flooding, guest, other = s.guest(), s.guest(), s.guest()
        for name in "bcdefghij":
            flooding.says(f"push {name}")
            await s.turns()
        assert s.broker.pending_jobs == FAR * 2 + 1
        guest.says("push " + "x" * LITTLE_BYTES)
        await other.asks("ping", hears="pong;")
        assert (s.broker.pending_jobs, guest.wire.reading) == (FAR * 2 + 1, False)
        await s.ends()
        await s.until(lambda: s.broker.pending_jobs == 1)
        await s.commits()
        await s.commits()
        await guest.hears("pushed " + "x" * LITTLE_BYTES + ";")


async def test_many_reports_of_one_pass_are_weighed_one_by_one_once_there_is_too_much() -> None:
    with NodeFixture(pending_bytes=10_000) as s, pytest.MonkeyPatch.context() as patch:
        await s.writer("push a")
        guests = [s.guest() for _ in range(10 * SLICE)]
        acted = adding_without_an_answer(s, guests, patch)
        for guest in guests:
            guest.says("report")
            guest.says("another")
        await s.turns()
        assert len(acted) <= SLICE + len(guests), "each that adds to it must wait"


async def test_nobody_adds_to_a_group_that_is_large_enough_while_the_disk_is_busy() -> None:
    with NodeFixture(pending_jobs=3) as s, pytest.MonkeyPatch.context() as patch:
        await s.writer("push a")
        guest = s.guest()
        acted = 0

        def submit_one_of_many(message: object, now: Millis) -> None:
            nonlocal acted
            acted += 1
            s.broker.submit(NewJob("q", "k", b"", Policy()), now)
            guest.conversation.spent += WHOLE_SHARE
            guest.conversation.reader.feed(b"one more\n")

        patch.setattr(guest.conversation, "on_message", submit_one_of_many)
        guest.says("a flood")
        await s.until(lambda: acted == 4)
        for _ in range(5):
            await s.turns()
        assert acted == 4
        assert not guest.connection.link.full, "it takes what is said to it"
        guest.says("more")
        await s.turns()
        assert (acted, guest.wire.reading) == (4, False)
        await s.ends()
        await s.commits()
        await s.until(lambda: acted > 4)


async def test_a_flood_whose_answers_pile_up_is_acted_on_again_when_they_have_left() -> None:
    with NodeFixture(output_soft_bytes=10) as s, pytest.MonkeyPatch.context() as patch:
        guest = s.guest()
        acted = 0

        def act_on_one_of_many(message: object, now: Millis) -> None:
            nonlocal acted
            acted += 1
            s.broker.submit(NewJob("q", "k", b"", Policy()), now)
            for _ in range(2):
                guest.connection.link.write_after_commit(b"one of several answers;")
            guest.conversation.spent += WHOLE_SHARE
            guest.conversation.reader.feed(b"one more\n")

        patch.setattr(guest.conversation, "on_message", act_on_one_of_many)
        guest.says("a flood")
        for seen in (1, 2, 3):
            await s.reaches("commit")
            await s.turns()
            assert acted == seen
            await s.ends()
