"""Certificates that are read again while the server runs, and signals that come too early."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from franca.control.values import Address
from franca.node import listeners
from franca.node.settings import Settings, Tls
from tests.node.stage import Stage, asynchronous, stage
from tests.support.server import HOST
from tests.support.tls import Secured, secured


async def opened(s: Stage, tls: Secured) -> listeners.Listeners:
    settings = Settings(
        data="",
        listeners={"talk": (Address(host=HOST, tls=True),)},
        tls=Tls(certificate=str(tls.certificate), key=str(tls.key)),
    )
    doors = listeners.Listeners(s.node, settings)
    await doors.open(["talk"])
    return doors


async def answer(doors: listeners.Listeners, client: ssl.SSLContext) -> bytes:
    port = int(doors.addresses[0][1].rpartition(":")[2])
    reader, writer = await asyncio.open_connection(HOST, port, ssl=client)
    writer.write(b"ping")
    said = await reader.readuntil(b";")
    writer.close()
    return said


@asynchronous
async def test_a_certificate_without_its_key_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    old, new = secured(tmp_path), secured(tmp_path / "new")
    with stage(quick=True) as s:
        doors = await opened(s, old)
        assert await answer(doors, old.client) == b"pong;"
        shutil.copy(new.certificate, old.certificate)
        doors.reload()
        assert await answer(doors, old.client) == b"pong;"
        shutil.copy(new.key, old.key)
        doors.reload()
        assert await answer(doors, new.client) == b"pong;"
        with pytest.raises(ssl.SSLError):
            await answer(doors, old.client)
        old.key.unlink()
        doors.reload()
        assert await answer(doors, new.client) == b"pong;"
        doors.close()


def test_a_hang_up_while_the_server_starts_does_not_end_it(tmp_path: Path) -> None:
    """It is sent by the first thing that a start does."""
    program = (
        "import os, signal, sys\n"
        "from franca.node import run\n"
        "run.keep_large_buffers = lambda: os.kill(os.getpid(), signal.SIGHUP)\n"
        "run._run_on = lambda loop, server: 7\n"
        "from franca.node.settings import Settings\n"
        f"sys.exit(run.run(Settings(data={str(tmp_path)!r})))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ), timeout=30)
    assert done.returncode == 7
