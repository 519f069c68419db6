"""What TLS takes in a pass, and what a peer may send that says nothing."""

import asyncio
from pathlib import Path

from franca.node import tls
from franca.node.tls import HandshakeQueue, SecureConnection, TlsThrottle
from tests.node.test_accept import House, house, is_answered, is_hung_up_on

RECORD_BYTES = 23
"""What one byte takes over TLS 1.3."""


class Hollow(asyncio.BufferedProtocol):
    """TLS of which nothing comes, or one byte for each record."""

    def __init__(self, below: TlsThrottle, *, speaks: bool = False) -> None:
        self._below = below
        self._speaks = speaks

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(256 * 1024)

    def buffer_updated(self, nbytes: int) -> None:
        if self._speaks:
            self._below.decrypted += nbytes // RECORD_BYTES

    def connection_lost(self, error: Exception | None) -> None:
        pass


def connection_of(h: House) -> SecureConnection:
    (link,) = h.s.engine.links
    assert isinstance(link.carrier, SecureConnection)
    return link.carrier


async def test_who_sends_much_below_tls_and_says_nothing_is_cut_off(tmp_path: Path) -> None:
    async with house(tmp_path, has_tls=True) as h:
        guest = await h.comes_secured()
        assert await is_answered(guest)
        connection = connection_of(h)
        connection.throttle._tls = Hollow(connection.throttle)
        piece = len(connection.throttle.get_buffer(-1))
        assert piece <= 20 * 1024
        sent = 0
        while not connection.link.closing:
            connection.throttle.buffer_updated(piece)
            sent += piece
            assert sent < 1024 * 1024
        assert sent > tls.IDLE_BYTES_MAX
        assert await is_hung_up_on(guest)
        await h.s.turns()
        assert h.s.node.notices.count == 1


async def test_who_says_nothing_for_long_waits_until_others_were_heard(tmp_path: Path) -> None:
    async with house(tmp_path, has_tls=True) as h:
        guest = await h.comes_secured()
        assert await is_answered(guest)
        connection = connection_of(h)
        real = connection.throttle._tls
        connection.throttle._tls = Hollow(connection.throttle)
        for _ in range(2):
            connection.throttle.buffer_updated(tls.PIECE_BYTES)
        assert connection.link.paused
        connection.throttle._tls = real
        assert await is_answered(guest)
        assert not connection.link.paused


async def test_a_piece_that_waits_as_the_handshake_ends_stops_nothing_for_good(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, has_tls=True) as h:
        guest = await h.comes_secured()
        assert await is_answered(guest)
        connection = connection_of(h)
        below, real = connection.throttle, connection.throttle._tls
        below.connection = None
        below._tls = Hollow(below)
        below.buffer_updated(1)  # paused, and at the handshakes
        below._tls = real
        below._take = lambda size: None  # type: ignore[method-assign]
        below.belong_to(connection)
        assert connection.link.paused
        await h.s.turns()
        await asyncio.sleep(0)
        del below._take
        assert not connection.link.paused
        assert await is_answered(guest)


async def test_who_says_single_bytes_is_served_a_share_of_each_pass(tmp_path: Path) -> None:
    async with house(tmp_path, has_tls=True) as h:
        guest = await h.comes_secured()
        assert await is_answered(guest)
        connection = connection_of(h)
        connection.throttle._tls = Hollow(connection.throttle, speaks=True)
        sent = 0
        while not connection.link.paused:
            connection.throttle.buffer_updated(tls.PIECE_BYTES)
            sent += tls.PIECE_BYTES
        assert tls.PASS_BYTES < sent <= tls.PASS_BYTES + tls.PIECE_BYTES
        assert not connection.link.closing


async def test_a_few_steps_of_handshakes_are_done_in_each_pass() -> None:
    handshakes = HandshakeQueue(asyncio.get_running_loop())
    done: list[int] = []
    for number in range(2 * tls.STEPS_PER_PASS + 1):
        handshakes.add(lambda number=number: done.append(number))  # type: ignore[misc]
    counts = []
    for _ in range(4):
        await asyncio.sleep(0)
        counts.append(len(done))
    few = tls.STEPS_PER_PASS
    assert (counts, done) == ([few, 2 * few, 2 * few + 1, 2 * few + 1], sorted(done))


async def test_many_who_say_hello_at_once_all_come_in(tmp_path: Path) -> None:
    async with house(tmp_path, has_tls=True) as h:
        guests = await asyncio.gather(*(h.comes_secured() for _ in range(30)))
        assert all([await is_answered(guest) for guest in guests])
