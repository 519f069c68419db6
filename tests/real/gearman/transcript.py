"""What peers said, packet by packet, as text that people can read and programs can say again.

A line is a packet: its name, then its arguments, in which anything but plain characters is
escaped as in Python, `|` between two of them. What the peer sent and what the server sent stand
apart: which of two packets on their way to each other came first is chance. `<handle 1>` is the
first job that is spoken of; `<unique>` one that a library made up.
"""

from collections.abc import Callable
from pathlib import Path

from franca.protocols.gearman.wire import Packet
from tests.real.relay import CLIENT, SERVER
from tests.support.gearman import request

FOLDER = Path(__file__).with_name("transcripts")
SAID = {CLIENT: "it says", SERVER: "it hears"}


def said(path: Path, handle: Callable[[str], bytes]) -> list[tuple[str, bytes]]:
    """What its connections sent, each with its act's title, and with these acts' handles."""
    found: list[tuple[str, bytes]] = []
    title, is_clients = "", False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            title = line.removeprefix("== ")
        elif line.startswith("-- "):
            is_clients = line.endswith(SAID[CLIENT])
            if is_clients:
                found.append((title, b""))
        elif line and is_clients:
            found[-1] = (title, found[-1][1] + _packed(line, handle(title)))
    return found


def _packed(line: str, handle: bytes) -> bytes:
    name, _, rest = line.partition(" ")
    return request(Packet[name], *(_unescaped(each, handle) for each in rest.split(" | ")))


def _unescaped(argument: str, handle: bytes) -> bytes:
    if argument.startswith("<handle"):
        return handle
    return argument.encode("latin-1").decode("unicode_escape").encode("latin-1")
