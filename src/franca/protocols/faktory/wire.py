"""Faktory's bytes, for both roles: what a server writes, what a client writes and reads.

A server answers in RESP: `+text`, `-ERR text`, a counted bulk, or the null bulk. Each reply is
one piece of bytes, because some clients take one read for one reply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

OK: Final = b"+OK\r\n"
NULL: Final = b"$-1\r\n"
EMPTY_MAP: Final = b"$2\r\n{}\r\n"
ERROR_CHARS_MAX: Final = 1_000

# A line must stay a line, whatever is quoted in it.
_CONTROLS: Final = dict.fromkeys([*range(32), 127, 0x85, 0x2028, 0x2029], " ")
_encode = msgspec.json.Encoder().encode


# -- the server's words --------------------------------------------------------------------


def error(text: str) -> bytes:
    """An error line. Only the code ERR: some clients know no other."""
    line = text[:ERROR_CHARS_MAX].translate(_CONTROLS)
    return b"-ERR " + line.encode("utf-8", "replace") + b"\r\n"


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


# -- the client's words ----------------------------------------------------------------------


def encode_hello(wid: str = "", **members: object) -> bytes:
    """The answer to a greeting; with a `wid`, that of a worker."""
    said: dict[str, object] = {"v": 2}
    if wid:
        said |= {"wid": wid, "hostname": "localhost", "pid": 1, "labels": []}
    return b"HELLO " + _encode(said | members) + b"\r\n"


def encode_push(job: Mapping[str, object]) -> bytes:
    """One job."""
    return b"PUSH " + _encode(job) + b"\r\n"


def encode_push_many(jobs: Iterable[Mapping[str, object]]) -> bytes:
    """Many jobs at once."""
    return b"PUSHB " + _encode(list(jobs)) + b"\r\n"


def encode_fetch(*queues: str) -> bytes:
    """A job of the first of these queues that has one."""
    return " ".join(["FETCH", *queues]).encode() + b"\r\n"


def encode_ack(jid: str) -> bytes:
    """The job is done."""
    return b"ACK " + _encode({"jid": jid}) + b"\r\n"


def encode_fail(
    jid: str, message: str = "", errtype: str = "", backtrace: Sequence[str] = ()
) -> bytes:
    """The job failed."""
    said = {"jid": jid, "message": message, "errtype": errtype, "backtrace": list(backtrace)}
    return b"FAIL " + _encode(said) + b"\r\n"


def encode_beat(wid: str, **members: object) -> bytes:
    """The worker lives."""
    return b"BEAT " + _encode({"wid": wid, **members}) + b"\r\n"


def encode_mutate(cmd: str, target: str, **filters: object) -> bytes:
    """Change many jobs of one set: `jids`, `jobtype` and `regexp` choose which."""
    return b"MUTATE " + _encode({"cmd": cmd, "target": target, "filter": filters}) + b"\r\n"


def encode_line(*words: str) -> bytes:
    """Any command made of plain words: INFO, FLUSH, END, QUEUE."""
    return " ".join(words).encode() + b"\r\n"


class Reply(NamedTuple):
    """What a server said: `kind` is `+`, `-` or `$`; `body` is None for the null bulk."""

    kind: str
    body: bytes | None


def parse_reply(unread: bytearray) -> Reply | None:
    """Take the first reply off `unread`, or None until all of it is there."""
    end = unread.find(b"\r\n")
    if end < 0:
        return None
    kind, rest = chr(unread[0]), bytes(unread[1:end])
    end += 2
    if kind not in "+-$":
        raise ValueError(f"not a reply: {bytes(unread[:80])!r}")
    body: bytes | None = rest
    if kind == "$":
        size = int(rest)
        body = None
        if size >= 0:
            if len(unread) < end + size + 2:
                return None
            body = bytes(unread[end : end + size])
            end += size + 2
    del unread[:end]
    return Reply(kind, body)
