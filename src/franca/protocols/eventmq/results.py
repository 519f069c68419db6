"""What a worker's REPLY means, and what the client that waits for it is sent.

A worker answers with a JSON object, usually `{"value": ...}`; an exception's text is such a value,
as it always was. `{"error": ...}` is our own form of saying that a job failed.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from franca.core.events import Finished
from franca.core.model import Failure, State
from franca.protocols.bodies import in_one_piece

DONE: Final = State.DONE
HOLDERS: Final = "eventmq "
"""What the holder's name of every worker of this protocol begins with."""
NOTHING: Final = b"true"
"""What a client hears of a job without a result."""
TIMED_OUT: Final = (b'{"value": "TimeoutError"}', b'{"value":"TimeoutError"}')
_EMPTY: Final = (b"", b"null", b'{"value": null}', b'{"value":null}')
READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""To read a longer result would hold up everybody."""
_FAILURE: Final = re.compile(rb'\{[ \t\r\n]{0,64}"error"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}"?')
_VALUE: Final = re.compile(rb'\{[ \t\r\n]{0,64}"value"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}')
_BRACE: Final = ord("{")


class _Answer(Struct):
    error: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Answer).decode
_encode = msgspec.json.Encoder().encode


def failure_in(body: bytes, text_max: int) -> Failure | None:
    """The failure that a REPLY reports, or None if it is a result.

    A very long one is not read to its end: it is a failure if it begins like one.
    """
    if len(body) > READ_BYTES_MAX:
        begun = _FAILURE.match(body)
        if begun is None:
            return None
        start = begun.end()
        said = body[start : start + 4 * text_max].decode("utf-8", "replace")
        return Failure("Error", said[:text_max])
    if not body or body[0] != _BRACE or body.find(b'"error"') < 0:
        return None
    try:
        answer = _decode(body)
        if not isinstance(answer.error, Raw) or answer.value is not UNSET:
            return None
        text = _text_in(answer.error)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    if text is None:
        text = bytes(memoryview(answer.error)[: 4 * text_max]).decode("utf-8", "replace")
    return Failure("Error", text[:text_max])


def _text_in(value: Raw) -> str | None:
    """The text that a value is; None if it is another value, which is not read any further."""
    is_text = bytes(memoryview(value)[:1]) == b'"'
    return msgspec.json.decode(value, type=str) if is_text else None


def result_of(event: Finished) -> bytes:
    """What the client that asked for a job's result is sent."""
    if event.state is not DONE:
        text = event.failure.text or event.state.name.lower()
        return _encode({"error": text.encode("utf-8", "replace").decode()})
    result = event.result
    if result in _EMPTY:
        return NOTHING
    if event.job.holder.startswith(HOLDERS):
        return result
    return in_one_piece(b'{"value":', result, b"}")


def as_stranger_knows_it(result: bytes) -> bytes:
    """A worker's result as a client of another protocol is given it: the bare value."""
    if len(result) > READ_BYTES_MAX:
        return _cut_out(result)
    try:
        value = _decode(result).value
        if not isinstance(value, Raw):
            return result
        text = _text_in(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return result
    if text is not None:
        return text.encode("utf-8", "replace")
    bare = bytes(value)
    return b"" if bare == b"null" else bare


def _cut_out(result: bytes) -> bytes:
    """The bare value of a long result, without a look at what is in it.

    A text with escapes in it is given as the worker wrote it.
    """
    begun = _VALUE.match(result)
    if begun is None or not result.endswith(b"}"):
        return result
    start, end = begun.end(), len(result) - 1
    if result[start : start + 1] != b'"':
        return result[start:end]
    closes = result.find(b'"', start + 1)
    if closes != end - 1 or result.find(b"\\", start) >= 0:
        return result
    return result[start + 1 : closes]
