"""Certificates that are read again while the server runs, and signals that come too early."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from franca.node import listeners
from franca.node.settings import ConfigError, Settings, Tls
from franca.values import Address
from tests.node.fixtures import NodeFixture
from tests.support.server import HOST
from tests.support.tls import Secured, secured


async def opened(s: NodeFixture, tls: Secured) -> listeners.Listeners:
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
    writer.write(b"ping\n")
    said = await reader.readuntil(b";")
    writer.close()
    return said


async def test_a_certificate_without_its_key_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    old, new = secured(tmp_path), secured(tmp_path / "new")
    with NodeFixture(quick=True) as s:
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


def with_passphrase(tls: Secured) -> None:
    key = serialization.load_pem_private_key(tls.key.read_bytes(), None)
    tls.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"abcd"),
        )
    )


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "named", "reason"),
    [
        (with_passphrase, "key.pem", "passphrase"),
        (lambda tls: become_a_pipe(tls.key), "key.pem", "no regular file"),
        (lambda tls: become_a_pipe(tls.certificate), "cert.pem", "no regular file"),
        (lambda tls: tls.certificate.unlink(), "cert.pem", "No such file"),
        (lambda tls: tls.certificate.write_text("no PEM"), "cert.pem", "PEM"),
    ],
)
async def test_what_cannot_be_used_for_tls_is_a_wrong_setting_and_waits_for_nobody(
    tmp_path: Path, spoil: Callable[[Secured], None], named: str, reason: str
) -> None:
    tls = secured(tmp_path)
    with NodeFixture(quick=True) as s:
        doors = await opened(s, tls)
        spoil(tls)
        doors.reload()
        assert await answer(doors, tls.client) == b"pong;"
        doors.close()
        with pytest.raises(ConfigError) as refused:
            await opened(s, tls)
        assert named in str(refused.value)
        assert reason in str(refused.value)


def test_a_hang_up_while_the_server_starts_does_not_end_it(tmp_path: Path) -> None:
    """It is sent by the first thing that a start does."""
    program = (
        "import os, signal, sys\n"
        "from franca.node import run\n"
        "run.keep_large_buffers = lambda: os.kill(os.getpid(), signal.SIGHUP)\n"
        "async def serve(server): return 7\n"
        "run.Server.serve = serve\n"
        "from franca.node.settings import Settings\n"
        f"sys.exit(run.run(Settings(data={str(tmp_path)!r})))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ), timeout=30)
    assert done.returncode == 7
