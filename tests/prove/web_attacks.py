"""T20: a page that somebody has open, on whatever site, does nothing to a server that his browser reaches.

Every operation that changes something is asked for as such a page could: from another site, in a form, under a name
that leads here (DNS rebinding), and as HTTP sent to the listeners of other protocols. The server asks for no password,
which is when it matters most. Afterwards its jobs and queues must be what they were, and no answer may be framed.
"""

import http.client
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from franca.web.routes import PREFIX, ROUTES
from tests.prove.harness import Options, Result, Tally
from tests.support.server import HOST, Server

_SITES: tuple[dict[str, str], ...] = (
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "same-site", "origin": "http://localhost:8080"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"host": "evil.example"},
    {
        "host": "evil.example:7420",
        "origin": "http://evil.example:7420",
        "sec-fetch-site": "same-origin",
    },
    {"host": "localhost.evil.example", "sec-fetch-site": "same-origin"},
)
_MEDIA = ("application/json", "text/plain", "application/x-www-form-urlencoded")
_ALLOWED = frozenset({400, 403, 415, 421})
_NAMED = {"{id}": "1", "{name}": "kept"}


def _attacks() -> Iterator[tuple[str, str, dict[str, str], bytes]]:
    body = b'{"queue":"evil","type":"evil","queues":["kept"],"all":true,"states":["ready","dead"]}'
    for route in ROUTES:
        if route.is_read:
            continue
        path = f"{PREFIX}/{route.path}"
        for variable, value in _NAMED.items():
            path = path.replace(variable, value)
        for site in _SITES:
            for media in _MEDIA:
                for content in (body, b"{}"):
                    yield route.method, path, {**site, "content-type": media}, content


def _call(
    server: Server, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    peer = http.client.HTTPConnection(HOST, server.ports["web"], timeout=20)
    try:
        peer.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in ({"host": f"{HOST}:7420"} | dict(headers)).items():
            peer.putheader(name, value)
        if body is not None:
            peer.putheader("content-length", str(len(body)))
        peer.endheaders(body)
        answer = peer.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        peer.close()


def _state(server: Server) -> Any:
    """All that an attack could change."""
    queues, jobs = (_call(server, "GET", f"{PREFIX}/{path}", {})[2] for path in ("queues", "jobs"))
    seen: list[dict[str, Any]] = msgspec.json.decode(queues)["queues"]
    return [{n: v for n, v in one.items() if n != "oldest_ms"} for one in seen], jobs


def run(options: Options) -> Result:
    tally = Tally("attempts", "effects", "frameable")
    with options.server(speaks=("web", "gearman", "beanstalkd", "periodic")) as server:
        for queue in ("kept", "other"):
            job = msgspec.json.encode({"queue": queue, "type": "t"})
            headers = {"content-type": "application/json"}
            assert _call(server, "POST", f"{PREFIX}/jobs", headers, job)[0] == 201
        before = _state(server)
        for method, path, attack, body in _attacks():
            tally["attempts"] += 1
            status, headers_, _ = _call(server, method, path, attack, body)
            if status not in _ALLOWED:
                tally.note("effects", f"{method} {path} {attack}: {status}")
            if "frame-ancestors 'none'" not in (headers_["content-security-policy"] or ""):
                tally.note("frameable", f"{method} {path}")
            if tally["effects"] > 20:
                break
        for name in ("faktory", "gearman", "beanstalkd", "periodic"):
            tally["attempts"] += 1
            _speak_http(server.ports[name])
        if not server.running or _state(server) != before:
            tally.note("effects", "jobs or queues are not what they were")
    held = tally["effects"] == tally["frameable"] == 0 and tally["attempts"] >= 60
    return Result(held, str(tally), tally.examples[:10])


def _speak_http(port: int) -> None:
    """What a form of another site sends to the port of another protocol."""
    lines = (
        b"FLUSH\r\nshutdown\r\ndrop function kept\r\npause-tube kept 60\r\nput 0 0 60 1\r\nx\r\n"
    )
    with socket.create_connection((HOST, port), timeout=10) as peer:
        try:
            peer.sendall(
                b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Type: text/plain\r\n\r\n" + lines
            )
            peer.settimeout(5)
            while peer.recv(4_096):
                pass
        except OSError:
            pass
