"""How a body made for one protocol is shown to a worker of another.

A body is never changed in the store and never refused because of who will run it: there is
always a rendering. Each rule is a function here and a row in `docs/crossing.md`. Media labels:
`json-job` (a JSON object with `args` inside), `json-args` (a JSON array), `json-call` (a JSON array
of a word and an object that names what is called, with `args` inside), `bytes` (anything).
"""

from __future__ import annotations

from base64 import b64decode, b64encode

import msgspec

JSON_JOB = "json-job"
JSON_ARGS = "json-args"
JSON_CALL = "json-call"
BYTES = "bytes"


class _Job(msgspec.Struct):
    args: msgspec.Raw


class _Base64(msgspec.Struct, forbid_unknown_fields=True):
    base64: str


class _Call(msgspec.Struct):
    args: msgspec.Raw = msgspec.Raw(b"[]")
    kwargs: dict[str, msgspec.Raw] | None = None
    class_args: list[msgspec.Raw] | None = None
    class_kwargs: dict[str, msgspec.Raw] | None = None


_CALL = msgspec.json.Decoder(tuple[str, _Call])
_PARTS = msgspec.json.Decoder(tuple[str, msgspec.Raw])
_JOB = msgspec.json.Decoder(_Job)
_ALONE = msgspec.json.Decoder(tuple[str | _Base64])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


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
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return msgspec.json.encode([{"base64": b64encode(body).decode("ascii")}])
    try:
        _ARRAY.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.json.encode([text])
    return body


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
    except (msgspec.MsgspecError, RecursionError):
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
        if args[:1] == b"[" and not (call.kwargs or call.class_args or call.class_kwargs):
            return args
    except (msgspec.MsgspecError, RecursionError):
        pass
    return b"[%b]" % bytes(_PARTS.decode(body)[1])
