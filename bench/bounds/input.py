"""C10: messages that are never finished, of many peers and all protocols at once, and slow ones."""

import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from bench.bounds.common import PATIENCE_S, Asking, memory
from bench.client import Client
from bench.findings import Finding, Setup, guarded
from bench.servers import Server, running, scratch, start_all
from franca.protocols.registry import PROTOCOLS
from tests.prove import hostile

PEERS = 40  # of each protocol
BODY_BYTES = 60_000_000
FLOOD_S = 15.0
PIECE_BYTES = 1 << 18
KEPT_BACK = 1_000  # bytes of each message that are never sent
SERVED_MAX_S = 5.0

SLOW_BYTES, SLOW_BYTES_PER_S = 4_000_000, 100_000
TRICKLE_BYTES_PER_S = 1_000
# Cut off when a frame has had 30 s and was below 16 KB/s over the last 30 s.
TRICKLE_MAX_S = 65.0

PUSH = b'PUSH {"jid":"%s","jobtype":"bench","queue":"%s","args":["'


def unfinished(setup: Setup) -> Iterator[Finding]:
    """A flood of beginnings, and two peers that send slowly."""
    for name, scene in (("input-flood", _flooded), ("input-slow", _slow)):
        with scratch(setup.directory) as path, running(start_all(path / "data")) as server:
            yield from guarded(name, scene(server, setup))


def _flooded(server: Server, setup: Setup) -> Iterator[Finding]:
    with Asking(server) as asking:
        peers = _flood(server, setup.sized(PEERS))
        served_s = _served_s(server)
    held = sum(not _is_closed(peer) for peer in peers)
    yield memory("input-flood", server, more=f"peers={len(peers)} still_connected={held}")
    yield asking.finding("input-flood")
    yield Finding("input-flood", "others_push_s", served_s, SERVED_MAX_S)
    for peer in peers:
        peer.close()


def _slow(server: Server, setup: Setup) -> Iterator[Finding]:
    with ThreadPoolExecutor(2) as pool:
        size = setup.sized(SLOW_BYTES)
        slow = pool.submit(_is_cut_off, server, b"slow-push", size, SLOW_BYTES_PER_S)
        trickle = pool.submit(_is_cut_off, server, b"trickling", SLOW_BYTES, TRICKLE_BYTES_PER_S)
        was_cut, took_s = slow.result()
        more = f"bytes={size} bytes_per_s={SLOW_BYTES_PER_S} took_s={took_s:.0f}"
        yield Finding("input-slow", "cut_off", was_cut, 0, more=more)
        was_cut, took_s = trickle.result()
        more = f"bytes_per_s={TRICKLE_BYTES_PER_S} cut_off={int(was_cut)}"
        yield Finding("input-trickle", "held_s", took_s, TRICKLE_MAX_S, more=more)


# -- the flood ------------------------------------------------------------------------------------


def _flood(server: Server, count: int) -> list[socket.socket]:
    """Send as much as the server takes of messages that never end."""
    peers: dict[int, tuple[socket.socket, memoryview]] = {}
    for protocol in PROTOCOLS:
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", server.ports[protocol]), PATIENCE_S)
            sock.sendall(_beginning(protocol))
            sock.setblocking(False)
            peers[sock.fileno()] = sock, memoryview(FILLER)[KEPT_BACK:]
    poll = select.poll()
    for number in peers:
        poll.register(number, select.POLLOUT)
    deadline = time.monotonic() + FLOOD_S
    while time.monotonic() < deadline:
        for number, _ in poll.poll(100):
            sock, left = peers[number]
            try:
                sent = sock.send(left[:PIECE_BYTES])
            except BlockingIOError:
                continue
            except OSError:
                sent = 0
            peers[number] = sock, left[sent:]
            if not sent or not peers[number][1]:
                poll.unregister(number)
    return [sock for sock, _ in peers.values()]


FILLER = b"x" * BODY_BYTES


@cache
def _beginning(protocol: str) -> bytes:
    """What a client of the protocol says before the body of its first job, which is a large one."""
    hostility = hostile.of(protocol)
    said = hostility.hello + hostility.large(FILLER)
    return said[: said.index(FILLER[:KEPT_BACK])]


def _served_s(server: Server) -> float:
    """How long it takes a newcomer to push a job meanwhile."""
    began = time.monotonic()
    with Client(server.port) as client:
        client.send(b'PUSH {"jid":"meanwhile","jobtype":"bench","queue":"q","args":[]}')
        client.expect(b"+OK")
    return time.monotonic() - began


def _is_closed(sock: socket.socket) -> bool:
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


# -- slow ones ------------------------------------------------------------------------------------


def _is_cut_off(server: Server, jid: bytes, size: int, bytes_per_s: int) -> tuple[bool, float]:
    """Push a job of this size, so many bytes a second: whether, and when, it was cut off."""
    job = PUSH % (jid, jid) + b"x" * size + b'"]}\r\n'
    began = time.monotonic()
    with Client(server.port) as client:
        sent = 0
        while sent < len(job):
            took_s = time.monotonic() - began
            if took_s > TRICKLE_MAX_S + 30 or _is_readable(client.sock):
                return took_s < TRICKLE_MAX_S + 30, took_s
            due = min(int(took_s * bytes_per_s) + 1, len(job))
            client.sock.sendall(job[sent:due])
            sent = due
            time.sleep(0.1)
        client.expect(b"+OK")
    return False, time.monotonic() - began


def _is_readable(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])
