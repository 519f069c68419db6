"""What arrives at a listener by mistake or by malice: web pages, and clients of something else."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import product

from tests.prove.hostile import CLOSED, Case, each

_VERBS = b"GET POST PUT HEAD OPTIONS DELETE PATCH CONNECT".split()
_TARGETS = b"/ /?q=HELLO * http://127.0.0.1/ {}".split()
_HEAD = b"\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n"


def web_pages(smuggled: bytes, *verbs: bytes) -> Iterator[Case]:
    """A browser's requests, with something behind them that must not be heard."""
    heads = [b"%b %b HTTP/1.1" % line + _HEAD for line in product((*_VERBS, *verbs), _TARGETS)]
    heads += [b"POST / HTTP/1.1\n\n", b"GET /\r\n"]
    heads += [b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"]
    return each(CLOSED, (head + smuggled for head in heads), known=False)


FIRST_WORDS: dict[str, bytes] = {
    "ssh": b"SSH-2.0-OpenSSH_9.2", "redis": b"*1\r\n$4\r\nPING", "smtp": b"EHLO me",
    "gearman": b"\0REQ\0\0\0\x10\0\0\0\0", "proxy": b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2", "memcached": b"stats",
    "postgres": b"\0\0\0\x08\x04\xd2\x16\x2f", "http2": b"PRI * HTTP/2.0\r\n\r\nSM", "sip": b"INVITE sip:x SIP/2.0",
    "ftp": b"USER anonymous", "rtsp": b"OPTIONS * RTSP/1.0",
}  # fmt: skip
"""With what clients of other services begin."""


def foreign(behind: bytes, names: Iterable[str] = FIRST_WORDS) -> Iterator[Case]:
    """Clients of these services, and one that wants to be secret."""
    first = {"tls": tls_hello(), **{name: FIRST_WORDS[name] for name in names}}
    return each(CLOSED, {name: words + behind for name, words in first.items()}, known=False)


def tls_hello() -> bytes:
    """The first words of a client that wants to be secret."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
