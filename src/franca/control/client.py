"""A client of the control socket for the command line: blocking, one question at a time."""

from __future__ import annotations

import socket

import msgspec
from msgspec import Raw, Struct

from franca.control.path import reachable

READ_BYTES = 1 << 16


class CannotConnect(Exception):
    """No server answers at this data directory."""


class TimedOut(Exception):
    """The server took longer than the caller would wait."""


class Declined(Exception):
    """The server said no; `code` is for programs, the text for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class _Fault(Struct, frozen=True):
    code: str
    text: str


class _Reply(Struct):
    ok: bool
    result: Raw = Raw(b"null")
    error: _Fault = _Fault("failed", "the server did not say why")


def call(directory: str, op: str, params: object = None, *, timeout_s: float = 60.0) -> bytes:
    """Ask the server of this data directory for one operation; its result as JSON."""
    line = msgspec.json.encode({"op": op, "params": {} if params is None else params})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(timeout_s)
        try:
            with reachable(directory) as path:
                peer.connect(path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotConnect(f"no server answers in {directory}: {reason}") from None
        try:
            peer.sendall(line + b"\n")
            with peer.makefile("rb", READ_BYTES) as answers:
                answer = answers.readline()
            if not answer.endswith(b"\n"):
                raise ConnectionResetError("no answer")
        except TimeoutError:
            raise TimedOut(f"the server did not answer within {timeout_s:g} s") from None
        except OSError as error:
            raise CannotConnect(f"the server hung up: {error.strerror or error}") from None
    reply = msgspec.json.decode(answer, type=_Reply)
    if not reply.ok:
        raise Declined(reply.error.code, reply.error.text)
    return bytes(reply.result)
