"""What peers have not taken: kept in order, once for all who wait for it, and bounded."""

from __future__ import annotations

import pytest

from franca.core.model import Millis
from franca.node.connection import CHUNK_BYTES
from franca.node.outlet import LAST_PATIENCE_MS, LOOK_MS, PASS_BYTES, PATIENCE_MS, Outlet
from franca.store.memory import MemoryStore
from tests.node.stage import Guest, Stage, asynchronous, stage

MIB = 1024 * 1024


class Time:
    """The outlet's clock, moved by hand."""

    def __init__(self, outlet: Outlet) -> None:
        self.now: Millis = outlet.now()
        outlet.now = lambda: self.now


def deaf(s: Stage, *, reads: int = 0) -> Guest:
    """A peer that reads so many bytes and then no more."""
    guest = s.guest()
    guest.wire.room = reads
    return guest


# -- order, shares, copies ------------------------------------------------------------------------


@asynchronous
async def test_what_a_socket_does_not_take_waits_in_order_and_leaves_when_it_does() -> None:
    with stage(MemoryStore()) as s:
        guest = deaf(s, reads=3)
        guest.says("ping")
        await s.turns()
        guest.says("bulk " + "x" * 100)
        guest.says("ping")
        await s.turns()
        assert (guest.heard, guest.wire.unsent) == ("pon", b"g;")
        assert s.node.outlet.total == len(b"g;") + len(b"bulk ") + 100 + len(b";pong;")
        guest.wire.take()
        await guest.hears("pong;bulk " + "x" * 100 + ";pong;")
        assert s.node.outlet.total == 0
        guest.says("ping")
        await s.turns()
        assert guest.heard.endswith(";pong;pong;")


@asynchronous
async def test_a_large_message_is_cut_up_and_others_get_theirs_between() -> None:
    with stage(MemoryStore()) as s:
        guests = [s.guest() for _ in range(3)]
        body = b"x" * (PASS_BYTES + 10)
        for guest in guests:
            guest.connection.send(body)
        assert not guests[0].wire.writes
        await s.until(lambda: bool(guests[0].wire.writes))
        assert 0 < len(guests[2].wire.heard) < len(body)
        await s.until(lambda: s.node.outlet.total == 0)
        for guest in guests:
            assert guest.wire.heard == body
            assert max(map(len, guest.wire.writes)) == CHUNK_BYTES


@asynchronous
async def test_a_piece_that_many_wait_for_counts_once_until_the_last_has_it() -> None:
    with stage(MemoryStore()) as s:
        guests = [deaf(s) for _ in range(5)]
        result = b"r" * MIB
        for guest in guests:
            guest.connection.send((b"head", result))
        await s.until(lambda: all(guest.wire.unsent for guest in guests))
        assert s.node.outlet.total == MIB + 5 * len(b"head")
        for number, guest in enumerate(guests):
            assert s.node.outlet.total == MIB + (5 - number) * len(b"head")
            guest.wire.take()
            await s.until(lambda: guest.wire.heard == b"head" + result)  # noqa: B023
        assert s.node.outlet.total == 0


@asynchronous
async def test_a_piece_counts_until_its_last_byte_is_taken_or_its_reader_gone() -> None:
    with stage(MemoryStore()) as s:
        slow, gone = deaf(s, reads=MIB - 1), deaf(s)
        slow.connection.send(b"a" * MIB)
        gone.connection.send(b"b" * MIB)
        await s.until(lambda: len(slow.wire.heard) == MIB - 1)
        assert s.node.outlet.total == 2 * MIB
        gone.vanishes()
        assert s.node.outlet.total == MIB
        slow.wire.take()
        assert s.node.outlet.total == 0


@asynchronous
async def test_over_a_socket_that_died_nothing_waits_for_ever() -> None:
    with stage(MemoryStore()) as s:
        guest, other = s.guest(), s.guest()
        guest.wire.dead = True
        guest.connection.send(b"x" * MIB)
        other.connection.send(b"y" * MIB)
        await s.until(lambda: len(other.wire.heard) == MIB)
        assert s.node.outlet.total == 0


# -- the end of a connection ------------------------------------------------------------------------


@asynchronous
async def test_whoever_is_hung_up_on_gets_what_was_said_before() -> None:
    with stage(MemoryStore()) as s:
        guest = deaf(s)
        guest.says("bulk " + "x" * MIB, "end")
        await s.until(lambda: bool(guest.wire.unsent))
        assert not guest.wire.closed
        guest.wire.take()
        await s.until(lambda: guest.wire.closed == "closed")
        assert guest.heard == "bulk " + "x" * MIB + ";"


@asynchronous
async def test_whoever_says_no_more_gets_what_was_said_before() -> None:
    with stage(MemoryStore()) as s:
        guest = deaf(s)
        assert not guest.connection.eof_received()
        guest.connection.send(b"x" * MIB)
        await s.until(lambda: bool(guest.wire.unsent))
        assert guest.connection.eof_received()
        guest.wire.take()
        await s.until(lambda: guest.wire.closed == "closed")
        assert len(guest.wire.heard) == MIB


@asynchronous
@pytest.mark.parametrize("large", [True, False])
async def test_what_was_not_taken_was_not_heard(large: bool) -> None:
    with stage(MemoryStore()) as s:
        guest = deaf(s, reads=3)
        guest.connection.send(b"x" * (MIB if large else 10))
        await s.until(lambda: bool(guest.wire.unsent))
        guest.vanishes()
        assert guest.talk.hung_up == [True]


# -- bounds of one connection -----------------------------------------------------------------------


@asynchronous
async def test_a_peer_that_does_not_read_is_not_read_from_until_it_does() -> None:
    with stage(MemoryStore(), output_soft_bytes=10) as s:
        guest = deaf(s)
        for count in (1, 2, 3):
            guest.says("ping")
            await s.turns()
            assert guest.wire.reading, count
        guest.says("ping")
        await s.turns()
        assert not guest.wire.reading
        assert guest.connection.link.full
        guest.wire.take()
        await guest.hears("pong;" * 4)
        assert guest.wire.reading
        assert not guest.connection.link.full


@asynchronous
async def test_a_peer_that_does_not_read_is_at_last_cut_off() -> None:
    with stage(MemoryStore(), output_soft_bytes=500, output_hard_bytes=1_000) as s:
        time = Time(s.node.outlet)
        guest = deaf(s)
        guest.connection.send(b"first")
        time.now += LAST_PATIENCE_MS
        for body in (b"a long message may pass" * 100, b"x" * 900, b"y" * 101):
            guest.connection.send(body)
            assert closed([guest]) == [""]
        time.now -= 1
        guest.connection.send(b"who knows whether it reads")
        assert closed([guest]) == [""]
        time.now += 1
        guest.connection.send(b"but no more")
        assert closed([guest]) == ["aborted"]
        assert s.node.outlet.total == 0
        await s.turns()
        assert s.node.notices.count == 1


@asynchronous
async def test_a_peer_that_need_not_hear_everything_is_listened_to_while_it_does_not_read() -> None:
    with stage(MemoryStore(), output_soft_bytes=10) as s:
        guest = deaf(s)
        guest.talk.drops = True
        guest.says("ping")
        await s.turns()
        guest.says(*["ping"] * 20)
        await s.turns()
        assert guest.wire.reading
        assert guest.connection.link.full
        guest.wire.take()
        await guest.hears("pong;" * 21)
        assert not guest.connection.link.full


# -- the bound of all together ----------------------------------------------------------------------


async def stuffed(s: Stage, *sizes: int) -> list[Guest]:
    """Peers that take nothing of messages of these sizes, a second apart."""
    time = Time(s.node.outlet)
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


@asynchronous
async def test_while_there_is_too_much_those_go_who_have_taken_nothing_for_longest() -> None:
    with stage(MemoryStore(), output_bytes=MIB) as s:
        guests = await stuffed(s, *[MIB // 2] * 3)
        outlet = s.node.outlet
        time = Time(outlet)
        assert outlet.is_over
        outlet.look(True)
        assert closed(guests) == [""] * 3
        time.now += PATIENCE_MS
        outlet.look(False)
        assert closed(guests) == [""] * 3, "nobody waits for room"
        outlet.look(True)
        assert closed(guests) == ["aborted", "", ""]
        assert not outlet.is_over
        time.now += LOOK_MS
        outlet.look(True)
        assert closed(guests) == ["aborted", "", ""], "there is room again"


@asynchronous
async def test_when_there_is_three_times_too_much_there_is_little_patience() -> None:
    with stage(MemoryStore(), output_bytes=MIB) as s:
        guests = await stuffed(s, *[450_000] * 6)
        s.node.outlet.look(False)
        assert closed(guests) == [""] * 6
        guests += await stuffed(s, 450_000)
        s.node.outlet.look(False)
        assert closed(guests) == ["aborted"] + [""] * 6


@asynchronous
async def test_one_message_may_pass_however_large() -> None:
    with stage(MemoryStore(), output_bytes=MIB, output_hard_bytes=9 * MIB) as s:
        guests = await stuffed(s, 8 * MIB, MIB // 8)
        outlet = s.node.outlet
        Time(outlet).now += PATIENCE_MS
        assert not outlet.is_over
        outlet.look(True)
        assert closed(guests) == ["", ""]
        guests[1].connection.send(b"y" * (MIB // 8 + 1))
        assert outlet.is_over


@asynchronous
async def test_whoever_reads_slowly_but_reads_is_not_cut_off() -> None:
    with stage(MemoryStore(), output_bytes=MIB) as s:
        guests = await stuffed(s, MIB, MIB // 2, MIB // 4)
        time = Time(s.node.outlet)
        for _ in range(3):
            time.now += PATIENCE_MS - 1
            guests[0].wire.take(CHUNK_BYTES)
            await s.until(lambda: bool(guests[0].wire.unsent))
            s.node.outlet.look(True)
        assert closed(guests) == ["", "aborted", ""]


@asynchronous
async def test_whoever_is_hung_up_on_and_takes_nothing_is_not_waited_for_long() -> None:
    with stage(MemoryStore()) as s:
        guests = await stuffed(s, 10, 10)
        time = Time(s.node.outlet)
        guests[1].connection.link.close()
        await s.turns()
        time.now += PATIENCE_MS
        s.node.outlet.look(False)
        assert closed(guests) == ["", "aborted"]
