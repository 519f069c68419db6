"""What arrives at a listener by mistake or by malice: web pages, and clients of something else."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from tests.prove.hostile import CLOSED, Case

_VERBS = (
    b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"PATCH", b"CONNECT",
)  # fmt: skip
_HEAD = b"\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n"


def web_pages(smuggled: bytes, *verbs: bytes) -> Iterator[Case]:
    """A browser's requests, with something behind them that must not be heard."""
    for verb in (*_VERBS, *verbs):
        for target in (b"/", b"/?q=HELLO", b"*", b"http://127.0.0.1/", b"{}"):
            line = b"%b %b HTTP/1.1" % (verb, target)
            yield Case(f"web {verb!r} {target!r}", line + _HEAD + smuggled, CLOSED, known=False)
    yield Case("web, one line feed", b"POST / HTTP/1.1\n\n" + smuggled, CLOSED, known=False)
    yield Case("web, old", b"GET /\r\n" + smuggled, CLOSED, known=False)
    socket = b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
    yield Case("web socket", socket + smuggled, CLOSED, known=False)


FIRST_WORDS: dict[str, bytes] = {
    "ssh": b"SSH-2.0-OpenSSH_9.2", "redis": b"*1\r\n$4\r\nPING", "smtp": b"EHLO me",
    "gearman": b"\0REQ\0\0\0\x10\0\0\0\0", "proxy": b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2", "memcached": b"stats",
    "postgres": b"\0\0\0\x08\x04\xd2\x16\x2f", "http2": b"PRI * HTTP/2.0\r\n\r\nSM", "sip": b"INVITE sip:x SIP/2.0",
    "ftp": b"USER anonymous", "rtsp": b"OPTIONS * RTSP/1.0",
}  # fmt: skip
"""With what clients of other services begin."""


def foreign(behind: bytes, *wanted: tuple[str, str]) -> Iterator[Case]:
    """Clients of these services, each with what must come of it."""
    for name, outcome in wanted:
        words = tls_hello() if name == "tls" else FIRST_WORDS[name]
        yield Case(name, words + behind, outcome, known=False)


def tls_hello() -> bytes:
    """The first words of a client that wants to be secret."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()
