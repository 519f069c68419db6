"""Faktory's commands as a client writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

_encode = msgspec.json.Encoder().encode


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
