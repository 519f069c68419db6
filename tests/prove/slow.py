"""T25: slow peers, slow disks, floods and few file descriptors cost their causers, not the others.

One phase after the other: clients that ask and never read; connections that say one byte a second; connections
opened faster than they can be greeted; a process that may open 128 files; a disk whose every sync takes
200 ms. In each, a good client (`witness.py`) must be served without a fault and soon, heartbeats must be
answered, and the server's memory must stay where it was.
"""

from __future__ import annotations

import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.prove import shim
from tests.prove.looking import Memory
from tests.prove.options import Options
from tests.prove.witness import Figures, Witness
from tests.support.faktory import Faktory, job, push_line
from tests.support.server import HOST, Server

NAME = "slow"
MUTANTS: tuple[str, ...] = ("no-drain",)

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
_SMALL = {
    "FRANCA_LIMITS__WINDOW_BYTES": "8MiB",
    "FRANCA_LIMITS__PENDING_BYTES": "8MiB",
    "FRANCA_LIMITS__HANDSHAKE_MS": "1500",
}


Misbehaviour = Callable[[Server, float], None]


class Act(NamedTuple):
    """What is done to the server, and for how long."""

    misbehave: Misbehaviour
    seconds: float


@dataclass
class Phase:
    """What one phase cost the good client and the server. `waits`: the disk is part of each answer."""

    name: str
    rss_mib: float
    good: Figures
    base: Figures
    waits: bool = False

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
            f"  {self.name}: rss_mib={self.rss_mib:.1f} commands={good.commands} faults={good.faults}"
            f" p99_ms={good.p99_ms:.1f} worst_ms={good.worst_ms:.0f}"
            f" beat_p99_ms={good.beat_p99_ms:.1f} beat_worst_ms={good.beat_worst_ms:.0f}"
            f" idle_beat_p99_ms={self.base.beat_p99_ms:.1f} {good.examples[:1] or ''}"
        )


def _watched(name: str, server: Server, witness: Witness, base: Figures, act: Act) -> Phase:
    """What a good client sees while somebody misbehaves; if only the timing is bad, the better of two."""
    tries: list[Phase] = []
    for _ in range(2):
        witness.figures()
        with Memory(server) as memory:
            act.misbehave(server, act.seconds)
            good = witness.figures()
        tries.append(Phase(name, memory.peak_mib, good, base, act.misbehave is _push_much))
        if tries[-1].in_time or not tries[-1].held:
            break
    return min(tries, key=lambda phase: (not phase.in_time, phase.good.beat_p99_ms))


# -- peers -------------------------------------------------------------------------------------


def _never_read(server: Server, seconds: float) -> None:
    """Ask for thousands of results and for the server's state, and read nothing."""
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        readers: list[tuple[socket.socket, bytes]] = []
        for number in range(2 * _READERS):
            ask = b"INFO\r\n" if number % 2 else b"FETCH results\r\n"
            readers.append((stack.enter_context(_known(server.port, small=True)), ask * 500))
        while time.monotonic() < deadline:
            for peer, asks in readers:
                with suppress(OSError):
                    peer.send(asks)
            time.sleep(0.01)


@contextmanager
def _known(port: int, *, small: bool = False) -> Iterator[socket.socket]:
    """A connection that said HELLO and whose greeting was read; it never blocks."""
    with socket.socket() as peer:
        if small:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        peer.settimeout(10.0)
        peer.connect((HOST, port))
        peer.recv(100)
        peer.sendall(_HELLO)
        peer.recv(100)
        peer.setblocking(False)
        yield peer


def _trickle(server: Server, seconds: float) -> None:
    """Hold hundreds of connections that say a byte a second, half of them strangers."""
    deadline = time.monotonic() + seconds
    said = {True: _HELLO + b'PUSH {"jid":"never-ends', False: _HELLO}
    peers: dict[socket.socket, tuple[bytes, float]] = {}
    with selectors.DefaultSelector() as selector:
        while time.monotonic() < deadline:
            for _ in range(min(50, _TRICKLES - len(peers))):
                peer = socket.socket()
                peer.setblocking(False)
                peer.connect_ex((HOST, server.port))
                selector.register(peer, selectors.EVENT_READ)
                known = len(peers) % 2 == 0
                peers[peer] = (said[known][: len(_HELLO) * known], time.monotonic())
            for key, _ in selector.select(0.02):
                spoken = key.fileobj
                assert isinstance(spoken, socket.socket)
                if not _still_open(spoken):
                    selector.unregister(spoken)
                    del peers[spoken]
                    spoken.close()
            _say_one_byte(peers)
        for peer in peers:
            peer.close()


def _still_open(peer: socket.socket) -> bool:
    try:
        return bool(peer.recv(4_096))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _say_one_byte(peers: dict[socket.socket, tuple[bytes, float]]) -> None:
    now = time.monotonic()
    for peer, (whole, next_at) in peers.items():
        if now >= next_at:
            with suppress(OSError):
                peer.send(whole or b"H")
            peers[peer] = (b"x", now + 1.0)


def _flood(server: Server, seconds: float) -> None:
    """Open connections as fast as one can, and hang up at once or after a greeting."""
    deadline = time.monotonic() + seconds
    held: list[socket.socket] = []
    while time.monotonic() < deadline:
        with suppress(OSError):
            peer = socket.create_connection((HOST, server.port), timeout=2.0)
            held.append(peer)
        if len(held) >= 200:
            for peer in held:
                peer.close()
            held.clear()
    for peer in held:
        peer.close()


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
    stop = threading.Event()

    def produce(number: int) -> None:
        with suppress(OSError), Faktory(server.port, timeout=1.0) as client:
            client.hello()
            count = 0
            while not stop.is_set():
                count += 1
                work = job(f"much-{number}-{count:06}", "x" * _MUCH_BYTES, queue=f"much-{number}")
                with suppress(TimeoutError):
                    client.send(push_line(work))

    threads = [threading.Thread(target=produce, args=(n,), daemon=True) for n in range(_PRODUCERS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()


def _warm_up(server: Server, rounds: int) -> None:
    """Push until the server has grown as large as it gets while the disk is quick."""
    for _ in range(rounds):
        before = server.rss_kib()
        _push_much(server, 1.0)
        if server.rss_kib() - before < _WARM_KIB:
            return


# -- the proof ---------------------------------------------------------------------------------


class Trial:
    """The phases, each with a server fit for it."""

    def __init__(self, options: Options, home: Path) -> None:
        self._options = options
        self._home = home

    def phases(self) -> list[Phase]:
        short = self._options.short
        peers = {
            "never reads": Act(_never_read, 2 if short else 8),
            "a byte a second": Act(_trickle, 1.8 if short else 15),
            "connection flood": Act(_flood, 1 if short else 5),
        }
        files = {"128 files": Act(_take_all_files, 1 if short else 5)}
        disk = {"slow disk": Act(_push_much, 2.5 if short else 10)}
        return [*self._of_peers(peers), *self._of_peers(files, "few-files"), *self._of_disk(disk)]

    def _of_peers(self, acts: dict[str, Act], *tweaks: str) -> list[Phase]:
        with self._server("-".join(["peers", *tweaks]), tweaks) as server:
            if not tweaks:
                _push_all(server, "results", _RESULTS, _RESULT_BYTES)
            return self._play(server, acts)

    def _of_disk(self, acts: dict[str, Act]) -> list[Phase]:
        library = shim.build(self._home / "shim")
        data = self._home / "disk"
        slow = shim.Shim(library, data, slow_sync_ms=_SYNC_MS, switch=self._home / "slow")
        with self._server(data.name, (), slow.environment()) as server:
            # Windows and caches fill up on any disk; what is looked for is what comes on top.
            _warm_up(server, 3 if self._options.short else 8)
            (self._home / "slow").touch()
            return self._play(server, acts)

    def _play(self, server: Server, acts: dict[str, Act]) -> list[Phase]:
        with Witness(server.port) as witness:
            base = witness.over(0.5 if self._options.short else 2)
            return [_watched(name, server, witness, base, act) for name, act in acts.items()]

    @contextmanager
    def _server(
        self, name: str, tweaks: tuple[str, ...], env: Mapping[str, str] | None = None
    ) -> Iterator[Server]:
        data = self._home / name
        data.mkdir(mode=0o700)
        prefix = self._options.variant(*tweaks)
        with Server(data, env=_SMALL | dict(env or {}), argv_prefix=prefix) as server:
            yield server


def _push_all(server: Server, queue: str, count: int, size: int) -> None:
    """Fill a queue with jobs of this size."""
    with Faktory(server.port, timeout=60.0) as client:
        client.hello()
        for start in range(0, count, 250):
            client.push_many(
                job(f"{queue}-{number:06}", "x" * size, queue=queue)
                for number in range(start, start + 250)
            )


def run(options: Options) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="franca-slow-") as scratch:
        phases = Trial(options, Path(scratch).resolve()).phases()
    print(
        f"T25 {NAME}: rss_growth_mib={max(phase.rss_mib for phase in phases):.1f}"
        f" good_client_p99_ms={max(phase.good_p99_ms for phase in phases):.1f}"
        f" beat_p99_ms={max(phase.good.beat_p99_ms for phase in phases):.1f}"
        f" faults={sum(phase.good.faults for phase in phases)} phases={len(phases)}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    for phase in phases:
        print(phase)
    return all(phase.held and phase.in_time for phase in phases)
