"""C9: many wait for one job, its result is large, and they read it late or not at all."""

import selectors
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.bounds.common import (
    LARGE_BYTES,
    PATIENCE_S,
    RSS_MAX_LARGE_MB,
    RSS_MAX_MB,
    Asking,
    Security,
    memory,
    security,
)
from bench.findings import Finding, Setup, guarded
from bench.servers import ServerFailed, running, scratch, start_all
from tests.support import gearman, periodic
from tests.support.gearman import Type

LARGE = LARGE_BYTES - 1024
LATE_S = 3.0  # nobody reads for so long
NEVER = 10  # one of so many never reads
READ_ROOM = 1 << 18


@dataclass(frozen=True, slots=True)
class Variant:
    """Some jobs, and so many who wait for each of them."""

    name: str
    protocol: str
    watchers: int = 150
    jobs: int = 1
    result_bytes: int = 16_000_000
    has_tls: bool = False
    limit_mb: float = RSS_MAX_MB


VARIANTS = tuple(
    variant
    for protocol in ("gearman", "periodic")
    for variant in (
        Variant(f"{protocol}", protocol),
        Variant(f"{protocol}-tls", protocol, has_tls=True),
        Variant(f"{protocol}-four", protocol, jobs=4),
        Variant(f"{protocol}-four-tls", protocol, 40, jobs=4, has_tls=True),
        Variant(f"{protocol}-64mib", protocol, 40, 1, LARGE, limit_mb=RSS_MAX_LARGE_MB),
        Variant(f"{protocol}-64mib-tls", protocol, 20, 1, LARGE, True, RSS_MAX_LARGE_MB),
    )
)


class Crowd:
    """Those who wait, and how many bytes each has yet to hear."""

    def __init__(self) -> None:
        self.left: dict[socket.socket, int] = {}
        self.cut_off = 0

    def read(self) -> None:
        """Read until everybody has all of it, is cut off, or nothing comes any more."""
        selector = selectors.DefaultSelector()
        readers = [sock for number, sock in enumerate(self.left) if number % NEVER]
        for sock in readers:
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ, sock)
        heard_at = time.monotonic()
        while selector.get_map() and time.monotonic() - heard_at < PATIENCE_S:
            for key, _ in selector.select(timeout=1.0):
                sock = key.data
                heard_at = time.monotonic()
                if self._is_done(sock):
                    selector.unregister(sock)
        self.cut_off = sum(self.left[sock] != 0 for sock in readers)

    def _is_done(self, sock: socket.socket) -> bool:
        while True:
            try:
                piece = sock.recv(READ_ROOM)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
            except OSError:
                return True
            self.left[sock] -= len(piece)
            if not piece or not self.left[sock]:
                return True

    def close(self) -> None:
        """Hang up."""
        for sock in self.left:
            sock.close()


def watchers(setup: Setup) -> Iterator[Finding]:
    """Each variant on a server of its own, while somebody else asks for something small."""
    for variant in VARIANTS:
        with scratch(setup.directory) as directory:
            played = _played(variant, setup.sized(variant.watchers), directory)
            yield from guarded(f"watchers-{variant.name}", played)


def _played(variant: Variant, count: int, directory: Path) -> Iterator[Finding]:
    secured = security(directory, variant.has_tls)
    name = f"watchers-{variant.name}"
    join = {"gearman": _join_gearman, "periodic": _join_periodic}[variant.protocol]
    with running(start_all(directory / "data", *secured.flags)) as server:
        port, crowd = server.ports[variant.protocol], Crowd()
        with Asking(server) as asking:
            workers = [
                join(port, secured, crowd, variant, job, count) for job in range(variant.jobs)
            ]
            with ThreadPoolExecutor(variant.jobs) as pool:
                sent = [pool.submit(worker.sock.sendall, worker.result) for worker in workers]
                time.sleep(LATE_S)
                crowd.read()
            for done in sent:
                done.result()
        yield memory(name, server, variant.limit_mb)
        yield asking.finding(name)
        yield Finding(name, "cut_off", crowd.cut_off, 0, more=f"watchers={len(crowd.left)}")
        crowd.close()
        for worker in workers:
            worker.sock.close()


@dataclass(frozen=True, slots=True)
class Worker:
    """One that runs the job, and what it has to say when it is done."""

    sock: socket.socket
    result: bytes


# -- Gearman --------------------------------------------------------------------------------------


def _join_gearman(
    port: int, secured: Security, crowd: Crowd, variant: Variant, job: int, count: int
) -> Worker:
    """Submit one job many times over, and begin to run it."""
    function = b"large%d" % job
    handle = b""
    for _ in range(count):
        sock = secured.connect(port)
        sock.sendall(gearman.request(Type.SUBMIT_JOB, function, b"unique", b""))
        handle = _packet(sock).checked(Type.JOB_CREATED).body
        crowd.left[sock] = 12 + len(handle) + 1 + variant.result_bytes
    worker = secured.connect(port)
    worker.sendall(gearman.request(Type.CAN_DO, function) + gearman.request(Type.GRAB_JOB))
    _packet(worker).checked(Type.JOB_ASSIGN)
    result = bytes(variant.result_bytes)
    return Worker(worker, gearman.request(Type.WORK_COMPLETE, handle, result))


def _packet(sock: socket.socket) -> gearman.Packet:
    unread = bytearray()
    while (packet := gearman.take_packet(unread)) is None:
        unread += _received(sock)
    return packet


# -- Periodic -------------------------------------------------------------------------------------


def _join_periodic(
    port: int, secured: Security, crowd: Crowd, variant: Variant, job: int, count: int
) -> Worker:
    """Ask for one job many times over, and begin to run it."""
    function = f"large{job}"
    worker = _registered(port, secured, periodic.WORKER)
    worker.sendall(_said(periodic.CAN_DO, periodic.str8(function), b"can."))
    _answer(worker)
    asked = _said(periodic.RUN_JOB, periodic.packed(function, "joined", timeout=600), b"run.")
    for _ in range(count):
        sock = _registered(port, secured, periodic.CLIENT)
        sock.sendall(asked)
        crowd.left[sock] = 12 + 5 + variant.result_bytes
    worker.sendall(_said(periodic.GRAB_JOB, b"", b"gra."))
    while _answer(worker).command != periodic.JOB_ASSIGN:
        pass
    result = periodic.str8(function) + periodic.str8("joined") + bytes(variant.result_bytes)
    return Worker(worker, _said(periodic.WORK_DONE, result, b"don."))


def _registered(port: int, secured: Security, role: int) -> socket.socket:
    sock = secured.connect(port)
    sock.sendall(periodic.framed(periodic.CRC, struct.pack("B", role)))
    _payload(sock)
    return sock


def _said(command: int, args: bytes, msgid: bytes) -> bytes:
    return periodic.framed(periodic.CRC, msgid + bytes([command]) + args)


def _answer(sock: socket.socket) -> periodic.Message:
    return periodic.parsed(periodic.CRC, _payload(sock))


def _payload(sock: socket.socket) -> bytes:
    unread = bytearray()
    while (payload := periodic.take_payload(periodic.CRC, unread)) is None:
        unread += _received(sock)
    return payload


def _received(sock: socket.socket) -> bytes:
    """What came; a byte at a time, so that nothing behind the message is lost."""
    piece = sock.recv(1)
    if not piece:
        raise ServerFailed("the server hung up")
    return piece
