"""Gearman: whatever a packet or a line says, it is answered, ignored or hung up on, and an echo behind it comes back.

What is refused is told so in an ERROR packet or an ERR line; many packets have no answer. One that is hung up on may
be told why. `@1` is the first handle of the server.
"""

from collections.abc import Iterator

from franca.protocols.gearman.service import GearmanService
from franca.protocols.service import Service
from tests.prove.hostile import RAW, Hostility, Message, tables
from tests.support.gearman import Type, request, said


def _message(kind: bytes, *arguments: bytes) -> Message:
    """A packet of a type and arguments, or a line of text."""
    name = kind.decode("latin-1")
    in_packet = name in Type.__members__
    return (bytes([Type[name]]), *arguments) if in_packet else (RAW, kind, b"\n")


def _frame(message: Message) -> bytes:
    kind, *arguments = message or (b"\x10",)
    return request(int.from_bytes(kind[:4], "big"), *arguments)


def _fill(service: Service, data: bytes) -> bytes:
    """Handles are the server's."""
    assert isinstance(service, GearmanService)
    return data.replace(b"@", service.prefix.encode())


def _compared(data: bytes) -> Iterator[bytes]:
    """A NOOP may or may not overtake the word that makes it needless."""
    return (answer for answer in said(data) if answer != bytes([Type.NOOP]))


HOSTILITY = Hostility(
    tables(__file__), _message, _frame, said,
    answer=_frame((bytes([Type.ECHO_RES]), b"hostile echo")).replace(b"REQ", b"RES"),
    errors=(b"ERR", bytes([Type.ERROR])), harm=b"cancel", compared=_compared, fill=_fill,
)  # fmt: skip
