"""What peers have not taken: kept in order, once for all who wait for it, and bounded."""

import pytest

from franca.core.model import Millis
from franca.node.connection import CHUNK_BYTES
from franca.node.output import LOOK_MS, PASS_BYTES, SHORT_STALL_MS, STALL_MS, Output
from franca.store.memory import MemoryStore
from tests.node.fixtures import Guest, NodeFixture

MIB = 1024 * 1024
pytestmark = pytest.mark.node(store=MemoryStore)


class Time:
    """The output's clock, moved by hand."""

    def __init__(self, output: Output) -> None:
        self.now: Millis = output.now()
        output.now = lambda: self.now


def deaf(s: NodeFixture, *, reads: int = 0) -> Guest:
    """A peer that reads so many bytes and then no more."""
    guest = s.guest()
    guest.wire.room = reads
    return guest


# -- order, shares, copies ------------------------------------------------------------------------


async def test_what_a_socket_does_not_take_waits_in_order_and_leaves_when_it_does(
    s: NodeFixture,
) -> None:
    guest = deaf(s, reads=3)
    guest.says("ping")
    await s.turns()
    guest.says("bulk " + "x" * 100)
    guest.says("ping")
    await s.turns()
    assert (guest.heard, guest.wire.unsent) == ("pon", b"g;")
    assert s.node.output.total == len(b"g;") + len(b"bulk ") + 100 + len(b";pong;")
    guest.wire.take()
    await guest.hears("pong;bulk " + "x" * 100 + ";pong;")
    assert s.node.output.total == 0
    guest.says("ping")
    await s.turns()
    assert guest.heard.endswith(";pong;pong;")


async def test_a_large_message_is_cut_up_and_others_get_theirs_between(s: NodeFixture) -> None:
    guests = [s.guest() for _ in range(3)]
    body = b"x" * (PASS_BYTES + 10)
    for guest in guests:
        guest.connection.send(body)
    assert not guests[0].wire.writes
    await s.until(lambda: bool(guests[0].wire.writes))
    assert 0 < len(guests[2].wire.heard) < len(body)
    await s.until(lambda: s.node.output.total == 0)
    for guest in guests:
        assert guest.wire.heard == body
        assert max(map(len, guest.wire.writes)) == CHUNK_BYTES


async def test_a_piece_that_many_wait_for_counts_once_until_the_last_has_it(s: NodeFixture) -> None:
    guests = [deaf(s) for _ in range(5)]
    result = b"r" * MIB
    for guest in guests:
        guest.connection.send((b"head", result))
    await s.until(lambda: all(guest.wire.unsent for guest in guests))
    assert s.node.output.total == MIB + 5 * len(b"head")
    for number, guest in enumerate(guests):
        assert s.node.output.total == MIB + (5 - number) * len(b"head")
        guest.wire.take()
        await s.until(lambda: guest.wire.heard == b"head" + result)  # noqa: B023
    assert s.node.output.total == 0


async def test_a_piece_counts_until_its_last_byte_is_taken_or_its_reader_gone(
    s: NodeFixture,
) -> None:
    slow, gone = deaf(s, reads=MIB - 1), deaf(s)
    slow.connection.send(b"a" * MIB)
    gone.connection.send(b"b" * MIB)
    await s.until(lambda: len(slow.wire.heard) == MIB - 1)
    assert s.node.output.total == 2 * MIB
    gone.vanishes()
    assert s.node.output.total == MIB
    slow.wire.take()
    assert s.node.output.total == 0


async def test_over_a_socket_that_died_nothing_waits_for_ever(s: NodeFixture) -> None:
    guest, other = s.guest(), s.guest()
    guest.wire.dead = True
    guest.connection.send(b"x" * MIB)
    other.connection.send(b"y" * MIB)
    await s.until(lambda: len(other.wire.heard) == MIB)
    assert s.node.output.total == 0


# -- the end of a connection ------------------------------------------------------------------------


async def test_whoever_is_hung_up_on_gets_what_was_said_before(s: NodeFixture) -> None:
    guest = deaf(s)
    guest.says("bulk " + "x" * MIB, "end")
    await s.until(lambda: bool(guest.wire.unsent))
    assert not guest.wire.closed
    guest.wire.take()
    await s.until(lambda: guest.wire.closed == "closed")
    assert guest.heard == "bulk " + "x" * MIB + ";"


async def test_whoever_says_no_more_gets_what_was_said_before(s: NodeFixture) -> None:
    guest = deaf(s)
    assert not guest.connection.eof_received()
    guest.connection.send(b"x" * MIB)
    await s.until(lambda: bool(guest.wire.unsent))
    assert guest.connection.eof_received()
    guest.wire.take()
    await s.until(lambda: guest.wire.closed == "closed")
    assert len(guest.wire.heard) == MIB


async def test_a_peer_that_sends_no_more_is_answered_where_its_protocol_has_it_so(
    s: NodeFixture,
) -> None:
    guest = deaf(s)
    guest.connection.link.conversation.hears_end = True
    assert guest.connection.eof_received()
    await s.until(lambda: guest.connection.link.input_ended)
    assert guest.wire.closed == ""


@pytest.mark.parametrize("large", [True, False])
async def test_what_was_not_taken_was_not_heard(s: NodeFixture, large: bool) -> None:
    guest = deaf(s, reads=3)
    guest.connection.send(b"x" * (MIB if large else 10))
    await s.until(lambda: bool(guest.wire.unsent))
    guest.vanishes()
    assert guest.conversation.hung_up == [True]


# -- bounds of one connection -----------------------------------------------------------------------


async def test_a_peer_that_does_not_read_is_not_read_from_until_it_does() -> None:
    with NodeFixture(MemoryStore(), output_soft_bytes=10) as s:
        guest = deaf(s)
        for count in (1, 2, 3):
            guest.says("ping")
            await s.turns()
            assert guest.wire.reading, count
        guest.says("ping")
        await s.turns()
        assert (guest.wire.reading, guest.connection.link.full) == (False, True)
        guest.wire.take()
        await guest.hears("pong;" * 4)
        assert guest.wire.reading
        assert not guest.connection.link.full


async def test_a_peer_that_does_not_read_is_at_last_cut_off() -> None:
    with NodeFixture(MemoryStore(), output_soft_bytes=500, output_hard_bytes=1_000) as s:
        time = Time(s.node.output)
        guest = deaf(s)
        guest.connection.send(b"first")
        time.now += SHORT_STALL_MS
        for body in (b"a long message may pass" * 100, b"x" * 900, b"y" * 101):
            guest.connection.send(body)
            assert closed([guest]) == [""]
        time.now -= 1
        guest.connection.send(b"who knows whether it reads")
        assert closed([guest]) == [""]
        time.now += 1
        guest.connection.send(b"but no more")
        assert (closed([guest]), s.node.output.total) == (["aborted"], 0)
        await s.turns()
        assert s.node.notices.count == 1


async def test_a_peer_that_need_not_hear_everything_is_listened_to_while_it_does_not_read() -> None:
    with NodeFixture(MemoryStore(), output_soft_bytes=10) as s:
        guest = deaf(s)
        guest.conversation.drops = True
        guest.says("ping")
        await s.turns()
        guest.says(*["ping"] * 20)
        await s.turns()
        assert (guest.wire.reading, guest.connection.link.full) == (True, True)
        guest.wire.take()
        await guest.hears("pong;" * 21)
        assert not guest.connection.link.full


# -- the bound of all together ----------------------------------------------------------------------


async def stuffed(s: NodeFixture, *sizes: int) -> list[Guest]:
    """Peers that take nothing of messages of these sizes, a second apart."""
    time = Time(s.node.output)
    s.node._ticker.cancel()
    guests = []
    for size in sizes:
        guests.append(deaf(s))
        guests[-1].connection.send(b"x" * size)
        await s.until(lambda: bool(guests[-1].wire.unsent))
        time.now += 1_000
    return guests


def closed(guests: list[Guest]) -> list[str]:
    return [guest.wire.closed for guest in guests]


async def test_while_there_is_too_much_those_go_who_have_taken_nothing_for_longest() -> None:
    with NodeFixture(MemoryStore(), output_bytes=MIB) as s:
        guests = await stuffed(s, *[MIB // 2] * 3)
        output = s.node.output
        time = Time(output)
        assert output.is_over
        output.look(True)
        assert closed(guests) == [""] * 3
        time.now += STALL_MS
        output.look(False)
        assert closed(guests) == [""] * 3, "nobody waits for room"
        output.look(True)
        assert (closed(guests), output.is_over) == (["aborted", "", ""], False)
        time.now += LOOK_MS
        output.look(True)
        assert closed(guests) == ["aborted", "", ""], "there is room again"


async def test_when_there_is_three_times_too_much_there_is_little_patience() -> None:
    with NodeFixture(MemoryStore(), output_bytes=MIB) as s:
        guests = await stuffed(s, *[450_000] * 6)
        s.node.output.look(False)
        assert closed(guests) == [""] * 6
        guests += await stuffed(s, 450_000)
        s.node.output.look(False)
        assert closed(guests) == ["aborted"] + [""] * 6


async def test_one_message_may_pass_however_large() -> None:
    with NodeFixture(MemoryStore(), output_bytes=MIB, output_hard_bytes=9 * MIB) as s:
        guests = await stuffed(s, 8 * MIB, MIB // 8)
        output = s.node.output
        Time(output).now += STALL_MS
        assert not output.is_over
        output.look(True)
        assert closed(guests) == ["", ""]
        guests[1].connection.send(b"y" * (MIB // 8 + 1))
        assert output.is_over


async def test_whoever_reads_slowly_but_reads_is_not_cut_off() -> None:
    with NodeFixture(MemoryStore(), output_bytes=MIB) as s:
        guests = await stuffed(s, MIB, MIB // 2, MIB // 4)
        time = Time(s.node.output)
        for _ in range(3):
            time.now += STALL_MS - 1
            guests[0].wire.take(CHUNK_BYTES)
            await s.until(lambda: bool(guests[0].wire.unsent))
            s.node.output.look(True)
        assert closed(guests) == ["", "aborted", ""]


async def test_whoever_is_hung_up_on_and_takes_nothing_is_not_waited_for_long(
    s: NodeFixture,
) -> None:
    guests = await stuffed(s, 10, 10)
    time = Time(s.node.output)
    guests[1].connection.link.close()
    await s.turns()
    time.now += STALL_MS
    s.node.output.look(False)
    assert closed(guests) == ["", "aborted"]
