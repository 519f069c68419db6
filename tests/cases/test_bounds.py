"""Memory and descriptors are bounded whatever peers send, do not read, or do not say."""

import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cases.conftest import StartServer, environment, peak_mb
from tests.prove import hostile
from tests.support.faktory import Faktory, job
from tests.support.gearman import Type, request, take_packet
from tests.support.protocols import PROTOCOLS
from tests.support.server import HOST, Server
from tests.support.tls import secured

MOST_MB = 400
RESULT = b"r" * 16_000_000
PATIENCE_S = 60.0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as closing:
        yield closing


def served(server: Server) -> float:
    """How many seconds it takes to push and to fetch a small job."""
    began = time.monotonic()
    try:
        with Faktory(server.port, timeout=PATIENCE_S) as client:
            client.hello()
            client.push(job(f"small-job-{began}", queue="small"))
            client.fetch("small")
    except OSError:
        return PATIENCE_S
    return time.monotonic() - began


# -- what is not read --------------------------------------------------------------------------


class Packets:
    """One Gearman connection, with TLS or without."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=HOST)

    def say(self, kind: Type, *arguments: bytes) -> None:
        self.socket.sendall(request(kind, *arguments))

    def hear(self) -> tuple[Type, bytes] | None:
        """The next packet, or None if the server hung up."""
        unread = bytearray()
        while (packet := take_packet(unread)) is None:
            try:
                piece = self.socket.recv(12 if len(unread) < 12 else 1 << 20)
            except OSError:
                return None
            if not piece:
                return None
            unread += piece
        return packet.type, packet.body

    def grab(self, function: bytes) -> bytes:
        """A job's handle."""
        self.say(Type.CAN_DO, function)
        self.say(Type.GRAB_JOB)
        packet = self.hear()
        assert packet is not None, "no job is given out"
        assert packet[0] is Type.JOB_ASSIGN, packet
        return packet[1].split(b"\0")[0]

    def close(self) -> None:
        self.socket.close()


@contextmanager
def over_tls(folder: Path) -> Iterator[tuple[int, Server, ssl.SSLContext]]:
    """A server all of whose listeners speak TLS."""
    certificate = secured(folder)
    server = Server(
        folder / "secured", extra_args=certificate.flags, env=environment(), speaks=("gearman",)
    )
    server.launch()
    try:
        deadline = time.monotonic() + 20
        while " is ready" not in server.log_tail():
            assert time.monotonic() < deadline, server.log_tail()
            time.sleep(0.01)
        yield server.ports["gearman"], server, certificate.client
    finally:
        server.kill9()


def wait_together(
    stack: ExitStack, port: int, function: bytes, tls: ssl.SSLContext | None, count: int
) -> list[Packets]:
    """So many who wait for one job, whose result comes while none of them reads."""
    waiting = [Packets(port, tls) for _ in range(count)]
    for one in waiting:
        stack.callback(one.close)
        one.say(Type.SUBMIT_JOB, function, b"unique", b"")
        assert one.hear() is not None, "a submit is not answered"
    worker = Packets(port, tls)
    stack.callback(worker.close)
    said = (Type.WORK_COMPLETE, worker.grab(function), RESULT)
    # It may have to wait until others have read theirs.
    thread = threading.Thread(target=_say, args=(worker, *said), daemon=True)
    thread.start()
    thread.join(3.0)
    return waiting


def _say(worker: Packets, kind: Type, *arguments: bytes) -> None:
    with suppress(OSError):
        worker.say(kind, *arguments)


def results(waiting: list[Packets]) -> int:
    """How many of them get the whole result."""
    heard = [one.hear() for one in waiting]
    return sum(packet is not None and packet[1].endswith(RESULT) for packet in heard)


@pytest.mark.long
@pytest.mark.case(9)
def test_a_large_result_for_many_is_held_once(start: StartServer, stack: ExitStack) -> None:
    server = start(speaks=("gearman",))
    waiting: list[Packets] = []
    for number in range(4):
        function = b"function-%d" % number
        waiting += wait_together(stack, server.ports["gearman"], function, None, 20)
        assert (peak := peak_mb(server)) < MOST_MB, f"{peak} MB for a result of 16 MB"
    took = served(server)
    assert took < 5, f"somebody else is served after {took:.1f} s"
    assert (heard := results(waiting)) == 80, f"{heard} of 80 heard the result"
    assert (peak := peak_mb(server)) < MOST_MB, f"{peak} MB for four results of 16 MB"


@pytest.mark.long
@pytest.mark.case(9)
def test_a_large_result_is_not_encrypted_before_its_time(stack: ExitStack, tmp_path: Path) -> None:
    port, server, tls = stack.enter_context(over_tls(tmp_path))
    waiting = wait_together(stack, port, b"function", tls, 40)
    assert (heard := results(waiting)) == 40, f"{heard} of 40 heard the result"
    assert (peak := peak_mb(server)) < MOST_MB, f"{peak} MB for a result of 16 MB"


@pytest.mark.long
@pytest.mark.case(9)
def test_what_nobody_reads_is_bounded_in_total(start: StartServer, stack: ExitStack) -> None:
    server = start(speaks=("gearman",))
    port = server.ports["gearman"]
    for number in range(30):
        wait_together(stack, port, b"function-%d" % number, None, 1)
        peak = peak_mb(server)
        assert peak < MOST_MB, f"{peak} MB for {number + 1} results of 16 MB that nobody reads"
    took = served(server)
    assert took < 5, f"somebody else is served after {took:.1f} s"


# -- what is not finished ----------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.case(10)
def test_all_unfinished_input_together_is_bounded(start: StartServer, stack: ExitStack) -> None:
    server = start(speaks=("gearman",))
    where = (HOST, server.ports["gearman"])
    begun = struct.pack(">4sII", b"\0REQ", Type.SUBMIT_JOB_BG, 16_000_000) + b"f\0\0"

    def begin(peer: socket.socket) -> None:
        with suppress(OSError):
            peer.sendall(begun + b"x" * 15_000_000)

    peers = [stack.enter_context(socket.create_connection(where)) for _ in range(60)]
    threads = [threading.Thread(target=begin, args=(peer,), daemon=True) for peer in peers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        took = served(server)
        assert took < 5, f"somebody else is served after {took:.1f} s"
        peak = peak_mb(server)
        assert peak < MOST_MB, f"{peak} MB for messages that are not finished"
    with Faktory(server.port, timeout=PATIENCE_S) as client:
        client.hello()
        client.push(job("a-large-job", "x" * 4_000_000))


@pytest.mark.case(10)
def test_a_slow_but_steady_message_is_not_cut_off(start: StartServer, tmp_path: Path) -> None:
    settings = tmp_path / "franca.toml"
    settings.write_text("[limits]\nframe_ms = '1s'\n")
    server = start("--config", str(settings))
    whole = b'PUSH {"jid":"slow-job","jobtype":"t","args":["%b"]}\r\n' % (b"x" * 300_000)
    with Faktory(server.port) as client:
        client.hello()
        began = time.monotonic()
        sent = 0
        try:
            while sent < len(whole):
                due = min(int((time.monotonic() - began) * 100_000), len(whole))
                client.send_bytes(whole[sent:due])
                sent = due
                time.sleep(0.02)
            answer = client.read().text
        except OSError:
            answer = f"hung up on it after {time.monotonic() - began:.1f} s"
        assert answer == "OK", f"a PUSH at 100 KB/s was answered: {answer}"


# -- who says nothing --------------------------------------------------------------------------


@pytest.mark.case(11)
@pytest.mark.parametrize("silent", PROTOCOLS)
def test_silent_connections_of_any_protocol_keep_nobody_of_any_out(
    silent: str, start: StartServer, stack: ExitStack, tmp_path: Path
) -> None:
    settings = tmp_path / "franca.toml"
    settings.write_text("[limits]\nconnections_max = 50\n")
    server = start("--config", str(settings), speaks=PROTOCOLS)
    with Faktory(server.port) as known:
        known.hello()
        for _ in range(60):
            stack.enter_context(socket.create_connection((HOST, server.ports[silent])))
        deadline = time.monotonic() + 3
        while known.info()["server"]["connections"] < 50:
            assert time.monotonic() < deadline, "the server does not accept what it may"
        kept_out = set(PROTOCOLS)
        while kept_out and time.monotonic() < deadline:
            for protocol in sorted(kept_out):
                with suppress(OSError):
                    hostile.of(protocol).come(server.ports[protocol], 2)
                    kept_out.remove(protocol)
            time.sleep(0.05)
        assert not kept_out, f"60 silent connections of {silent} keep out {sorted(kept_out)}"
        assert known.info(), "who was known before was hung up on"


FEW_FILES = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
sys.argv[0] = "franca"
runpy.run_module("franca", run_name="__main__")
"""


@pytest.mark.case(11)
def test_handshakes_of_tls_leave_descriptors_for_operators(
    stack: ExitStack, tmp_path: Path, cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    certificate = secured(tmp_path)
    server = Server(
        tmp_path / "data",
        extra_args=certificate.flags,
        env=environment(),
        argv_prefix=("-c", FEW_FILES),
    )
    stack.callback(server.kill9)
    server.launch()
    deadline = time.monotonic() + 20
    while " is ready" not in server.log_tail():
        assert time.monotonic() < deadline, server.log_tail()
        time.sleep(0.01)
    for _ in range(400):
        peer = stack.enter_context(socket.socket())
        peer.setblocking(False)
        peer.connect_ex((HOST, server.port))
    for _ in range(3):
        try:
            status = cli("status", "--data", str(server.data), timeout=10)
            answer = status.stderr if status.returncode else "answered"
        except subprocess.TimeoutExpired:
            answer = "nothing within 10 s"
        assert answer == "answered", f"status beside 400 handshakes: {answer}"
    with Packets(server.port, certificate.client).socket as client:
        assert client.recv(3) == b"+HI", "no newcomer is let in"
