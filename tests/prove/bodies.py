"""What jobs of a load are made of, so that any worker of any protocol knows whose job it was given.

A body is a JSON array that begins with the job's name in the history, or bytes that hold it. A
worker of another protocol is shown a rendering (docs/crossing.md); `undone` takes it back, so that
the fingerprint of what was given and of what arrived can be compared across protocols too.
"""

import json
import re
from base64 import b64decode
from random import Random

from tests.prove.events import digest

ODD_EVERY = 50
_AS_TEXT = b"base64:"
_NAME = re.compile(rb"[a-z]+-[a-z0-9]+-[0-9]{7}")

# What a careless server would change: digits, keys, escapes, emptiness.
_ODD_ARGS: tuple[tuple[object, ...], ...] = (
    (None,),
    (2**64 + 1, -(2**53) - 1, 0.1, 1.0, 1e-9),
    ("ü€😀\u2028</script>&", "\u0000\t\r\n"),
    ({"b": 1, "a": {"z": None, "y": [True, False]}}, [[[]]]),
    ("x" * 2_000,),
)
_ODD_BYTES: tuple[bytes, ...] = (b"\0", b"\0\0REQ\xff\xfe\r\n", b"text, and no JSON", b"\0" * 3_000)


def is_odd(jid: str) -> bool:
    return int(jid[-7:]) % ODD_EVERY == 0


def args_for(jid: str, rng: Random) -> list[object]:
    """Arguments of a job; now and then odd ones."""
    return [jid, *(rng.choice(_ODD_ARGS) if is_odd(jid) else (int(jid[-7:]),))]


def bytes_for(jid: str, rng: Random) -> bytes:
    """A body for protocols in which it is any bytes: mostly an array all the same."""
    if is_odd(jid) and rng.random() < 0.5:
        return jid.encode() + rng.choice(_ODD_BYTES)
    return as_json(args_for(jid, rng))


def as_json(args: list[object]) -> bytes:
    return json.dumps(args, separators=(",", ":")).encode()


def undone(args: list[object]) -> bytes:
    """The bytes that a producer gave, from the arguments that a worker of Faktory was shown."""
    match args:
        case [str(text)]:
            return text.encode()
        case [{"base64": str(text)}]:
            return b64decode(text)
    return as_json(args)


def plain(text: bytes) -> bytes:
    """The bytes that a producer gave, from the text that a worker was shown who takes only text."""
    return b64decode(text[len(_AS_TEXT) :]) if text.startswith(_AS_TEXT) else text


def told(data: bytes) -> tuple[str, str]:
    """The job's name in the history and the fingerprint of its body."""
    found = _NAME.search(data)
    return (found.group().decode() if found else f"nameless {data[:60]!r}"), digest(data)
