"""A job's arguments as its submitter sent them, out of bodies that have more around them.

Only the beginning of a long body is looked into, so that neither a list nor a search takes longer
for it, and numbers are never read and written again.
"""

from __future__ import annotations

import re

from franca.protocols.bodies import CHUNK_BYTES, JSON_ARGS, JSON_JOB, as_json_args, outside_strings

LOOKED_BYTES = 64 * 1024
"""Of a body, where only its beginning matters."""
_NAME = b'"args":['
_QUOTE = ord('"')
_OPENING = b"[{"
_TOKENS = re.compile(rb'"____":|[\[{]|[\]}]')
"""In JSON whose strings are blanked: a name of four letters, and brackets."""


def has_envelope(media: str) -> bool:
    """Whether the arguments are only a part of such a body."""
    return media == JSON_JOB


def beginning_of(media: str, body: bytes) -> tuple[bytes, bool]:
    """The arguments that are in these bytes, with which a body begins; whether they end there.

    Nothing if they have not begun: what stands before them may be long.
    """
    if not has_envelope(media):
        return body, True
    begin = depth = 0
    blanked = b"".join(piece for _, piece in outside_strings(body, 0, CHUNK_BYTES))
    for token in _TOKENS.finditer(blanked):
        at, first = token.start(), blanked[token.start()]
        if first == _QUOTE:
            if depth == 1 and not begin and body.startswith(_NAME, at):
                begin = at + len(_NAME) - 1
        elif first in _OPENING:
            depth += 1
        else:
            depth -= 1
            if begin and depth == 1:
                return body[begin : at + 1], True
    return (body[begin:] if begin else b""), False


def whole_of(media: str, body: bytes) -> tuple[str, bytes, bool]:
    """The same of a body as far as it is known: what it is, the bytes, and whether they are all."""
    if not has_envelope(media):
        return media, body, True
    if len(body) > LOOKED_BYTES:
        return JSON_ARGS, as_json_args(media, body), True
    found, is_whole = beginning_of(media, body)
    return (JSON_ARGS, found, is_whole) if found else (media, body, True)
