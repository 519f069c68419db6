"""Input that waits to be acted on is bounded in all: who sends on, who waits, who is cut off."""

import pytest

from franca.core.model import Millis, NewJob, Policy
from franca.node import input
from franca.node.input import SHORT_AT_ONCE, SHORT_BYTES, SLOW_MS, STEP_BYTES
from franca.store.memory import MemoryStore
from tests.node.fixtures import NodeFixture, Wire

MIB = 1024 * 1024
LIMIT = 64 * MIB
CALM = 48 * MIB
pytestmark = pytest.mark.node(store=MemoryStore, input_bytes=LIMIT)
T: Millis = 1_000_000


class Play:
    """Peers whose unfinished messages grow as they are told to, and looks at them."""

    def __init__(self, s: NodeFixture, *unread: int) -> None:
        s.node._ticker.cancel()
        self.input = s.node.input
        self.now = T
        self.guests = [s.guest() for _ in unread]
        for guest, size in zip(self.guests, unread, strict=True):
            guest.conversation.task_bytes = size

    def look(self, came: int = 0, *, after_ms: int = 50) -> list[bool]:
        """Look after so much has come; who may send on."""
        self.now += after_ms
        self.input.room -= came
        self.input.tick()
        self.input.look(self.now)
        return [guest.wire.reading for guest in self.guests]

    def closed(self) -> list[bool]:
        return [bool(guest.wire.closed) for guest in self.guests]


async def test_while_there_is_little_everybody_sends_on(s: NodeFixture) -> None:
    play = Play(s, CALM - 2, 1, 1)
    assert (play.look(), play.input.is_waited_for) == ([True] * 3, False)
    assert play.input.room == STEP_BYTES


async def test_when_there_is_much_the_largest_goes_on_and_those_with_little(s: NodeFixture) -> None:
    play = Play(s, 20 * MIB, 21 * MIB, 20 * MIB, 1_000)
    assert (play.look(CALM), play.input.is_waited_for) == ([False, True, False, True], True)
    assert all(guest.connection.link.paused for guest in (play.guests[0], play.guests[2]))
    play.guests[1].conversation.task_bytes = 0
    assert (play.look(STEP_BYTES + 1), play.input.is_waited_for) == ([True] * 4, False)


async def test_while_little_comes_more_may_go_on(s: NodeFixture) -> None:
    play = Play(s, *[10 * MIB] * 6)
    counts = [sum(play.look(CALM))] + [sum(play.look(100)) for _ in range(3)]
    assert counts == [1, 2, 4, 6]
    assert sum(play.look(STEP_BYTES + 1)) == 1


async def test_whoever_does_not_send_on_while_others_wait_is_cut_off(s: NodeFixture) -> None:
    play = Play(s, 30 * MIB, 29 * MIB, 28 * MIB)
    play.look(CALM)
    play.look(STEP_BYTES + 1, after_ms=SLOW_MS - 1)
    assert play.closed() == [False] * 3
    play.look(STEP_BYTES + 1, after_ms=1)
    assert (play.closed(), play.guests[0].conversation.task_bytes) == ([True, False, False], 0)
    s.node.soon()
    await s.turns()
    assert s.node.notices.count == 1


async def test_whoever_does_not_send_on_keeps_what_it_has_while_nobody_waits(
    s: NodeFixture,
) -> None:
    play = Play(s, 60 * MIB)
    play.look(CALM)
    for _ in range(3):
        play.look(after_ms=SLOW_MS)
    assert play.closed() == [False]


async def test_whoever_sends_on_at_a_fair_pace_is_not_cut_off(s: NodeFixture) -> None:
    play = Play(s, 30 * MIB, 29 * MIB)
    play.look(CALM)
    for _ in range(10):
        play.guests[0].conversation.task_bytes += 2 * s.engine.limits.frame_bytes_per_s
        play.look(STEP_BYTES + 1, after_ms=SLOW_MS)
    assert play.closed() == [False, False]


async def test_whoever_waits_is_not_blamed_for_it(s: NodeFixture) -> None:
    play = Play(s, 30 * MIB, 29 * MIB)
    for _ in range(10):
        play.guests[0].conversation.task_bytes += MIB
        play.look(STEP_BYTES + 1, after_ms=SLOW_MS)
    assert play.closed() == [False, False]


async def test_beyond_the_limit_and_a_message_the_slowest_is_cut_off() -> None:
    with NodeFixture(
        MemoryStore(), input_bytes=LIMIT, frame_bytes_max=LIMIT, body_bytes_max=LIMIT
    ) as s:
        play = Play(s, 62 * MIB, 61 * MIB, MIB)
        play.look(CALM)
        play.look(100)
        play.guests[0].conversation.task_bytes += 3 * MIB
        play.guests[1].conversation.task_bytes += 2 * MIB
        play.look(100)
        assert play.closed() == [False, True, False]


async def test_more_bytes_are_of_no_use_to_whoever_waits_for_its_turn(s: NodeFixture) -> None:
    play = Play(s, 40 * MIB, 20 * MIB)
    play.guests[0].conversation.holding = True
    assert play.look(CALM) == [False, True]


async def test_what_comes_in_one_pass_is_bounded_too() -> None:
    with NodeFixture(MemoryStore(), input_bytes=4 * MIB) as s:
        s.node._ticker.cancel()
        guests = [s.guest() for _ in range(8)]
        for number, guest in enumerate(guests):
            if guest.wire.reading:
                guest.says("ping " + "x" * MIB)
                assert number <= 4
        assert not any(guest.wire.reading for guest in guests)
        await s.turns()
        assert all(guest.wire.reading for guest in guests)


async def test_what_waits_for_the_disk_to_be_free_is_counted(s: NodeFixture) -> None:
    play = Play(s, 30 * MIB, 10 * MIB)
    assert play.look() == [True, True]
    s.node.gathered.append((play.guests[1].connection, b"x" * (10 * MIB)))
    assert play.look(CALM) == [True, False]


async def test_while_too_much_is_unsent_large_messages_are_read_one_at_a_time_or_not_at_all() -> (
    None
):
    with NodeFixture(MemoryStore(), output_bytes=MIB) as s:
        play = Play(s, 9 * MIB, 8 * MIB, 1_000)
        deaf = [s.guest() for _ in range(3)]
        for guest in deaf:
            guest.wire.room = 0
        for guest, expected in zip(deaf, ([True] * 3, [True, False, True]), strict=False):
            guest.connection.send(b"x" * MIB)
            for _ in range(3):
                assert play.look() == expected
        deaf[2].connection.send(b"x" * MIB)
        assert (play.look(), play.input.is_waited_for) == ([False, False, True], True)
        await s.until(lambda: all(guest.wire.unsent for guest in deaf))
        for guest in deaf[1:]:
            guest.wire.take()
        await s.until(lambda: not s.node.output.is_over)
        assert play.look() == [True] * 3


async def test_while_the_disk_is_behind_nobody_is_read_from_if_too_much_waits_for_it() -> None:
    with NodeFixture(input_bytes=LIMIT, pending_jobs=1) as s:
        play = Play(s, 0, 0)
        s.node.engine.put_off(play.guests[0].connection.link)
        play.guests[0].conversation.task_bytes = LIMIT + 1
        assert play.look(CALM) == [False, True], "more bytes of the first are of no use"
        for _ in range(2):
            s.broker.submit(NewJob("q", "k", b"", Policy()), T)
        assert play.look(CALM) == [False, False]
        s.broker.drain()
        assert play.look(CALM) == [False, True]


async def test_whoever_has_sent_little_is_read_from_though_nobody_else_is() -> None:
    with NodeFixture(input_bytes=LIMIT) as s, pytest.MonkeyPatch.context() as patch:
        play = Play(s, *[0] * (SHORT_AT_ONCE + 4))
        sent = [SHORT_BYTES] * len(play.guests)
        sent[1], sent[2] = 0, SHORT_BYTES + 1

        def received(wire: Wire, which: int) -> int:
            return sent[[guest.wire for guest in play.guests].index(wire)]

        patch.setattr(input, "bytes_in_kernel", received)
        s.node.engine.inputs.append((play.guests[0].connection.link, bytes(LIMIT)))
        assert play.look(CALM) == [False] * len(play.guests)
        reading = play.look()
        assert (reading[:3], sum(reading)) == ([True, False, False], SHORT_AT_ONCE)
        assert play.look() == [False] * (SHORT_AT_ONCE + 2) + [True] * 2, (
            "the others have their turn"
        )
        s.node.engine.inputs.clear()
        assert play.look() == [True] * len(play.guests)
