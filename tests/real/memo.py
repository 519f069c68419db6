"""MemoDB's peers as people write them: `pynng` for the sockets, `cbor2` for the headers."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cbor2
import pynng

from tests.support.scoped import Scoped
from tests.support.server import HOST, Server

VERSION = "memo01"
READY, JOB, RESULT, HEARTBEAT, DISCONNECT = 1, 2, 3, 4, 5
PATIENCE_MS = 30_000


def encode(op: int, *fields: object, payload: bytes = b"") -> bytes:
    """A message; the id is the first field."""
    return cbor2.dumps([VERSION, op, *fields], canonical=True) + payload


def decode(raw: bytes) -> tuple[list[Any], bytes]:
    """The header of a message, and its payload."""
    file = io.BytesIO(raw)
    header: list[Any] = cbor2.CBORDecoder(file).decode()
    return header, raw[file.tell() :]


def run(peer: Any, service: str, payload: bytes = b"", timeout_ms: int = 5_000) -> bytes:
    """Have a job done over a socket or a context; its result."""
    peer.send(encode(JOB, b"", service, timeout_ms, payload=payload))
    header, found = decode(peer.recv())
    assert header == [VERSION, RESULT, b""], header
    return found


class Worker(Scoped):
    """A worker on a thread of its own: on its own socket, or on a context of somebody's."""

    def __init__(
        self,
        address: str,
        services: Sequence[str],
        work: Callable[[bytes], bytes],
        *,
        socket: pynng.Req0 | None = None,
    ) -> None:
        self.ids: list[bytes] = []
        self.ran: list[bytes] = []
        self.beats = 0
        self.disconnects = 0
        self._peer: Any
        if socket is None:
            self._peer = pynng.Req0(dial=address, recv_timeout=PATIENCE_MS)
        else:
            self._peer = socket.new_context()
        self._services = list(services)
        self._work = work
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Be gone without a word."""
        self._peer.close()
        self._thread.join(10)

    def _serve(self) -> None:
        try:
            self._peer.send(encode(READY, b"", self._services))
            while True:
                header, payload = decode(self._peer.recv())
                self._answer(header, payload)
        except (pynng.exceptions.Closed, pynng.exceptions.Canceled):
            pass

    def _answer(self, header: list[Any], payload: bytes) -> None:
        assert header[0] == VERSION
        op, worker_id = header[1], header[2]
        if op == JOB:
            self.ids.append(worker_id)
            self.ran.append(payload)
            self._peer.send(encode(RESULT, worker_id, payload=self._work(payload)))
        elif op == HEARTBEAT:
            self.beats += 1
            self._peer.send(encode(HEARTBEAT, worker_id))
        else:
            assert op == DISCONNECT
            self.disconnects += 1
            self._peer.send(encode(READY, b"", self._services))


def address(server: Server) -> str:
    return f"tcp://{HOST}:{server.ports['memodb']}"


def client_of(where: str, **options: Any) -> pynng.Req0:
    return pynng.Req0(dial=where, recv_timeout=PATIENCE_MS, **options)


def payload_of(number: int, size: int) -> bytes:
    return hashlib.shake_128(b"%d" % number).digest(size)


def backwards(body: bytes) -> bytes:
    return body[::-1]


class Gate:
    """Work that waits until it is let through; `entered` says that it has begun."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self, body: bytes) -> bytes:
        self.entered.set()
        assert self.open.wait(PATIENCE_MS / 1000)
        return backwards(body)

    def hold(self, client: Any, payload: bytes) -> None:
        """Ask for a job of service `s`, and wait until its worker has begun it."""
        client.send(encode(JOB, b"", "s", 20_000, payload=payload))
        assert self.entered.wait(10)


# -- many at once ---------------------------------------------------------------------------------


async def work(context: Any, services: list[str], ran: list[bytes]) -> None:
    """A worker, until it is cancelled."""
    await context.asend(encode(READY, b"", services))
    while True:
        header, payload = decode(await context.arecv())
        if header[1] == JOB:
            ran.append(payload)
            await context.asend(encode(RESULT, header[2], payload=backwards(payload)))
        elif header[1] == HEARTBEAT:
            await context.asend(encode(HEARTBEAT, header[2]))
        else:
            await context.asend(encode(READY, b"", services))


async def stop(serving: list[asyncio.Task[None]]) -> None:
    """End workers. pynng forgets a cancellation that meets a message: then it is said again."""
    pending = set(serving)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=1)


async def ask(context: Any, service: str, payload: bytes, timeout_ms: int = 60_000) -> bytes:
    await context.asend(encode(JOB, b"", service, timeout_ms, payload=payload))
    header, found = decode(await context.arecv())
    assert header == [VERSION, RESULT, b""]
    return found


async def through(
    workers: list[Any], clients: list[Any], sizes: Callable[[int], int], rounds: int
) -> list[bytes]:
    """Every client has its jobs done, one after the other; what the workers ran."""
    ran: list[bytes] = []
    serving = [asyncio.create_task(work(context, ["s"], ran)) for context in workers]

    async def use(number: int, client: Any) -> None:
        for n in range(rounds):
            payload = payload_of(number * rounds + n, sizes(number * rounds + n))
            assert await ask(client, "s", payload) == backwards(payload)

    async with asyncio.timeout(PATIENCE_MS / 1000 * 3):
        await asyncio.gather(*(use(n, client) for n, client in enumerate(clients)))
    await stop(serving)
    return ran
