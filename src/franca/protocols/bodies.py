"""How a body made for one protocol is shown to a worker of another.

A body is never changed in the store and never refused because of who will run it: there is
always a rendering. Each rule is a function here and a row in `docs/crossing.md`. Media labels:
`json-job` (a JSON object with `args` inside), `json-args` (a JSON array), `json-call` (a JSON array
of a word and an object that names what is called, with `args` inside), `bytes` (anything).

Bodies may be long and are anybody's: nothing here takes a value apart into objects, what is
written anew is written in pieces, and what is very long is not looked into. How deep JSON is
nested is counted before a decoder sees it: a decoder would be stopped by however much of the stack
is left, and the next one somewhere else.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import a2b_base64
from codecs import getincrementaldecoder
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

import msgspec
from msgspec import Raw

from franca.protocols.buffer import PartialBytes

JSON_JOB = "json-job"
JSON_ARGS = "json-args"
JSON_CALL = "json-call"
BYTES = "bytes"
CHUNK_BYTES: Final = 256 * 1024
"""How much of a long text is turned into another form at once."""
LOOK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Anybody's bytes beyond this are not looked into: that would hold everybody else up."""
NESTING_MAX: Final = 128
"""JSON that is nested no deeper than this is JSON here, and other JSON is only text."""


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
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
_BLOCK: Final = 64
_SAME: Final = bytes.maketrans(b"{}", b"[]")
_LEVELS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_LENGTHENED: Final = bytes(set(range(32)) - set(b"\b\t\n\f\r"))
"""What JSON writes in six bytes."""
_FRONT_OF_JOB: Final = re.compile(rb'\{"retry":-?[0-9]+,"jid":"')
_BEGINS_ARGS: Final = b',"args":['
_BEHIND_ARGS: Final = re.compile(rb'\],"reserve_for":[0-9]+(?:,"backtrace":-?[0-9]+)?\}\Z')
_FRONT_BYTES: Final = 64 * 1024
"""What stands before the arguments of a job takes less."""
_BEHIND_BYTES: Final = 80
_TEXT_BEGINS: Final = b'["'
_TEXT_ENDS: Final = b'"]'
_BASE64_BEGINS: Final = b'[{"base64":"'
_BASE64_ENDS: Final = b'"}]'
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


def is_deep(text: bytes) -> bool:
    """Whether JSON is nested deeper than it should be.

    Counted in blocks of brackets: never if it is `NESTING_MAX` deep or less, and always if it is
    deeper by a block or more.
    """
    if text.count(b"[") + text.count(b"{") <= NESTING_MAX:
        return False
    depth = 0
    for _, outside in outside_strings(text, 0, CHUNK_BYTES):
        brackets = outside.translate(_SAME, _NO_BRACKETS)
        for at in range(0, len(brackets), _BLOCK):
            block = brackets[at : at + _BLOCK]
            opened = block.count(b"[")
            if depth + opened >= NESTING_MAX + _BLOCK:
                return True
            depth += 2 * opened - len(block)
    return False


def outside_strings(text: bytes | memoryview, start: int, step: int) -> Iterator[tuple[int, bytes]]:
    """JSON in pieces and where each begins, with `_` for what is inside of strings."""
    inside = 0
    while start < len(text):
        piece = bytes(text[start : start + step])
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = bytes(text[start : start + step + 1])  # an escape is not cut
        size = len(piece)
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        parts = piece.split(b'"')
        for i in range(1 - inside, len(parts), 2):
            parts[i] = b"_" * len(parts[i])
        inside = (inside + len(parts) - 1) % 2
        yield start, b'"'.join(parts)
        start += size


def depth_in(outside: bytes, depth: int) -> tuple[int, int]:
    """How deep such a piece of JSON is nested at most, and at its end, if it begins at `depth`."""
    levels = memoryview(outside.translate(_LEVELS, _NO_BRACKETS)).cast("b")
    return max(accumulate(levels, initial=depth)), depth + sum(levels)


def json_value(raw: bytes) -> list[bytes]:
    """The bytes as a JSON string, or an object `{"base64": ...}`; in pieces.

    A string if they are text, unless they are more than is looked into, or many and full of
    characters that JSON writes in six bytes.
    """
    if len(raw) > LOOK_BYTES_MAX or not is_utf8(raw) or _grows(raw):
        return [b'{"base64":"', b64encode(raw), b'"}']
    decoder = _decoder()
    texts = (decoder.decode(raw[at : at + CHUNK_BYTES]) for at in range(0, len(raw), CHUNK_BYTES))
    return [b'"', *(_encode(text)[1:-1] for text in texts), b'"']


def in_one_piece(before: bytes, raw: bytes, behind: bytes) -> bytes:
    """What `json_value` writes, between these two.

    Long base64 is written to its place, a little at a time: to join it would be one copy more.
    """
    if len(raw) <= LOOK_BYTES_MAX:
        return b"".join((before, *json_value(raw), behind))
    begin, end = before + b'{"base64":"', b'"}' + behind
    whole = PartialBytes(len(begin) + (len(raw) + 2) // 3 * 4 + len(end))
    whole.feed(begin)
    step = CHUNK_BYTES // 3 * 3
    for at in range(0, len(raw), step):
        whole.feed(b64encode(raw[at : at + step]))
    whole.feed(end)
    return whole.value()


def _grows(raw: bytes) -> bool:
    """Whether a long text would take more room as a JSON string than as base64."""
    size = len(raw)
    return size >= CHUNK_BYTES and size - len(raw.translate(None, _LENGTHENED)) > size // 15


def json_args(media: str, body: bytes) -> list[bytes]:
    """The body as a JSON array of arguments, in pieces.

    An array stays as it is, to the byte; what is no array is the one element of one, as
    `json_value` writes it. There is one for every body.
    """
    try:
        if media == JSON_ARGS:
            return [body]
        if media == JSON_JOB:
            if len(body) > LOOK_BYTES_MAX:
                return [bytes(_args_of_long_job(body))]
            return [bytes(_JOB.decode(body).args)]
        if media == JSON_CALL:
            return _args_of_call(body)
        if _is_array(body):
            return [body]
    except _UNREADABLE:
        pass
    return [b"[", *json_value(body), b"]"]


def as_json_args(media: str, body: bytes) -> bytes:
    """The same in one piece."""
    return b"".join(json_args(media, body))


def _is_array(body: bytes) -> bool:
    """Whether anybody's bytes are JSON that may be shown as it is."""
    if len(body) > LOOK_BYTES_MAX or not _BEGINS_AN_ARRAY.match(body):
        return False
    if not is_utf8(body) or is_deep(body):
        return False
    _WHOLE.decode(body)
    return True


def as_bytes(media: str, body: bytes) -> bytes:
    """The body as the bytes that a worker without any notion of arguments is given.

    A JSON array of arguments, to the byte; but one string alone is its text, and one object
    `{"base64": ...}` alone what it stands for, as if they had crossed the other way.
    """
    if media == BYTES:
        return body
    if media == JSON_JOB and len(body) > LOOK_BYTES_MAX:
        try:
            args: bytes | memoryview = _args_of_long_job(body)
        except _UNREADABLE:
            return body  # as if it had crossed twice
    else:
        args = as_json_args(media, body)
    if len(args) > LOOK_BYTES_MAX:
        return _long_alone(args)
    try:
        return _alone(bytes(args))
    except _UNREADABLE:
        return bytes(args)


def _args_of_long_job(body: bytes) -> memoryview:
    """The arguments of a long job, where they lie.

    Not looked through in a job that is written as the server keeps most: to read 60 MiB may take
    longer than everybody else can wait, and whoever took the job in has read it. Nothing but
    strings stands before the arguments then, and nothing but numbers behind them.
    """
    if _FRONT_OF_JOB.match(body):
        begin = body.find(_BEGINS_ARGS, 0, _FRONT_BYTES)
        behind = _BEHIND_ARGS.search(body, len(body) - _BEHIND_BYTES)
        if begin > 0 and behind is not None:
            return memoryview(body)[begin + len(_BEGINS_ARGS) - 1 : behind.start() + 1]
    return memoryview(_JOB.decode(body).args)


def _alone(args: bytes) -> bytes:
    """What the one string or the one object with base64 in an array stands for."""
    alone = _ALONE.decode(args)[0]
    if isinstance(alone, str):
        return alone.encode("utf-8", "replace")
    return a2b_base64(alone.base64, strict_mode=True)


def _long_alone(args: bytes | memoryview) -> bytes:
    """The same where nothing need be decoded as text, which might take four times the room.

    Whatever else these arguments are, they are shown as they are.
    """
    view = memoryview(args)
    begin, end = len(_BASE64_BEGINS), len(view) - len(_BASE64_ENDS)
    if bytes(view[:begin]) == _BASE64_BEGINS and bytes(view[end:]) == _BASE64_ENDS:
        try:
            # Decoded where it lies: it takes long enough without a copy.
            return a2b_base64(view[begin:end], strict_mode=True)
        except ValueError:
            return bytes(args)
    args = bytes(args)
    begin, end = len(_TEXT_BEGINS), len(args) - len(_TEXT_ENDS)
    if args.startswith(_TEXT_BEGINS) and args.find(b'"', begin) == end and args.endswith(b"]"):
        return args if b"\\" in args else args[begin:end]
    return args


def _args_of_call(body: bytes) -> list[bytes]:
    """The arguments of a call where they are all it has, else an array with the whole call."""
    if len(body) <= LOOK_BYTES_MAX and is_deep(body):
        raise RecursionError
    try:
        call = _CALL.decode(body)[1]
    except msgspec.MsgspecError:
        pass
    else:
        args = bytes(call.args)
        others = (call.kwargs, call.class_args, call.class_kwargs)
        if args[:1] == b"[" and all(map(_IS_EMPTY.fullmatch, others)):
            return [args]
    return [b"[", bytes(_PARTS.decode(body)[1]), b"]"]
