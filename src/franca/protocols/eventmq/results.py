"""What a worker's REPLY means, and what the client that waits for it is sent.

A worker answers with a JSON object, usually `{"value": ...}`; an exception's text is such a value,
as it always was. `{"error": ...}` is our own form of saying that a job failed.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from franca.core.events import Finished
from franca.core.model import Failure, State

HOLDERS: Final = "eventmq "
"""What the holder's name of every worker of this protocol begins with."""
NOTHING: Final = b"true"
"""What a client hears of a job without a result."""
TIMED_OUT: Final = (b'{"value": "TimeoutError"}', b'{"value":"TimeoutError"}')
_EMPTY: Final = (b"", b"null", b'{"value": null}', b'{"value":null}')
_BRACE: Final = ord("{")


class _Answer(Struct):
    error: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Answer).decode
_encode = msgspec.json.Encoder().encode


def failure_in(body: bytes, text_max: int) -> Failure | None:
    """The failure that a REPLY reports, or None if it is a result."""
    if not body or body[0] != _BRACE or b'"error"' not in body:
        return None
    try:
        answer = _decode(body)
        if not isinstance(answer.error, Raw) or answer.value is not UNSET:
            return None
        error = msgspec.json.decode(answer.error)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    text = error if isinstance(error, str) else bytes(answer.error).decode("utf-8", "replace")
    return Failure("Error", text[:text_max])


def result_of(event: Finished) -> bytes:
    """What the client that asked for a job's result is sent."""
    if event.state is not State.DONE:
        return _encode({"error": event.failure.text or event.state.name.lower()})
    result = event.result
    if result in _EMPTY:
        return NOTHING
    if event.job.holder.startswith(HOLDERS):
        return result
    return _encode({"value": _as_value(result)})


def as_stranger_knows_it(result: bytes) -> bytes:
    """A worker's result as a client of another protocol is given it: the bare value."""
    try:
        value = _decode(result).value
        if not isinstance(value, Raw):
            return result
        decoded = msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return result
    if decoded is None:
        return b""
    return decoded.encode("utf-8", "replace") if isinstance(decoded, str) else bytes(value)


def _as_value(result: bytes) -> object:
    try:
        return result.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(result).decode("ascii")}
