"""Ports that somebody else has."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from franca.control.values import Address
from franca.node.listeners import shown_address
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


def test_a_server_that_was_given_a_port_but_may_not_listen_there_is_told() -> None:
    deaf = cast(asyncio.Server, SimpleNamespace(sockets=[None]))
    with pytest.raises(OSError) as told:
        shown_address(Address(host=HOST, port=7419), deaf)
    assert told.value.errno == errno.EADDRINUSE
