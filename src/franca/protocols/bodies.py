"""How a body made for one protocol is shown to a worker of another.

A body is never changed in the store and never refused because of who will run it: there is
always a rendering. Each rule is a function here and a row in `docs/crossing.md`. Media labels:
`json-job` (a JSON object with `args` inside), `json-args` (a JSON array), `json-call` (a JSON array
of a word and an object that names what is called, with `args` inside), `bytes` (anything).

Bodies may be long and are anybody's: nothing here takes a value apart into objects, and what is
written anew is written in pieces.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from codecs import getincrementaldecoder
from typing import Final

import msgspec
from msgspec import Raw

JSON_JOB = "json-job"
JSON_ARGS = "json-args"
JSON_CALL = "json-call"
BYTES = "bytes"
CHUNK_BYTES: Final = 256 * 1024
"""How much of a long text is turned into another form at once."""


class _Job(msgspec.Struct):
    args: Raw


class _Base64(msgspec.Struct, forbid_unknown_fields=True):
    base64: str


class _Call(msgspec.Struct):
    args: Raw = Raw(b"[]")
    kwargs: Raw = Raw(b"{}")
    class_args: Raw = Raw(b"[]")
    class_kwargs: Raw = Raw(b"{}")


_CALL = msgspec.json.Decoder(tuple[str, _Call])
_PARTS = msgspec.json.Decoder(tuple[str, Raw])
_JOB = msgspec.json.Decoder(_Job)
_ALONE = msgspec.json.Decoder(tuple[str | _Base64])
_WHOLE = msgspec.json.Decoder(Raw)
_BEGINS_AN_ARRAY = re.compile(rb"[ \t\r\n]*\[")
_IS_EMPTY = re.compile(rb"\[[ \t\r\n]*\]|\{[ \t\r\n]*\}|null")
_decoder = getincrementaldecoder("utf-8")
_encode = msgspec.json.Encoder().encode


def is_utf8(raw: bytes) -> bool:
    """Whether the bytes are text."""
    if raw.isascii():
        return True
    decoder = _decoder()
    try:
        for at in range(0, len(raw), CHUNK_BYTES):
            decoder.decode(raw[at : at + CHUNK_BYTES], at + CHUNK_BYTES >= len(raw))
    except UnicodeDecodeError:
        return False
    return True


def json_value(raw: bytes) -> list[bytes]:
    """The bytes as a JSON string, or an object `{"base64": ...}` if they are no text; in pieces."""
    if not is_utf8(raw):
        return [b'{"base64":"', b64encode(raw), b'"}']
    decoder = _decoder()
    texts = (decoder.decode(raw[at : at + CHUNK_BYTES]) for at in range(0, len(raw), CHUNK_BYTES))
    return [b'"', *(_encode(text)[1:-1] for text in texts), b'"']


def as_json_args(media: str, body: bytes) -> bytes:
    """The body as a JSON array of arguments.

    An array stays as it is, to the byte. Other text is one string; what is no text is one object
    `{"base64": ...}`.
    """
    if media == JSON_ARGS:
        return body
    if media == JSON_JOB:
        return bytes(_JOB.decode(body).args)
    if media == JSON_CALL:
        return _args_of_call(body)
    if _BEGINS_AN_ARRAY.match(body) and is_utf8(body):
        try:
            _WHOLE.decode(body)
        except (msgspec.MsgspecError, RecursionError):
            pass
        else:
            return body
    return b"".join((b"[", *json_value(body), b"]"))


def as_bytes(media: str, body: bytes) -> bytes:
    """The body as the bytes that a worker without any notion of arguments is given.

    A JSON array of arguments, to the byte; but one string alone is its text, and one object
    `{"base64": ...}` alone what it stands for, as if they had crossed the other way.
    """
    if media == BYTES:
        return body
    args = as_json_args(media, body)
    try:
        alone = _ALONE.decode(args)[0]
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return args
    if isinstance(alone, str):
        return alone.encode("utf-8", "replace")
    try:
        return b64decode(alone.base64, validate=True)
    except ValueError:
        return args


def _args_of_call(body: bytes) -> bytes:
    """The arguments of a call where they are all it has, else an array with the whole call."""
    try:
        call = _CALL.decode(body)[1]
        args = bytes(call.args)
        others = (call.kwargs, call.class_args, call.class_kwargs)
        if args[:1] == b"[" and all(map(_IS_EMPTY.fullmatch, others)):
            return args
    except (msgspec.MsgspecError, RecursionError):
        pass
    return b"[%b]" % bytes(_PARTS.decode(body)[1])
