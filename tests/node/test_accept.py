"""Coming in: silent ones make room for others, from the first moment, over TLS too."""

import asyncio
import errno
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from franca.node import accept, log
from franca.node.listeners import Listeners
from franca.node.run import _loop_maker
from franca.node.settings import Settings, Tls
from franca.protocols.conversation import Link, Peer
from franca.store.memory import MemoryStore
from franca.values import Address
from tests.node.fixtures import PATIENCE_S, NodeFixture, Wire
from tests.support.server import HOST
from tests.support.tls import secured

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class House:
    """A node that listens, and those who have come."""

    def __init__(self, s: NodeFixture, listeners: Listeners, trust: ssl.SSLContext | None) -> None:
        self.s = s
        self.trust = trust
        self.listeners = listeners
        self.port = int(listeners.addresses[0][1].rpartition(":")[2])

    async def comes(self) -> Streams:
        return await asyncio.open_connection(HOST, self.port)

    async def comes_secured(self) -> Streams:
        return await asyncio.open_connection(HOST, self.port, ssl=self.trust)

    async def links(self, count: int) -> None:
        await self.s.until(lambda: len(self.s.engine.links) == count)


@asynccontextmanager
async def house(tmp_path: Path, *, has_tls: bool = False, **limits: int) -> AsyncIterator[House]:
    trust, tls = None, Tls()
    if has_tls:
        certificate, key, trust = secured(tmp_path)
        tls = Tls(str(certificate), str(key))
    with NodeFixture(MemoryStore(), quick=False, **limits) as s:
        settings = Settings(
            data=str(tmp_path), listeners={"talk": (Address(host=HOST, port=0),)}, tls=tls
        )
        listeners = Listeners(s.node, settings)
        await listeners.open(["talk"])
        try:
            yield House(s, listeners, trust)
        finally:
            listeners.close()


async def is_hung_up_on(streams: Streams) -> bool:
    """Whether the server closes this connection within a while."""
    try:
        return not await asyncio.wait_for(streams[0].read(1), PATIENCE_S)
    except ConnectionResetError:
        return True


async def is_answered(streams: Streams) -> bool:
    streams[1].write(b"ping\n")
    return await asyncio.wait_for(streams[0].readexactly(5), PATIENCE_S) == b"pong;"


async def test_when_all_places_are_taken_the_oldest_stranger_makes_room(tmp_path: Path) -> None:
    async with house(tmp_path, connections_max=3) as h:
        known = await h.comes()
        await h.links(1)
        h.s.service.knows_everybody = False
        strangers = [await h.comes() for _ in range(2)]
        await h.links(3)
        for stranger in strangers:
            newcomer = await h.comes()
            assert await is_hung_up_on(stranger)
            assert await is_answered(newcomer)
        assert await is_answered(known)
        await h.s.turns()
        assert h.s.node.notices.count == 2


async def test_when_everybody_is_known_the_next_is_told_so(tmp_path: Path) -> None:
    async with house(tmp_path, connections_max=2) as h:
        guests = [await h.comes() for _ in range(2)]
        await h.links(2)
        reader, _ = await h.comes()
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b"too many;"
        assert [await is_answered(guest) for guest in guests] == [True, True]


async def test_a_connection_that_has_ended_makes_room(tmp_path: Path) -> None:
    async with house(tmp_path, connections_max=1) as h:
        ended = Wire()
        ended.unsent = b"not received yet"
        h.s.node.lingering.add(ended)
        known = await h.comes()
        await h.links(1)
        await h.comes()
        await h.s.until(lambda: bool(ended.closed))
        assert await is_answered(known)


async def test_a_flood_of_strangers_never_takes_many_more_places_than_there_are(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, connections_max=4) as h:
        h.s.service.knows_everybody = False
        most = 0
        open_link = h.s.engine.open_link

        def counted(*arguments: object) -> object:
            nonlocal most
            link = open_link(*arguments)  # type: ignore[arg-type]
            most = max(most, len(h.s.engine.links))
            return link

        h.s.engine.open_link = counted  # type: ignore[assignment,method-assign]
        flood = [socket.create_connection((HOST, h.port)) for _ in range(100)]
        try:
            await h.s.until(lambda: h.s.node.next_link_id().endswith("-101") or most >= 4)
            await asyncio.sleep(2 * accept.REST_S)
            assert await is_answered(await h.comes())
            assert 4 <= most <= 4 + accept.LEAVING_MAX
        finally:
            for peer in flood:
                peer.close()


async def test_handshakes_count_and_make_room_for_those_who_come_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "TLS_HELLO_S", 1_000.0)
    async with house(tmp_path, has_tls=True, connections_max=3) as h:
        silent = [await h.comes() for _ in range(3)]
        served = []
        for _ in range(3):
            served.append(await h.comes_secured())
            assert await is_answered(served[-1])
        assert [await is_hung_up_on(one) for one in silent] == [True] * 3
        refused = await h.comes()
        assert await is_hung_up_on(refused)


async def test_over_tls_there_are_fewer_places_and_those_who_go_give_them_back(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, has_tls=True, tls_connections_max=3) as h:
        h.s.service.knows_everybody = False
        stranger = await h.comes_secured()
        await h.links(1)
        h.s.service.knows_everybody = True
        served = [await h.comes_secured() for _ in range(3)]
        assert await is_hung_up_on(stranger)
        assert [await is_answered(one) for one in served] == [True] * 3
        with pytest.raises(OSError):
            await h.comes_secured()
        served[0][1].close()
        await h.links(2)
        assert await is_answered(await h.comes_secured())


async def test_the_oldest_unknown_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accept, "TLS_HELLO_S", 1_000.0)
    async with house(tmp_path, has_tls=True, connections_max=3) as h:
        h.s.service.knows_everybody = False
        came: list[Streams] = [await h.comes()]
        await h.s.until(lambda: len(h.listeners._acceptor._arriving) == 1)
        for number in (1, 2):
            await asyncio.sleep(0.005)  # the clock has milliseconds
            came.append(await h.comes_secured())
            await h.links(number)
        for oldest in came[:]:
            await asyncio.sleep(0.005)
            came.append(await h.comes())
            assert await is_hung_up_on(oldest)


async def test_what_is_said_with_the_end_of_a_handshake_is_heard(tmp_path: Path) -> None:
    async with house(tmp_path, has_tls=True) as h:
        for _ in range(20):
            served = await h.comes_secured()
            assert await is_answered(served)
            served[1].close()


async def test_a_listener_without_a_descriptor_rests_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as h:
        lines: list[str] = []
        monkeypatch.setattr(log, "event", lambda level, name, *rest, **fields: lines.append(name))
        tried = 0
        (door,) = h.listeners._listeners
        accept = door.sock.accept

        class Exhausted:
            """A socket whose first three connections find no descriptor."""

            def accept(self) -> object:
                nonlocal tried
                tried += 1
                if tried <= 3:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                return accept()

            def __getattr__(self, name: str) -> object:
                return getattr(listening, name)

        listening = door.sock
        monkeypatch.setattr(door, "sock", Exhausted())
        assert await is_answered(await h.comes())
        assert 4 <= tried <= 6
        assert lines == ["accept-failed"]


async def test_one_that_was_hung_up_on_over_tls_soon_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "TLS_BYE_S", 0.05)
    async with house(tmp_path, has_tls=True) as h:
        _, writer = await h.comes_secured()
        await h.links(1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # so it never says goodbye
        writer.write(b"end\n")
        await h.links(0)
        writer.transport.abort()


async def cancel_a_handshake_as_it_ends(tmp_path: Path) -> bool:
    """Whether its peer is hung up on."""
    async with house(tmp_path, has_tls=True) as h:
        loop = asyncio.get_running_loop()
        cancelled = asyncio.Event()

        class Late:
            """Handshakes that are cancelled in the moment in which they end."""

            async def start_tls(self, *arguments: Any, **options: Any) -> None:
                await loop.start_tls(*arguments, **options)
                cancelled.set()
                raise asyncio.CancelledError

            def __getattr__(self, name: str) -> Any:
                return getattr(loop, name)

        h.listeners._acceptor._loop = Late()  # type: ignore[assignment]
        guest = await h.comes_secured()
        await cancelled.wait()
        try:
            return await is_hung_up_on(guest)
        except TimeoutError:
            return False
        finally:
            guest[1].transport.abort()


def test_a_handshake_that_is_cancelled_as_it_ends_leaves_no_descriptor(tmp_path: Path) -> None:
    """With the event loop of the server: it has descriptors of its own."""
    with asyncio.Runner(loop_factory=_loop_maker()) as runner:
        assert runner.run(cancel_a_handshake_as_it_ends(tmp_path))


RESET_AT_ONCE = struct.pack("ii", 1, 0)


async def test_one_reset_before_it_was_let_in_is_not_taken_for_a_unix_peer(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        came: list[Peer] = []
        open_link = h.s.engine.open_link

        def noted(service: str, link_id: str, peer: Peer, now: int) -> Link:
            came.append(peer)
            return open_link(service, link_id, peer, now)

        h.s.engine.open_link = noted  # type: ignore[assignment,method-assign]
        with socket.create_connection((HOST, h.port)) as gone:
            gone.sendall(b"ping\n")
            name = "{}:{}".format(*gone.getsockname())
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE)
        await h.s.until(lambda: bool(came))
        assert [(peer.address, peer.unix) for peer in came] == [(name, False)]


async def test_a_connection_whose_socket_has_no_address_is_not_local(tmp_path: Path) -> None:
    with NodeFixture(MemoryStore(), quick=False) as s:
        peer = s.guest().connection.link.peer
        assert (peer.local, peer.unix) == (False, False)


@pytest.mark.parametrize(
    ("family", "address", "is_local"),
    [
        (socket.AF_UNIX, "", True),
        (socket.AF_INET, ("127.0.0.1", 9), True),
        (socket.AF_INET, ("127.8.0.1", 9), True),
        (socket.AF_INET6, ("::1", 9, 0, 0), True),
        (socket.AF_INET6, ("::ffff:127.0.0.1", 9, 0, 0), True),
        (socket.AF_INET6, ("::ffff:192.0.2.1", 9, 0, 0), False),
        (socket.AF_INET6, ("2001:db8::127.0.0.1", 9, 0, 0), False),
        (socket.AF_INET, ("192.0.2.1", 9), False),
        (socket.AF_INET, (), False),
        (socket.AF_INET, None, False),
        (socket.AF_INET6, "", False),
    ],
)
def test_listener_and_address_tell_a_peer(family: int, address: object, is_local: bool) -> None:
    peer = accept.peer_at(family, address, "here")
    assert (peer.local, peer.unix, peer.listener) == (is_local, family == socket.AF_UNIX, "here")
