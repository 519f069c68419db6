"""Letting a client in: the greeting's challenge, and what HELLO must answer to it."""

from __future__ import annotations

import hmac
import re
from random import Random
from typing import Final

from franca.protocols.faktory.claims import ANONYMOUS
from franca.protocols.faktory.lenient import Reader, Unreadable
from franca.protocols.faktory.messages import Hello
from franca.protocols.faktory.wire import greeting, password_hash

HELLO_BYTES_MAX: Final = 16 * 1024
"""A stranger's line; nobody needs more to say who it is."""
ROUNDS_MIN: Final = 1_000
ROUNDS_MAX: Final = 2_000
"""Hashes that a password costs. Each of ours costs us as much as it costs a guesser."""

_READER: Final = Reader(Hello)
_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Challenge:
    """What one connection must know. Its salt is its own, so a hash overheard is worthless."""

    __slots__ = ("_old_too", "_password", "_rounds", "_salt")

    def __init__(self, password: str, rng: Random, *, old_too: bool) -> None:
        self._password = password
        self._old_too = old_too
        self._rounds = rng.randrange(ROUNDS_MIN, ROUNDS_MAX + 1) if password else 0
        self._salt = f"{rng.getrandbits(128):032x}" if password else ""

    def greeting(self) -> bytes:
        """The server's first line."""
        return greeting(self._rounds, self._salt)

    def is_met_by(self, hello: Hello) -> bool:
        """Whether the hash is right, if one is asked for. Clients before version 2 hash once."""
        if not self._password:
            return True
        said = hello.pwdhash or ""
        is_old = (hello.v or 0) < 2
        if not _HASH.fullmatch(said) or (is_old and not self._old_too):
            return False
        right = password_hash(self._password, self._salt, 1 if is_old else self._rounds)
        return hmac.compare_digest(said.encode(), right.encode())


def read_hello(rest: bytes) -> Hello | None:
    """What was said behind `HELLO `, or None if it is nothing that deserves an answer."""
    if not rest.startswith(b"{"):
        return None
    try:
        return _READER.read(rest)
    except Unreadable:
        return None


def unfit_wid(wid: str, most: int) -> str:
    """Why this cannot be the name of a worker, or nothing."""
    if len(wid.encode()) > most or "\0" in wid:
        return f"wid must be text of at most {most} bytes"
    if wid.startswith(ANONYMOUS):
        # Jobs that connections without a wid hold are known by such names, in the store too.
        return f"wid cannot begin with {ANONYMOUS.strip()!r} and a space"
    return ""
