"""Ports that somebody else has."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from franca.control.values import Address
from franca.node import listeners
from franca.node.settings import Settings
from tests.node.stage import asynchronous, stage
from tests.support.server import HOST, Server, ServerFailed

GEARMAN_PORT = 4730


def test_a_default_port_that_is_taken_keeps_its_protocol_silent_and_no_other(
    tmp_path: Path,
) -> None:
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


@asynchronous
async def test_a_port_on_which_another_begins_to_listen_meanwhile_is_the_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound_to = listeners._bound_to

    with socket.socket() as other, stage() as s:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, 0))

        async def beaten(address: Address) -> list[socket.socket]:
            sockets = await bound_to(address)
            other.listen()
            return sockets

        monkeypatch.setattr(listeners, "_bound_to", beaten)
        where = (Address(host=HOST, port=other.getsockname()[1]),)
        settings = Settings(data=str(tmp_path), listeners={"talk": where})
        with pytest.raises(OSError, match="cannot listen for talk"):
            await listeners.Listeners(s.node, settings).open(["talk"])
