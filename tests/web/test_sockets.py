"""Real sockets: connections that are slow, wrong, many, or open when the server stops; and kill -9."""

import asyncio
import http.client
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from franca.web import connection, listener, pages
from tests.support.server import HOST, Server, ServerFailed, free_port
from tests.support.shared import eventually
from tests.support.tls import secured
from tests.web.kit import PATIENCE_S, Site

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Coroutine[Any, Any, Streams]]


def with_sockets(site: Site, talk: Callable[[Connect], Coroutine[Any, Any, None]]) -> None:
    """Have the site listen on a port, and talk to it."""

    async def run() -> None:
        with socket.create_server((HOST, 0)) as listening:
            listens = site.web.listen(listening, None)
            address = listening.getsockname()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await talk(lambda: asyncio.open_connection(*address[:2]))
            finally:
                listens.close()
                await site.web.close()

    site.run(run())


GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_requests_follow_each_other_on_one_connection(site: Site) -> None:
    async def talk(connect: Connect) -> None:
        reader, writer = await connect()
        for _ in range(3):
            writer.write(GET)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(3) == b"ok\n"
        writer.write(GET * 3)
        for _ in range(3):
            await reader.readuntil(b"ok\n")
        writer.close()

    with_sockets(site, talk)


@pytest.mark.parametrize(
    "junk",
    [
        b"JOB hello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_request_is_answered_as_everything_is_and_hung_up_on(
    site: Site, junk: bytes
) -> None:
    async def talk(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(junk)
        answer = b""
        try:
            answer = await reader.read()
        except ConnectionResetError:
            pass
        assert not answer or (b" 400 " in answer and b"content-security-policy" in answer)
        writer.close()

    with_sockets(site, talk)


def test_who_sends_headers_too_slowly_is_cut_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEADERS_S", 0.05)

    async def talk(connect: Connect) -> None:
        for begun in (b"", b"GET /livez HTTP/1.1\r\nHost:"):
            reader, writer = await connect()
            writer.write(begun)
            with pytest.raises((ConnectionResetError, EOFError)):
                assert await reader.readexactly(1)
            writer.close()
        # Behind an answer the same holds.
        reader, writer = await connect()
        writer.write(GET + b"GET /li")
        await reader.readuntil(b"ok\n")
        with pytest.raises((ConnectionResetError, EOFError)):
            await reader.readexactly(1)
        writer.close()

    with_sockets(site, talk)


def test_who_sends_a_body_too_slowly_is_told_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("franca.web.body.READ_S", 0.05)

    async def talk(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(
            b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 408")
        writer.close()

    with_sockets(site, talk)


def test_headers_and_chunks_are_taken_apart_little_by_little(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    received = connection.HttpConnection.data_received

    def note(self: connection.HttpConnection, data: bytes) -> None:
        read.append(len(data))
        received(self, data)

    monkeypatch.setattr(connection.HttpConnection, "data_received", note)
    begun = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = b'{"queue":"q","type":"t","args":["' + b"x" * 300_000 + b'"]}'
    pieces = [body[at : at + 1_000] for at in range(0, len(body), 1_000)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)

    async def talk(connect: Connect) -> None:
        reader, writer = await connect()
        many = b"X: 1\r\n" * 3_000
        writer.write(begun + many + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201")
        assert max(read) <= connection.READ_BYTES
        await reader.readuntil(b"}")
        writer.write(begun + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201")
        assert max(read) > connection.READ_BYTES
        writer.close()
        # Of headers that came whole the bound holds too.
        reader, writer = await connect()
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: 1\r\n" * 20_000 + b"\r\n")
        with suppress(ConnectionError):
            assert b" 400 " in await reader.readuntil(b"\r\n")
        writer.close()

    with_sockets(site, talk)


def test_a_body_of_very_small_chunks_is_none(site: Site) -> None:
    async def talk(connect: Connect) -> None:
        for chunks, status in ((200, b"401"), (connection.CHUNKS_FREE + 60, b"400")):
            reader, writer = await connect()
            writer.write(
                b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                + b"1\r\nx\r\n" * chunks + b"0\r\n\r\n"
            )  # fmt: skip
            assert status in await reader.readuntil(b"\r\n")
            writer.close()

    with_sockets(site, talk)


def test_connections_are_bounded_and_the_next_one_waits(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 2)

    async def talk(connect: Connect) -> None:
        open_ = [await connect() for _ in range(3)]
        for _, writer in open_:
            writer.write(GET)
        for reader, _ in open_[:2]:
            await reader.readuntil(b"ok\n")
        assert len(site.web._state.connections) == 2
        open_[0][1].close()
        await open_[2][0].readuntil(b"ok\n")
        for _, writer in open_[1:]:
            writer.close()

    with_sockets(site, talk)


@pytest.mark.parametrize("said", [b"", b"GET /livez HTTP/1.1\r\nHo", GET])
def test_those_who_ask_for_nothing_make_room(
    site: Site, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr("franca.web.server.SPARED_S", 0.0)

    async def talk(connect: Connect) -> None:
        busy, busy_writer = await connect()
        busy_writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await busy.readuntil(b"retry: 2000")
        others = [await connect() for _ in range(6)]
        for _, writer in others:
            writer.write(said)
        reader, writer = await connect()
        writer.write(GET)
        await reader.readuntil(b"ok\n")
        assert len(site.web._state.connections) <= 3
        assert site.web.events.listeners == 1, "who is served is not hung up on"
        for _, other in [*others, (reader, writer), (busy, busy_writer)]:
            other.close()

    with_sockets(site, talk)


def test_handshakes_that_stall_make_room(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HANDSHAKES_MAX", 2)
    monkeypatch.setattr(listener, "SPARED_S", 0.0)
    monkeypatch.setattr(listener, "TLS_HELLO_S", 2 * PATIENCE_S)
    tls = secured(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls.certificate, tls.key)

    async def run() -> None:
        with socket.create_server((HOST, 0)) as listening:
            listens = site.web.listen(listening, context)
            address = listening.getsockname()[:2]
            silent = [await asyncio.open_connection(*address) for _ in range(4)]
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection(*address, ssl=tls.client)
                writer.write(GET)
                await reader.readuntil(b"ok\n")
            for _, other in [*silent, (reader, writer)]:
                other.close()
            listens.close()
            await site.web.close()

    site.run(run())


def test_who_signs_in_slowly_keeps_nobody_else_out(guarded: Site) -> None:
    async def sign_in(client: str) -> int:
        form = [b"password=", b"token-of-viewer"]
        call, work = guarded.begin("POST", "/login", b"", client=client, pieces=form)
        await work
        return call.status

    async def run() -> None:
        slow = [
            guarded.begin("POST", "/login", b"", pieces=[b"pass", b"never"])
            for _ in range(pages.SIGN_INS_OF_ONE)
        ]
        for call, _ in slow:
            call.receive = call.hung_up.wait  # type: ignore[assignment,method-assign]
        under_way = [
            asyncio.ensure_future(guarded.web.app(call.scope, call.receive, call.send))
            for call, _ in slow
        ]
        for _, work in slow:
            work.close()
        await asyncio.sleep(0)
        assert await sign_in("127.0.0.1") == 503
        assert await sign_in("10.0.0.1") == 303
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        assert await sign_in("127.0.0.1") == 303

    guarded.run(run())


def test_a_peer_that_takes_nothing_of_a_long_answer_is_cut_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNTAKEN_S", 0.05)
    for _ in range(300):
        site.node.submit(name="n" * 1_000)

    async def talk(connect: Connect) -> None:
        reader, writer = await connect()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        request = b"GET /api/v1/jobs?limit=300 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        writer.write(request * 40)
        while not site.web._state.connections:
            await asyncio.sleep(0)
        while site.web._state.connections:
            await asyncio.sleep(0.005)
        writer.close()

    with_sockets(site, talk)


def test_nor_does_one_that_wants_the_connection_closed_keep_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNTAKEN_S", 0.05)
    made = connection.HttpConnection.connection_made

    def with_small_buffer(self: connection.HttpConnection, transport: asyncio.Transport) -> None:
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        made(self, transport)

    monkeypatch.setattr(connection.HttpConnection, "connection_made", with_small_buffer)
    for _ in range(300):
        site.node.submit(name="n" * 1_000)

    async def talk(connect: Connect) -> None:
        reader, writer = await connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /api/v1/jobs?limit=300 HTTP/1.1\r\nHost: localhost\r\n")
        writer.write(b"Connection: close\r\n\r\n")
        while not site.web._unsent():
            await asyncio.sleep(0.005)
        while site.web._state.connections:
            await asyncio.sleep(0.005)
        writer.close()

    with_sockets(site, talk)


@pytest.mark.parametrize(
    ("left", "goes_on"),
    [((500_000, 340_000, 180_000, 20_000, 0), True), ((500_000, 499_999), False), ((9, 0), True),
     ((9, 1), False), ((500_000, 340_001), False)],
)  # fmt: skip
def test_a_peer_takes_its_answer_at_a_pace(
    site: Site, left: tuple[int, ...], goes_on: bool
) -> None:
    class Taken:
        def __init__(self) -> None:
            self.left = list(left)
            self.aborted = False

        def get_write_buffer_size(self) -> int:
            return self.left[0]

        def abort(self) -> None:
            self.aborted = True

    async def take() -> bool:
        taken = Taken()
        peer = site.web._connection()
        peer.transport = taken  # type: ignore[assignment]
        peer._await_taking()
        while len(taken.left) > 1 and not taken.aborted:
            del taken.left[0]
            peer._check_taken()
        if peer._taking_timer is not None:
            peer._taking_timer.cancel()
        return not taken.aborted

    assert site.run(take()) is goes_on


# -- a real server ----------------------------------------------------------------------------


def call(
    server: Server, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, Any]:
    peer = http.client.HTTPConnection(HOST, server.ports["web"], timeout=30)
    try:
        content = None if body is None else msgspec.json.encode(body)
        peer.request(method, path, content, {"content-type": "application/json", **headers})
        answer = peer.getresponse()
        said = answer.read()
        is_json = "json" in (answer.getheader("content-type") or "")
        return answer.status, msgspec.json.decode(said) if is_json else said
    finally:
        peer.close()


@contextmanager
def serving(tmp_path: Path, *flags: str, **more: Any) -> Iterator[Server]:
    with Server(tmp_path / "data", speaks=("web",), extra_args=flags, **more) as server:
        yield server


JOB = {"queue": "q", "type": "t", "args": [1]}


def test_a_key_survives_kill_9_and_the_end_of_its_job(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        _, first = call(server, "POST", "/api/v1/jobs", JOB, **{"Idempotency-Key": "k"})
        server.restart()
        again = call(server, "POST", "/api/v1/jobs", JOB, **{"Idempotency-Key": "k"})
        assert again == (201, first)
        _, lease = call(server, "POST", "/api/v1/lease", {"queues": ["q"]})
        server.restart()
        done = call(server, "POST", f"/api/v1/jobs/{first['id']}/ack", {"token": lease["token"]})
        assert done[0] == 200, "the lease did not outlive its server"
        server.restart()
        ended = call(server, "POST", "/api/v1/jobs", JOB, **{"Idempotency-Key": "k"})
        assert ended == (201, first | {"state": "done"})
        other = call(
            server, "POST", "/api/v1/jobs", JOB | {"args": [2]}, **{"Idempotency-Key": "k"}
        )
        assert other[0] == 422
        assert call(server, "GET", "/stats")[1]["faktory"]["queues"] == {"q": 0}
        assert call(server, "GET", "/health")[1]["server"]["faktory_version"] == "1.10.0"


def test_health_tells_the_host_and_how_long_commits_take(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert call(server, "POST", "/api/v1/jobs", JOB)[0] == 201
        _, health = call(server, "GET", "/api/v1/health")
        assert (health["node"], health["role"]) == (socket.gethostname(), "admin")
        assert 0 < health["store"]["commit_p50_ms"] <= health["store"]["commit_p99_ms"] < 60_000
        assert "web" in [one["protocol"] for one in health["listeners"]]


def test_a_server_stops_in_time_though_streams_and_calls_wait(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with socket.create_connection((HOST, server.ports["web"])) as stream, \
             socket.create_connection((HOST, server.ports["web"])) as polls:  # fmt: skip
            stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert stream.recv(1_000)
            body = b'{"queues":["q"],"wait_ms":60000}'
            polls.sendall(
                b"POST /api/v1/lease HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            assert call(server, "GET", "/livez")[0] == 200
            assert server.terminate(10.0) == 0
            assert b" 503 " in polls.recv(1_000)
        assert not [line for line in server.log_lines() if '"level":"error"' in line]


def test_over_tls_and_with_a_password_it_may_be_open(tmp_path: Path) -> None:
    tls = secured(tmp_path)
    (tmp_path / "password").write_text("the-password\n")
    port = free_port()
    flags = ("--web-password-file", str(tmp_path / "password"), "--web", f"0.0.0.0:{port}")
    with pytest.raises(ServerFailed, match="password_file"):
        Server(tmp_path / "a", extra_args=flags, by_default=("web",)).start()
    data = tmp_path / "data"
    with Server(data, extra_args=(*tls.flags, *flags), by_default=("web",)):
        context = tls.client
        peer = http.client.HTTPSConnection(HOST, port, context=context, timeout=30)
        peer.request("GET", "/api/v1/queues", headers={"authorization": "Bearer the-password"})
        assert peer.getresponse().status == 200
        peer.close()


def test_over_tls_a_large_body_comes_whole(site: Site, tmp_path: Path) -> None:
    tls = secured(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls.certificate, tls.key)
    args = [f"{number:06}" for number in range(100_000)]
    body = msgspec.json.encode({"queue": "q", "type": "t", "args": args})
    head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    async def run() -> None:
        with socket.create_server((HOST, 0)) as listening:
            listens = site.web.listen(listening, context)
            address = listening.getsockname()[:2]
            reader, writer = await asyncio.open_connection(*address, ssl=tls.client)
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 201")
            writer.close()
            listens.close()
            await site.web.close()

    site.run(run())
    [job] = site.node.jobs()
    assert msgspec.json.decode(job.body) == args


def test_a_default_port_that_is_taken_is_left_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((HOST, 7420))
            taken.listen()
        except OSError:
            pass  # somebody else has it, which will do
        with Server(tmp_path / "data", by_default=("web",)) as server:
            [line] = [one for one in server.log_lines() if '"not-listening"' in one]
            assert "web" in line
            assert "--web off" in line
            server.process.send_signal(signal.SIGTERM)
            assert server.wait(20) == 0


def test_where_it_does_not_listen_nothing_of_it_is_loaded() -> None:
    program = (
        "import sys, franca.cli.main, franca.cli.serve, franca.node.run, franca.node.listeners;"
        "print([m for m in sys.modules if m.split('.')[0] in ('starlette', 'uvicorn', 'h11', 'anyio')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_peers_of_protocols_do_as_operators_is_recorded(tmp_path: Path) -> None:
    with Server(tmp_path / "data", speaks=("web", "gearman")) as server:
        for port, said, answer in (
            (
                server.port,
                b'HELLO {"v":2}\r\nFLUSH\r\nQUEUE PAUSE mail\r\nQUEUE LATENCY mail\r\n',
                b'"mail":',
            ),
            (server.ports["gearman"], b"status\nmaxqueue resize 7\n", b".\nOK"),
        ):
            with socket.create_connection((HOST, port), timeout=20) as peer:
                peer.sendall(said)
                heard = b""
                while answer not in heard.replace(b"\r", b""):
                    heard += peer.recv(1_000)
        entries = call(server, "GET", "/api/v1/audit")[1]["entries"]
        assert [(one["over"], one["operation"], one["about"]) for one in entries] == [
            ("gearman", "maxqueue", "resize 7"),
            ("faktory", "QUEUE PAUSE", "mail"),
            ("faktory", "FLUSH", ""),
        ]
        assert all(one["who"].startswith("127.0.0.1:") for one in entries)
        # Nothing waits for the record, but it is written soon, also what nothing else follows.
        file = tmp_path / "data" / "audit.jsonl"
        eventually(lambda: file.read_bytes().count(b"\n") == 3, "three entries in the file")
        server.restart()
        assert len(call(server, "GET", "/api/v1/audit")[1]["entries"]) == 3
