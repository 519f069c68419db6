"""Real NNG peers as people write them (`pynng`, with `cbor2` for the headers) against a real server."""

import asyncio
import hashlib
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cbor2
import pynng
import pytest
import trustme

from tests.real.relay import SERVER, Relay, Side, Tape
from tests.support.memodb import MemoDB
from tests.support.scoped import Scoped
from tests.support.server import HOST, Server
from tests.support.shared import eventually
from tests.support.tls import secured

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


class Cable(Relay):
    """Can be cut, and is whole again at once."""

    cuts_at_close = True
    loses_replies = False

    def passes(self, tape: Tape, side: Side) -> bool:
        return not (side == SERVER and self.loses_replies)


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


# -- tests -----------------------------------------------------------------------------------------

SMALL, MIDDLE, LARGE = 32, 64 * 1024, 8 * 1024 * 1024
QUICK = {"FRANCA_MEMODB__HEARTBEAT_MS": "300", "FRANCA_MEMODB__START_MS": "300"}


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Server]:
    """A server that is soon out of patience."""
    with Server(tmp_path / "data", speaks=("memodb",), env=QUICK) as server:
        yield server


# -- what is served -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, SMALL, MIDDLE, LARGE])
def test_a_job_of_any_size_goes_to_a_worker_and_its_result_comes_back(
    server: Server, size: int
) -> None:
    payload = payload_of(1, size)
    with (
        Worker(address(server), ["alive.tv"], backwards) as worker,
        client_of(address(server)) as client,
    ):
        assert run(client, "alive.tv", payload) == backwards(payload)
        assert worker.ran == [payload]


def test_a_peer_of_few_lines_is_served_too(server: Server) -> None:
    """The witness of the proofs, against the server and beside NNG."""
    with (
        Worker(address(server), ["echo"], lambda body: body),
        MemoDB(server.ports["memodb"]) as client,
    ):
        assert client.run("echo", b"said") == b"said"


def test_a_unix_socket_is_spoken_to_as_nng_does(tmp_path: Path) -> None:
    path = tmp_path / "memodb.sock"
    with (
        Server(tmp_path / "data", speaks=("memodb",), extra_args=["--memodb", f"ipc://{path}"]),
        Worker(f"ipc://{path}", ["s"], backwards),
        client_of(f"ipc://{path}") as client,
        MemoDB(str(path)) as witness,
    ):
        for size in (SMALL, MIDDLE, LARGE):
            payload = payload_of(size, size)
            assert run(client, "s", payload) == backwards(payload)
        assert witness.run("s", b"abc") == b"cba"


def test_ipv6_is_listened_on(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback address")
        port = probe.getsockname()[1]
    where = f"tcp://[::1]:{port}"
    with (
        Server(tmp_path / "data", speaks=("memodb",), extra_args=["--memodb", f"[::1]:{port}"]),
        Worker(where, ["s"], backwards),
        client_of(where) as client,
    ):
        assert run(client, "s", b"abc") == b"cba"


def test_tls_is_the_same_inside(ca: trustme.CA, tmp_path: Path) -> None:
    config = pynng.TLSConfig(
        pynng.TLSConfig.MODE_CLIENT, server_name="localhost", ca_string=ca.cert_pem.bytes().decode()
    )
    data = tmp_path / "data"
    with (
        Server(data, speaks=("memodb",), extra_args=secured(tmp_path, ca).flags) as server,
        pynng.Req0(recv_timeout=PATIENCE_MS, tls_config=config) as worker,
        pynng.Req0(recv_timeout=PATIENCE_MS, tls_config=config) as client,
    ):
        for peer in (worker, client):
            peer.dial(f"tls+tcp://localhost:{server.ports['memodb']}", block=True)
        worker.send(encode(READY, b"", ["s"]))
        payload = payload_of(1, LARGE)
        client.send(encode(JOB, b"", "s", 20_000, payload=payload))
        header, found = decode(worker.recv())
        assert found == payload
        worker.send(encode(RESULT, header[2], payload=b"over TLS"))
        assert decode(client.recv()) == ([VERSION, RESULT, b""], b"over TLS")


# -- many ------------------------------------------------------------------------------------------


async def on_contexts(
    server: Server, workers: int, clients: int, size: int, rounds: int
) -> list[bytes]:
    """Jobs of this size, all workers on one socket and all clients on another."""
    with client_of(address(server)) as far, client_of(address(server)) as near:
        contexts = [far.new_context() for _ in range(workers)]
        asking = [near.new_context() for _ in range(clients)]
        return await through(contexts, asking, lambda n: size, rounds)


def test_three_hundred_contexts_wait_on_one_socket_and_each_gets_its_own_answer(
    server: Server,
) -> None:
    ran = asyncio.run(on_contexts(server, 300, 300, SMALL, rounds=3))
    assert len(ran) == len(set(ran)) == 900


def test_three_hundred_requests_wait_on_one_socket_until_a_worker_comes(server: Server) -> None:
    async def scene() -> None:
        with client_of(address(server)) as far, client_of(address(server)) as near:
            asking = [
                asyncio.create_task(ask(near.new_context(), "s", b"%d" % n)) for n in range(300)
            ]
            await asyncio.sleep(0.5)
            ran: list[bytes] = []
            serving = asyncio.create_task(work(far.new_context(), ["s"], ran))
            async with asyncio.timeout(PATIENCE_MS / 1000):
                answers = await asyncio.gather(*asking)
            assert answers == [backwards(b"%d" % n) for n in range(300)]
            await stop([serving])

    asyncio.run(scene())


def test_two_hundred_clients_and_two_hundred_workers_on_their_own_sockets(server: Server) -> None:
    async def scene() -> None:
        sockets = [client_of(address(server)) for _ in range(400)]
        try:
            ran = await through(
                sockets[:200], sockets[200:], lambda n: MIDDLE if n % 10 == 0 else SMALL, rounds=3
            )
            assert len(ran) == len(set(ran)) == 600
        finally:
            for one in sockets:
                one.close()

    asyncio.run(scene())


def test_large_jobs_of_many_contexts_pass_through_two_connections(server: Server) -> None:
    """More of them at once than either connection could hold unsent."""
    assert len(asyncio.run(on_contexts(server, 8, 12, LARGE, rounds=1))) == 12
    assert server.running


# -- the same request again --------------------------------------------------------------------


def test_a_request_that_nng_sends_again_is_run_once(server: Server) -> None:
    gate = Gate()
    with (
        Worker(address(server), ["s"], gate) as worker,
        Worker(address(server), ["s"], backwards) as other,
        client_of(address(server), resend_time=200) as client,
    ):
        client.send(encode(JOB, b"", "s", 20_000, payload=b"slow"))
        first = worker if gate.entered.wait(1) else other
        # NNG looks at its timer once a second: let it send again, and more than once.
        time.sleep(3.5)
        gate.open.set()
        assert decode(client.recv())[1] == b"wols"
        time.sleep(0.2)
        assert worker.ran + other.ran == [b"slow"]
        assert first.ran == [b"slow"]


def test_a_request_that_comes_again_over_a_new_connection_joins_its_job(server: Server) -> None:
    gate = Gate()
    with (
        Cable(server.ports["memodb"]) as cable,
        Worker(address(server), ["s"], gate) as worker,
        client_of(f"tcp://{HOST}:{cable.port}") as client,
    ):
        gate.hold(client, b"once")
        for _ in range(3):
            cable.cut()
            time.sleep(0.4)
        gate.open.set()
        assert decode(client.recv())[1] == b"ecno"
        assert worker.ran == [b"once"]


def test_a_reply_that_was_lost_on_the_way_is_given_again(server: Server) -> None:
    with (
        Cable(server.ports["memodb"]) as cable,
        Worker(address(server), ["s"], backwards) as worker,
        client_of(f"tcp://{HOST}:{cable.port}") as client,
    ):
        assert run(client, "s", b"first") == b"tsrif"
        cable.loses_replies = True
        client.send(encode(JOB, b"", "s", 20_000, payload=b"once"))
        eventually(lambda: len(worker.ran) == 2, "the job that was run")
        time.sleep(0.2)
        cable.cut()
        cable.loses_replies = False
        assert decode(client.recv())[1] == b"ecno"
        assert worker.ran == [b"first", b"once"]


# -- workers that are gone ----------------------------------------------------------------------


def test_a_job_whose_worker_is_lost_goes_to_another_at_once(server: Server) -> None:
    gate = Gate()
    with (
        client_of(address(server)) as client,
        Cable(server.ports["memodb"]) as cable,
        Worker(f"tcp://{HOST}:{cable.port}", ["s"], gate),
    ):
        gate.hold(client, b"work")
        with Worker(address(server), ["s"], backwards) as other:
            cable.cut()
            began = time.monotonic()
            assert decode(client.recv())[1] == b"krow"
            assert time.monotonic() - began < 2
            assert other.ran == [b"work"]
        gate.open.set()


def test_a_worker_whose_connection_broke_goes_on_with_its_id(server: Server) -> None:
    gate = Gate()
    with (
        client_of(address(server)) as client,
        Cable(server.ports["memodb"]) as cable,
        Worker(f"tcp://{HOST}:{cable.port}", ["s"], gate) as worker,
    ):
        gate.hold(client, b"work")
        cable.cut()
        gate.open.set()
        # Nobody else has the job: the result counts, and is not asked for twice.
        assert decode(client.recv())[1] == b"krow"
        assert run(client, "s", b"more") == b"erom"
        assert worker.ran == [b"work", b"more"]
        assert len(set(worker.ids)) == 1
        assert worker.disconnects == 0


def test_a_service_that_nobody_offers_drops_its_client_until_somebody_does(quick: Server) -> None:
    with client_of(address(quick)) as client:
        drops: list[int] = []
        client.add_post_pipe_remove_cb(lambda pipe: drops.append(1))
        client.send(encode(JOB, b"", "late", 20_000, payload=b"work"))
        eventually(lambda: len(drops) >= 2, "a client that was dropped twice")
        with Worker(address(quick), ["late"], backwards) as worker:
            assert decode(client.recv())[1] == b"krow"
            assert worker.ran == [b"work"]


def test_where_contexts_share_a_socket_nobody_is_dropped_for_another(quick: Server) -> None:
    with client_of(address(quick)) as client:
        drops: list[int] = []
        client.add_post_pipe_remove_cb(lambda pipe: drops.append(1))
        waiting = [client.new_context() for _ in range(2)]
        for n, context in enumerate(waiting):
            context.send(encode(JOB, b"", f"late-{n}", 20_000, payload=b"%d" % n))
        time.sleep(2)
        assert drops == []
        with Worker(address(quick), ["late-0", "late-1"], backwards):
            assert [decode(context.recv())[1] for context in waiting] == [b"0", b"1"]


def test_a_worker_over_the_jobs_time_is_taken_for_gone_and_nngs_retry_finds_another(
    server: Server,
) -> None:
    gate = Gate()
    with client_of(address(server)) as client, Worker(address(server), ["s"], gate) as slow:
        client.send(encode(JOB, b"", "s", 500, payload=b"work"))
        assert gate.entered.wait(10)
        with Worker(address(server), ["s"], backwards) as other:
            assert decode(client.recv())[1] == b"krow"
            assert other.ran == [b"work"]
            gate.open.set()
            # Its late result is not wanted; it begins anew, with a new id.
            eventually(lambda: slow.disconnects == 1, "a slow worker that was sent away")
        assert run(client, "s", b"more") == b"erom"
        assert len(set(slow.ids)) == 2


def test_a_worker_that_is_leaving_is_let_go_with_its_result(server: Server) -> None:
    with client_of(address(server)) as client, client_of(address(server)) as worker:
        worker.send(encode(READY, b"", ["s"]))
        client.send(encode(JOB, b"", "s", 5_000, payload=b"work"))
        header, _ = decode(worker.recv())
        assert header == [VERSION, JOB, header[2], "s", 5_000]
        worker.send(encode(RESULT, header[2], True, payload=b"last"))
        assert decode(worker.recv()) == ([VERSION, DISCONNECT, header[2]], b"")
        assert decode(client.recv()) == ([VERSION, RESULT, b""], b"last")


def test_a_worker_that_waits_is_asked_for_signs_of_life(quick: Server) -> None:
    with Worker(address(quick), ["s"], backwards) as worker, client_of(address(quick)) as client:
        eventually(lambda: worker.beats >= 3, "a worker that beats")
        assert run(client, "s", b"work") == b"krow"


# -- the server itself ---------------------------------------------------------------------------


def test_workers_and_a_waiting_client_find_the_server_again_after_kill_9(server: Server) -> None:
    gate = Gate()
    with (
        Worker(address(server), ["s"], gate) as busy,
        Worker(address(server), ["t"], backwards) as idle,
        client_of(address(server)) as client,
        client_of(address(server)) as second,
    ):
        gate.hold(client, b"work")
        assert run(second, "t", b"before") == b"erofeb"
        server.restart()
        # The idle worker's last request was a RESULT of another run of the server.
        assert run(second, "t", b"after") == b"retfa"
        assert idle.disconnects == 1
        gate.open.set()
        assert decode(client.recv())[1] == b"krow"
        assert busy.disconnects == 1
        assert set(busy.ran) == {b"work"}


def test_a_server_that_is_told_to_stop_lets_running_jobs_end(server: Server) -> None:
    gate = Gate()
    with Worker(address(server), ["s"], gate), client_of(address(server)) as client:
        gate.hold(client, b"work")
        stopping = threading.Thread(target=server.terminate)
        stopping.start()
        time.sleep(0.3)
        assert server.running
        gate.open.set()
        assert decode(client.recv())[1] == b"krow"
        stopping.join(5)
        assert not server.running
