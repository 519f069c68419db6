"""Input that no good client sends, one module of tables per protocol, and what must come of it.

`CLOSED`: the server hangs up at once and says no more than its greeting, or why. `REFUSED`: one error.
`ANSWERED`: one well-formed answer, whichever, or none where a message has none; what follows on the same connection
is then answered too. `EITHER`: answered, or closed. Jobs that cases make are in the queue `hostile`; nothing that
a web page would like to be heard may ever make one in `smuggled`.
"""

from __future__ import annotations

import importlib
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from random import Random
from typing import NamedTuple, Protocol, cast

from tests.prove.hostile.raw import PATIENCE_S, Raw, flood

CLOSED, REFUSED, ANSWERED, EITHER = "closed", "refused", "answered", "either"

FRAME_BYTES = 8 << 20
"""As large as a frame may be while this lasts."""
SILENT_S = 2.0
"""As long as half a message may wait for its other half."""
AT_ONCE_S = 1.0
"""By then whoever is hung up on at once has noticed."""
_ENDLESS_BYTES = 32 << 20
_CHUNK = 1 << 20


class Case(NamedTuple):
    """Bytes to send, by a stranger or by a client that is known, and what may come of it."""

    data: bytes
    outcome: str
    known: bool = True
    name: str = ""

    def __str__(self) -> str:
        return self.name or repr(self.data[:60])


def each(
    outcome: str, data: Iterable[bytes] | Mapping[str, bytes], *, known: bool = True
) -> Iterator[Case]:
    """A case for each of them, with the names that they have."""
    named = data.items() if isinstance(data, Mapping) else (("", one) for one in data)
    return (Case(one, outcome, known, name) for name, one in named)


def noise(rng: Random, *sizes: int) -> bytes:
    return rng.randbytes(rng.choice(sizes))


# -- what arrives at a listener by mistake or by malice: web pages, and clients of something else -----

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


# -- what is played ----------------------------------------------------------------------------


class Heavy(NamedTuple):
    """One message, or so many of them. `closes`: the server hangs up on it."""

    name: str
    message: bytes
    times: int = 1
    closes: bool = False


class Probe(NamedTuple):
    """What a known client says first and last, and the answer to that last word.

    `said` cuts all that the server said into messages, or raises `ValueError`. A message that begins with one of
    `errors` is an error; where there are any, whoever is hung up on hears nothing else. `halves_wait`: what may be
    answered or closed may also be half a message, which waits for its other half. `counts`: every message has one
    answer, of which so many `greetings` are not counted, and an error may be the last word.

    `small` may be said a thousand times, `large` makes a job with a body; what fits the pattern `harm` hurts neighbours
    by what it means.
    """

    hello: bytes
    last: bytes
    answer: bytes
    said: Callable[[bytes], Iterator[bytes]]
    errors: tuple[bytes, ...] = ()
    halves_wait: bool = False
    counts: bool = False
    greetings: int = 0
    small: bytes = b""
    large: Callable[[bytes], bytes] = bytes
    harm: bytes = b"$^"


class Hostility(Protocol):
    """What a protocol's module offers."""

    PROBE: Probe
    SILENCES: Mapping[str, bytes]
    """Half a message, and then nothing: to be hung up on after a while, and not before."""
    ENDLESS: tuple[bytes, bytes]
    """What a stranger and a known client begin to say, without an end until the server has had enough."""

    def cases(self, rng: Random) -> Iterator[Case]:
        """Small ones."""

    def heavies(self, *, short: bool) -> Iterator[Heavy]:
        """Large or many ones, cheap to send and dear to take apart; in a short run the most telling."""


def of(protocol: str) -> Hostility:
    return cast(Hostility, importlib.import_module(f"tests.prove.hostile.{protocol}"))


def cases(protocol: str, seed: int) -> list[Case]:
    """All small ones, in an order of chance."""
    rng = Random(seed)
    found = list(of(protocol).cases(rng))
    rng.shuffle(found)
    return found


def play(protocol: str, port: int, case: Case) -> str:
    """Send a case on a connection of its own; what was wrong with the answer, or nothing."""
    probe = of(protocol).PROBE
    may_wait = probe.halves_wait and case.outcome == EITHER
    with Raw(port, 0.5 if may_wait else 10.0) as peer:
        began = time.monotonic()
        closed = False
        try:
            if case.known:
                peer.send(probe.hello)
            peer.send(case.data)
            if case.known or case.outcome == EITHER:
                peer.send(probe.last)
            peer.read_until(probe.answer)
        except TimeoutError:
            return "" if may_wait else f"no answer, only {bytes(peer.heard[:124])!r}"
        except ConnectionError:
            closed = True
        is_late = time.monotonic() - began > AT_ONCE_S
    try:
        answers = list(probe.said(bytes(peer.heard).removesuffix(probe.answer)))
    except ValueError as error:
        return str(error)
    return _judged(probe, case, answers[probe.greetings :], closed=closed, is_late=is_late)


def _judged(probe: Probe, case: Case, answers: list[bytes], *, closed: bool, is_late: bool) -> str:
    errors = [answer for answer in answers if answer.startswith(probe.errors)]
    shown = [answer[:60] for answer in answers[:3]]
    if case.outcome == CLOSED:
        if not closed or is_late:
            return "not closed at once"
        told = answers if probe.counts else [a for a in answers if a not in errors]
        return f"answered {shown}" if probe.errors and told else ""
    if closed:
        is_right = case.outcome == EITHER or (probe.counts and errors)
        return "" if is_right else f"closed after {shown}"
    if case.outcome == REFUSED and len(errors) != 1:
        return f"not refused: {shown}"
    if probe.counts and case.known and len(answers) != 1:
        return f"{len(answers)} answers: {shown}"
    return ""


def play_heavy(protocol: str, port: int, heavy: Heavy) -> str:
    """Send it as a known client and read all answers; what was wrong with them, or nothing."""
    probe = of(protocol).PROBE
    with Raw(port) as peer:
        pieces = [heavy.message * min(1_000, heavy.times - n) for n in range(0, heavy.times, 1_000)]
        is_answered = flood(peer, [probe.hello, *pieces, probe.last], probe.answer)
    if heavy.closes:
        return "not hung up on" if is_answered else ""
    if not is_answered:
        return f"no answer to the last, only {bytes(peer.heard[-60:])!r}"
    if probe.counts:
        answers = len(list(probe.said(bytes(peer.heard)))) - probe.greetings - 1
        return "" if answers == heavy.times else f"{answers} answers to {heavy.times} messages"
    return ""


def silences(protocol: str, port: int) -> dict[str, Raw]:
    """Those who began to say something, and are to be hung up on after a while."""
    peers = {name: Raw(port, SILENT_S + 4.0) for name in of(protocol).SILENCES}
    for name, begun in of(protocol).SILENCES.items():
        peers[name].send(begun)
    return peers


def stays(silent: Raw) -> bool:
    """Whether one of them is not hung up on."""
    with silent, suppress(ConnectionError):
        try:
            while True:
                silent.read()
        except TimeoutError:
            return True
    return False


def endless(protocol: str, port: int, *, known: bool) -> Raw:
    """Say more and more until the server has had enough; left open."""
    peer = Raw(port, PATIENCE_S)
    peer.pour([of(protocol).ENDLESS[known], *[b"x" * _CHUNK] * (_ENDLESS_BYTES // _CHUNK)])
    return peer
