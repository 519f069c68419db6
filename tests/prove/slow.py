"""T25: slow peers, slow disks, floods and few file descriptors cost their causers, not the others.

One phase after the other: clients that ask and never read; connections that say one byte a second; connections
opened faster than they can be greeted; a process that may open 128 files; a disk whose every sync takes
200 ms. In each, a good client (`witness.py`) must be served without a fault and soon, heartbeats must be
answered, and the server's memory must stay where it was.
"""

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from tests.prove.harness import Options, Result, limits, running
from tests.prove.observe import Memory
from tests.prove.witness import Figures, Witness
from tests.support.faktory import Faktory, job, push_line
from tests.support.server import HOST, Server

_RSS_MAX_MIB = 64.0
_GOOD_P99_MAX_MS = 100.0
_BEAT_P99_MAX_MS = 50.0
_NOISE = 3.0  # a figure that is this many times that of an idle server is no news of ours
_SYNC_MS = 200
_PRODUCERS, _MUCH_BYTES = 4, 16 << 10
_WARM_KIB = 4 << 10
_READERS = 3
_RESULTS, _RESULT_BYTES = 10_000, 8 << 10
_TRICKLES = 500
_HELLO = b'HELLO {"v":2}\r\n'
# The window and the queue for the disk may hold less than by default, so that they can be told from leaks.
# Strangers are sent away sooner than by default, so that a short proof sees it.
_SMALL = limits(window_bytes="8MiB", pending_bytes="8MiB", handshake_ms=1500)

Misdeed = Callable[[Server, float], None]
"""What is done to a server for so many seconds."""


@dataclass
class Phase:
    """What one phase cost the good client and the server. `waits`: the disk is part of each answer."""

    name: str
    rss_mib: float
    good: Figures
    base: Figures
    waits: bool

    @property
    def good_p99_ms(self) -> float:
        return 0.0 if self.waits else self.good.p99_ms

    @property
    def in_time(self) -> bool:
        good_max = max(_GOOD_P99_MAX_MS, _NOISE * self.base.p99_ms)
        beat_max = max(_BEAT_P99_MAX_MS, _NOISE * self.base.beat_p99_ms)
        return self.good_p99_ms <= good_max and self.good.beat_p99_ms <= beat_max

    @property
    def held(self) -> bool:
        return self.rss_mib <= _RSS_MAX_MIB and not self.good.faults

    def __str__(self) -> str:
        good = self.good
        return (
            f"{self.name}: rss_mib={self.rss_mib:.1f} commands={good.commands} faults={good.faults}"
            f" p99_ms={good.p99_ms:.1f} worst_ms={good.worst_ms:.0f}"
            f" beat_p99_ms={good.beat_p99_ms:.1f} beat_worst_ms={good.beat_worst_ms:.0f}"
            f" idle_beat_p99_ms={self.base.beat_p99_ms:.1f} {good.examples[:1] or ''}"
        )


# -- peers -------------------------------------------------------------------------------------


def _never_read(server: Server, seconds: float) -> None:
    """Ask for thousands of results and for the server's state, and read nothing."""
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        readers = [stack.enter_context(socket.socket()) for _ in range(2 * _READERS)]
        for peer in readers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            peer.settimeout(10.0)
            peer.connect((HOST, server.port))
            peer.recv(100)
            peer.sendall(_HELLO)
            peer.recv(100)
            peer.setblocking(False)
        while time.monotonic() < deadline:
            for number, peer in enumerate(readers):
                with suppress(OSError):
                    peer.send((b"INFO\r\n" if number % 2 else b"FETCH results\r\n") * 500)
            time.sleep(0.01)


def _trickle(server: Server, seconds: float) -> None:
    """Hold hundreds of connections that say a byte a second, half of them strangers."""
    deadline = time.monotonic() + seconds
    peers: dict[socket.socket, tuple[bytes, float]] = {}  # what each says next, and when
    with selectors.DefaultSelector() as selector:
        while time.monotonic() < deadline:
            for _ in range(min(50, _TRICKLES - len(peers))):
                peer = socket.socket()
                peer.setblocking(False)
                peer.connect_ex((HOST, server.port))
                selector.register(peer, selectors.EVENT_READ)
                peers[peer] = (b"H" if len(peers) % 2 else _HELLO, time.monotonic())
            for key, _ in selector.select(0.02):
                spoken = key.fileobj
                assert isinstance(spoken, socket.socket)
                if not _still_open(spoken):
                    selector.unregister(spoken)
                    del peers[spoken]
                    spoken.close()
            now = time.monotonic()
            for peer, (text, at) in peers.items():
                if now >= at:
                    with suppress(OSError):
                        peer.send(text)
                    peers[peer] = (b"x", now + 1.0)
    for peer in peers:
        peer.close()


def _still_open(peer: socket.socket) -> bool:
    try:
        return bool(peer.recv(4_096))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _flood(server: Server, seconds: float) -> None:
    """Open connections as fast as one can, and hang up at once or after a greeting."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with ExitStack() as held:
            for _ in range(200):
                if time.monotonic() < deadline:
                    with suppress(OSError):
                        peer = socket.create_connection((HOST, server.port), timeout=2.0)
                        held.enter_context(peer)


def _take_all_files(server: Server, seconds: float) -> None:
    """Hold more connections than the server may open files; then let go, and it must serve new ones."""
    deadline = time.monotonic() + seconds
    held: list[socket.socket] = []
    while time.monotonic() < deadline:
        if len(held) < 400:
            with suppress(OSError):
                held.append(socket.create_connection((HOST, server.port), timeout=0.5))
        else:
            time.sleep(0.05)
    for peer in held:
        peer.close()
    time.sleep(0.3)
    with Faktory(server.port, timeout=5.0) as late:
        late.hello().push(job("after-the-flood", queue="late"))


# -- the disk ----------------------------------------------------------------------------------


def _push_much(server: Server, seconds: float) -> None:
    """Several producers that do not wait for their answers; the disk cannot keep up."""

    def produce(number: int, stop: threading.Event) -> None:
        with suppress(OSError), Faktory(server.port, timeout=1.0).hello() as client:
            count = 0
            while not stop.is_set():
                count += 1
                work = job(f"much-{number}-{count:06}", "x" * _MUCH_BYTES, queue=f"much-{number}")
                with suppress(TimeoutError):
                    client.say(push_line(work))

    with running(*(partial(produce, number) for number in range(_PRODUCERS))):
        time.sleep(seconds)


# -- the proof ---------------------------------------------------------------------------------


def run(options: Options) -> Result:
    short = options.short
    idle_s = 0.5 if short else 2.0
    with options.server("peers", env=_SMALL) as server:
        _push_results(server)
        phases = _play(server, idle_s, {
            "never reads": (_never_read, 2 if short else 8),
            "a byte a second": (_trickle, 1.8 if short else 15),
            "connection flood": (_flood, 1 if short else 5),
        })  # fmt: skip
    with options.server("files", "few-files", env=_SMALL) as server:
        phases += _play(server, idle_s, {"128 files": (_take_all_files, 1 if short else 5)})
    switch = options.home / "slow"
    env = _SMALL | options.disk("disk", slow_sync=_SYNC_MS, switch=switch)
    with options.server("disk", env=env) as server:
        # Windows and caches fill up on any disk; what is looked for is what comes on top.
        for _ in range(3 if short else 8):
            before = server.rss_kib()
            _push_much(server, 1.0)
            if server.rss_kib() - before < _WARM_KIB:
                break
        switch.touch()
        phases += _play(server, idle_s, {"slow disk": (_push_much, 2.5 if short else 10)})
    return Result(
        all(phase.held and phase.in_time for phase in phases),
        f"rss_growth_mib={max(phase.rss_mib for phase in phases):.1f}"
        f" good_client_p99_ms={max(phase.good_p99_ms for phase in phases):.1f}"
        f" beat_p99_ms={max(phase.good.beat_p99_ms for phase in phases):.1f}"
        f" faults={sum(phase.good.faults for phase in phases)} phases={len(phases)}",
        [str(phase) for phase in phases],
    )


def _push_results(server: Server) -> None:
    with Faktory(server.port, timeout=60.0).hello() as client:
        for start in range(0, _RESULTS, 250):
            numbers = range(start, start + 250)
            body = "x" * _RESULT_BYTES
            client.push_many(job(f"results-{n:06}", body, queue="results") for n in numbers)


def _play(server: Server, idle_s: float, acts: dict[str, tuple[Misdeed, float]]) -> list[Phase]:
    """What a good client sees while somebody misbehaves; if only the timing is bad, the better of two."""
    phases: list[Phase] = []
    with Witness(server.port) as witness:
        base = witness.over(idle_s)
        for name, (misbehave, seconds) in acts.items():
            tries: list[Phase] = []
            while len(tries) < 2 and (not tries or (tries[0].held and not tries[0].in_time)):
                witness.figures()
                with Memory(server) as memory:
                    misbehave(server, seconds)
                    good = witness.figures()
                tries.append(Phase(name, memory.peak_mib, good, base, misbehave is _push_much))
            phases.append(min(tries, key=lambda phase: (not phase.in_time, phase.good.beat_p99_ms)))
    return phases
