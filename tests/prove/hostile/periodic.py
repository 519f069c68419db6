"""Periodic: a frame that is none is the end of the connection; a command that makes no sense is answered, or ignored."""

import re

from tests.prove.hostile import Hostility, Message, tables
from tests.support import periodic as p

_PLAIN = b"<plain>"
"""The first part of a message in the document's dialect, which has no CRC."""
_REGISTERS = {b"client": b"\x01", b"worker": b"\x02"}


def _message(*words: bytes) -> Message:
    """`COMMAND@id` and its arguments, a frame, a job with this body, or who registers; behind `doc` in the document's dialect."""
    before, usual = ((_PLAIN,), b"1") if words[0] == b"doc" else ((), b"0001")
    command, *arguments = words[len(before) :]
    if command == b"frame":
        return tuple(arguments)
    if command == b"job":
        command, arguments = b"SUBMIT_JOB", [p.packed("q", "n", *arguments)]
    if command in _REGISTERS:
        return (*before, _REGISTERS[command])
    name, _, msgid = command.partition(b"@")
    number = int(name) if name.isdigit() else getattr(p, name.decode())
    return (*before, msgid or usual, bytes([number]), *arguments)


def _frame(message: Message) -> bytes:
    if message[:1] == (_PLAIN,):
        return p.framed(p.DOC, p.SEPARATOR.join(message[1:]))
    return p.framed(p.CRC, b"".join(message))


HOSTILITY = Hostility(
    tables(__file__), _message, _frame, p.said,
    answer=_frame((b"last", bytes([p.PONG]))).replace(b"REQ", b"RES"),
    harm=b"timeout|keepalive|" + re.escape(bytes([p.CONFIG_SET])),
)  # fmt: skip
