"""Faktory's bytes as a server writes them. Lines are cut by `protocols/buffer.py`.

It answers in RESP: `+text`, `-ERR text`, a counted bulk, or the null bulk. Each reply is
one piece of bytes, because some clients take one read for one reply.
"""

from __future__ import annotations

import hashlib
from typing import Final

from franca.core.errors import Refused
from franca.protocols.faktory.go_json import Unreadable

OK: Final = b"+OK\r\n"
NULL: Final = b"$-1\r\n"
ERROR_CHARS_MAX: Final = 1_000

# A line must stay a line, whatever is quoted in it.
_CONTROLS: Final = dict.fromkeys([*range(32), 127, 0x85, 0x2028, 0x2029], " ")


def error(text: str) -> bytes:
    """An error line. Only the code ERR: some clients know no other."""
    line = text[:ERROR_CHARS_MAX].translate(_CONTROLS)
    return b"-ERR " + line.encode("utf-8", "replace") + b"\r\n"


def refusal_of(refusal: Refused) -> bytes:
    """An error line for what is not done."""
    is_json = not isinstance(refusal, Unreadable)
    return error(refusal.text if is_json else f"invalid JSON: {refusal.text}")


def quoted(said: bytes) -> str:
    """What a client said, as far as an error line repeats it."""
    return said[: 4 * ERROR_CHARS_MAX].decode("utf-8", "replace")


def bulk(data: bytes) -> bytes:
    """A counted string."""
    return b"$%d\r\n%b\r\n" % (len(data), data)


def greeting(rounds: int = 0, salt: str = "") -> bytes:
    """The first line. Clients compare or split it byte by byte: no space may be added."""
    if not salt:
        return b'+HI {"v":2}\r\n'
    return b'+HI {"v":2,"i":%d,"s":"%b"}\r\n' % (rounds, salt.encode())


def password_hash(password: str, salt: str, rounds: int) -> str:
    """SHA-256 over the password and the salt, hashed again until there were `rounds`."""
    digest = (password + salt).encode()
    for _ in range(rounds):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()
