"""Input that no good client sends, one module per protocol.

A case is what is sent and what may come of it. `CLOSED`: the server hangs up at once and says no more than
its greeting. `REFUSED`: one error. `ANSWERED`: one well-formed answer, whichever; what follows on
the same connection is then answered too. `EITHER`: one answer, or the closed door. Jobs that cases make
are in the queue `hostile`; nothing that a web page would like to be heard may ever make one in `smuggled`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, cast

PROTOCOLS: tuple[str, ...] = ("faktory", "gearman", "periodic", "memodb", "eventmq")

CLOSED, REFUSED, ANSWERED, EITHER = "closed", "refused", "answered", "either"

FRAME_BYTES = 8 << 20
"""As large as a frame may be while this lasts."""
SILENT_S = 2.0
"""As long as half a message may wait for its other half."""


class Case(NamedTuple):
    """Bytes to send, by a stranger or by a client that is known, and what may come of it."""

    name: str
    data: bytes
    outcome: str
    known: bool = True


class Heavy(NamedTuple):
    """One message, or so many of them. `closes`: the server hangs up on it."""

    name: str
    message: bytes
    times: int = 1
    closes: bool = False


class Silence(Protocol):
    """Half a message, and then nothing: to be hung up on after a while, and not before."""

    name: str

    def wrong(self) -> str:
        """What was wrong with the end of it, or nothing."""


class Hostility(Protocol):
    """What a protocol's module offers."""

    def cases(self, seed: int) -> list[Case]:
        """Small ones, in an order of chance."""

    def play(self, port: int, case: Case) -> str:
        """Send a case on a connection of its own; what was wrong with the answer, or nothing."""

    def silences(self, port: int) -> list[Silence]:
        """Begin to say something, in several ways."""

    def heavies(self, *, short: bool) -> Iterator[Heavy]:
        """Large or many ones: cheap to send and dear to take apart."""

    def play_heavy(self, port: int, heavy: Heavy) -> str:
        """Send it and read all answers; what was wrong with them, or nothing."""

    def endless(self, port: int, *, known: bool) -> AbstractContextManager[object]:
        """Say something that does not end until the server has had enough; left open."""


def of(protocol: str) -> Hostility:
    return cast(Hostility, importlib.import_module(f"tests.prove.hostile.{protocol}"))
