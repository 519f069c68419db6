"""Ports that somebody else has."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from franca.node import listeners, log
from franca.node.config import load
from franca.node.listeners import Listeners
from franca.node.settings import Settings, Shown
from franca.values import Address, read_addresses
from tests.node.fixtures import NodeFixture
from tests.support.server import HOST, Server, ServerFailed

GEARMAN_PORT = 4730


def test_a_default_port_that_is_taken_silences_its_protocol_alone(tmp_path: Path) -> None:
    with socket.socket() as other:
        try:
            other.bind((HOST, GEARMAN_PORT))
            other.listen()
        except OSError:
            pass  # somebody else has it already, which is as good
        # MemoDB's listener comes after Gearman's: when it listens, the other has been tried.
        with Server(tmp_path / "data", speaks=("memodb",), by_default=("gearman",)) as server:
            assert "cannot listen for gearman" in server.log_tail()
            assert "--gearman ADDR listens elsewhere" in server.log_tail()


def test_a_port_that_was_asked_for_and_is_taken_is_the_end(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        server = Server(tmp_path / "data", port=other.getsockname()[1])
        with pytest.raises(ServerFailed, match="cannot listen for faktory"):
            server.start()


async def test_a_port_on_which_another_begins_to_listen_meanwhile_is_the_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = listeners._bind

    with socket.socket() as other, NodeFixture() as s:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, 0))

        async def beaten(address: Address, sockets: list[socket.socket]) -> None:
            await bind(address, sockets)
            other.listen()

        monkeypatch.setattr(listeners, "_bind", beaten)
        where = (Address(host=HOST, port=other.getsockname()[1]),)
        settings = Settings(data=str(tmp_path), listeners={"talk": where})
        with pytest.raises(OSError, match="cannot listen for talk"):
            await listeners.Listeners(s.node, settings).open(["talk"])


@contextmanager
def taken(family: int = socket.AF_INET, host: str = HOST) -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket(family) as other:
        other.bind((host, 0))
        other.listen()
        yield other.getsockname()[1]


def by_default(tmp_path: Path, named: tuple[str, ...] = (), **addresses: str) -> Settings:
    """Settings with these listeners, of which those that are not `named` are the defaults."""
    shown = [Shown(f"{name}.listen", "", "default") for name in addresses if name not in named]
    return Settings(
        data=str(tmp_path),
        listeners={name: read_addresses(text) for name, text in addresses.items()},
        shown=tuple(shown),
    )


@contextmanager
def listening(s: NodeFixture, settings: Settings) -> Iterator[Listeners]:
    opened = Listeners(s.node, settings)
    try:
        yield opened
    finally:
        opened.close()


async def fails(s: NodeFixture, settings: Settings, *names: str) -> None:
    """Nothing is listened on, because of the first of these."""
    opened = Listeners(s.node, settings)
    with pytest.raises(OSError, match=f"cannot listen for {names[0]}"):
        await opened.open(names)
    opened.close()


async def test_of_several_default_addresses_those_that_are_free_are_listened_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[str, ...]] = []
    monkeypatch.setattr(log, "event", lambda *words, **fields: lines.append(words))
    with NodeFixture() as s, taken() as port:
        path = tmp_path / "own.sock"
        where = f"{HOST}:{port}, {HOST}:0, unix:{path}"
        with listening(s, by_default(tmp_path, talk=where)) as opened:
            await opened.open(["talk"])
            free = [shown for _name, shown in opened.addresses]
            assert len(free) == 2
            assert f"{HOST}:{port}" not in free
            assert free[1] == f"unix:{path}"
            assert path.is_socket()
    (warning,) = [words for words in lines if words[0] == "warning"]
    assert warning[1] == "not-listening"
    assert f"{HOST}:{port}" in warning[2]


@pytest.mark.parametrize("rest", ["off", "unix:{}/own.sock"])
async def test_where_every_default_is_taken_the_start_fails(tmp_path: Path, rest: str) -> None:
    """A socket in the data directory that nobody asked for does not count."""

    with NodeFixture() as s, taken() as one, taken() as two:
        rest_there = rest.format(tmp_path)
        settings = by_default(
            tmp_path, talk=f"{HOST}:{one}", other=f"{HOST}:{two}", third=rest_there
        )
        await fails(s, settings, "talk", "other", "third")
        assert not list(tmp_path.glob("*.sock"))


@pytest.mark.parametrize("named", [f"{HOST}:0", "unix:{}/named.sock"])
async def test_what_was_asked_for_is_enough_without_defaults(tmp_path: Path, named: str) -> None:
    with NodeFixture() as s, taken() as one:
        where = {"talk": f"{HOST}:{one}", "asked": named.format(tmp_path)}
        with listening(s, by_default(tmp_path, ("asked",), **where)) as opened:
            await opened.open(["talk", "asked"])
            assert [name for name, _shown in opened.addresses] == ["asked"]


@pytest.mark.parametrize("source", ["flag", "variable", "original", "file"])
async def test_a_taken_port_that_was_asked_for_is_an_error(tmp_path: Path, source: str) -> None:
    with NodeFixture() as s, taken() as port:
        file = tmp_path / "franca.toml"
        file.write_text(f'[gearman]\nlisten = "{HOST}:{port}"\n' if source == "file" else "")
        env = {"variable": {"FRANCA_GEARMAN__LISTEN": f"{HOST}:{port}"}}
        env["original"] = {"GEARMAND_PORT": str(port)}
        flags = {"gearman.listen": (f"{HOST}:{port}",)} if source == "flag" else {}
        settings = load({"data": str(tmp_path), **flags}, env.get(source, {}), str(file))
        await fails(s, settings, "gearman")


async def test_a_name_of_two_families_is_taken_if_one_of_them_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a listener would be worse than none: clients would meet one server or the other."""
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    loop = asyncio.get_running_loop()
    with NodeFixture() as s, taken(socket.AF_INET6, "::1") as port:

        async def both(*_: object, **__: object) -> list[tuple[object, ...]]:
            kind = socket.SOCK_STREAM
            v4 = (socket.AF_INET, kind, 0, "", (HOST, port))
            return [v4, (socket.AF_INET6, kind, 0, "", ("::1", port, 0, 0))]

        monkeypatch.setattr(loop, "getaddrinfo", both)
        await fails(s, by_default(tmp_path, talk=f"localhost:{port}"), "talk")
        with socket.socket() as free:
            free.bind((HOST, port))  # the other half was let go of
