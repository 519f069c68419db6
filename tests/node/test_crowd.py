"""What many are told together stays within its bound, and no turn takes long for everybody else."""

import pytest

from franca.core.model import Millis
from franca.engine.engine import SLICE
from franca.node import pressure
from franca.node.output import JOINED_BYTES, PACE_MS, SHARED_BYTES
from franca.store.memory import MemoryStore
from tests.node.fixtures import Guest, NodeFixture

MIB = 1024 * 1024


def deaf(s: NodeFixture, count: int) -> list[Guest]:
    """Peers that read nothing."""
    guests = [s.guest() for _ in range(count)]
    for guest in guests:
        guest.wire.room = 0
    return guests


def spread(teller: Guest, others: list[Guest], patch: pytest.MonkeyPatch) -> list[bytes]:
    """Have whatever one peer says told to the others; returns what it said."""
    told: list[bytes] = []

    def on_message(message: tuple[bytes, ...], now: Millis) -> None:
        data = b"".join(message)
        told.append(data)
        for other in others:
            other.connection.link.write(data)

    patch.setattr(teller.conversation, "on_message", on_message)
    return told


# -- pieces that many are told ------------------------------------------------------------------


@pytest.mark.parametrize("last", [b"", b"short"])
async def test_what_many_are_told_in_one_turn_is_there_once(last: bytes) -> None:
    with NodeFixture(MemoryStore()) as s:
        guests = deaf(s, 10)
        pieces = [bytes([number]) * SHARED_BYTES for number in range(1 + JOINED_BYTES // 1024)]
        for guest in guests:
            for piece in (*pieces, last) if last else pieces:
                guest.connection.link.write(piece)
        s.node.soon()
        await s.until(lambda: all(guest.wire.unsent for guest in guests))
        assert s.node.output.total == sum(map(len, pieces)) + 10 * len(last)
        for guest in guests:
            guest.wire.take()
        await s.until(lambda: all(guest.wire.heard == b"".join(pieces) + last for guest in guests))
        assert s.node.output.total == 0


async def test_little_is_said_in_one_piece() -> None:
    with NodeFixture(MemoryStore()) as s:
        guest = s.guest()
        for piece in (b"a" * SHARED_BYTES, b"b" * SHARED_BYTES):
            guest.connection.link.write(piece)
        s.node.soon()
        await s.until(lambda: bool(guest.wire.heard))
        assert len(guest.wire.writes) == 1


async def test_answers_that_wait_for_the_disk_count_as_unsent(s: NodeFixture) -> None:
    guest = await s.writer("push a")
    assert s.node.output.total == len("pushed a;")
    guest.says("ping")
    await s.turns()
    assert s.node.output.total == len("pushed a;pong;")
    await s.ends()
    await guest.hears("pushed a;pong;")
    assert s.node.output.total == 0


# -- those who add to it, and those who take too little of it ----------------------------------------


async def test_while_too_much_is_unsent_nobody_adds_to_what_others_have_not_taken() -> None:
    with NodeFixture(MemoryStore(), output_bytes=MIB) as s, pytest.MonkeyPatch.context() as patch:
        guests = deaf(s, 5)
        teller, other = s.guest(), s.guest()
        told = spread(teller, guests, patch)
        size = 300_000
        for _ in range(4):
            teller.says(str(len(told)) * size)
            await s.turns()
        assert (len(told), s.node.output.is_over) == (4, True)
        teller.says("4" * size)
        await s.turns()
        assert len(told) == 5
        assert not teller.wire.reading, "it made it worse, and must wait"
        assert s.node.pressure.is_waited_for
        teller.says("5" * size)
        await s.turns()
        assert (len(told), s.node.output.total) == (5, 5 * size)
        await other.asks("ping", hears="pong;")
        for guest in guests:
            guest.wire.take()
        await s.until(lambda: len(told) == 6)
        assert (teller.wire.reading, s.node.pressure.is_waited_for) == (True, False)


async def test_while_too_much_is_unsent_nobody_is_answered_who_takes_no_answers() -> None:
    with NodeFixture(MemoryStore(), output_bytes=MIB) as s:
        deaf(s, 1)[0].connection.send((b"x" * MIB, b"y" * MIB))
        quiet = deaf(s, 1)[0]
        await s.turns()
        for _ in range(20):
            quiet.says(*["ping"] * 200)
            await s.turns()
        assert (quiet.wire.reading, quiet.connection.link.full) == (False, True)
        assert s.node.output.total < 2 * MIB + 10_000
        quiet.wire.take()
        await quiet.hears("pong;" * 4_000)
        assert quiet.wire.reading


@pytest.mark.parametrize(("bytes_per_s", "in_time"), [(20_000, True), (10_000, False)])
async def test_more_than_a_share_must_be_taken_fairly(bytes_per_s: int, in_time: bool) -> None:
    with NodeFixture(MemoryStore(), output_bytes=MIB) as s:
        s.node._ticker.cancel()
        output = s.node.output
        now = output.now()
        output.now = lambda: now
        slow, modest = deaf(s, 2)
        slow.connection.send((b"x" * (MIB // 2), b"y" * (MIB // 2)))
        modest.connection.send(b"z" * 100_000)
        await s.turns()
        for _ in range(4):
            for _ in range(PACE_MS // 1_000):
                now += 1_000
                slow.wire.take(bytes_per_s)
                await s.turns()
                output.look(True)
        assert bool(slow.wire.closed) is not in_time
        assert bool(modest.wire.closed) is in_time, "it takes nothing, and there is still too much"


# -- turns that take long -------------------------------------------------------------------------


async def test_a_turn_ends_when_it_has_taken_long_and_the_next_goes_on() -> None:
    with NodeFixture(MemoryStore()) as s, pytest.MonkeyPatch.context() as patch:
        guests = [s.guest() for _ in range(4 * SLICE)]
        await s.turns()
        clock = 1.0

        def monotonic() -> float:
            nonlocal clock
            clock += pressure.PASS_S / 2
            return clock

        patch.setattr(pressure, "monotonic", monotonic)
        for guest in guests:
            guest.says("ping")
        s.node._turn()
        heard = [guest.heard for guest in guests]
        assert (heard, s.node.turn_set) == (["pong;"] * 3 * SLICE + [""] * SLICE, True)
        await s.until(lambda: all(guest.heard == "pong;" for guest in guests))


async def test_nothing_is_read_while_much_was_read_that_turns_did_not_come_to() -> None:
    with NodeFixture(MemoryStore(), input_bytes=MIB) as s:
        s.node._ticker.cancel()
        guest, other = s.guest(), s.guest()
        await s.turns()
        s.engine.inputs.append((guest.connection.link, b"x" * (MIB // 4 + 1)))
        s.node.input.look(1)
        assert not other.wire.reading
        assert s.node.input.room < 0, "it is looked at again after the next turn"
        s.engine.inputs.clear()
        s.node.input.look(2)
        assert other.wire.reading
