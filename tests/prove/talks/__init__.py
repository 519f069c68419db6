"""One connection of each protocol with one command under way at a time, for the proofs about power and disks."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, cast

from tests.support.connection import Connection

PROTOCOLS: tuple[str, ...] = ("faktory", "gearman", "periodic", "eventmq")
"""Those in which anything is kept on a disk: a MemoDB job lives as long as its client waits."""
QUEUE = "q"


class Command(NamedTuple):
    """What was said, and of which jobs, by the names that are in their bodies."""

    verb: str
    jobs: tuple[str, ...] = ()


class Dialogue(ABC):
    """A connection that waits for each answer before it speaks again.

    So the n-th answer that the server sent to its port belongs to its n-th command.
    """

    client: Connection
    greetings = 0
    """Answers that come before the first command's."""

    def __init__(self) -> None:
        self.said: list[Command] = []
        self.names: dict[str, str] = {}
        """What the server called jobs that were submitted here, where it is not their own name."""

    @property
    def local_port(self) -> int:
        return self.client.local_port

    # -- what is said ------------------------------------------------------------------------

    @abstractmethod
    def push(self, names: Sequence[str]) -> None:
        """Submit a job for each name, all at once where the protocol can."""

    @abstractmethod
    def take(self) -> str | None:
        """A job to run, by the name in its body; None if there is none now."""

    @abstractmethod
    def finish(self, name: str) -> None:
        """It is done."""

    @abstractmethod
    def fail(self, name: str) -> None:
        """It failed."""

    def leave(self) -> None:
        """Hang up politely, where the protocol has a word for it."""
        self.close()

    def close(self) -> None:
        """Hang up without a word."""
        self.client.close()

    # -- what was heard, from a trace ----------------------------------------------------------

    @abstractmethod
    def take_answers(self, buffer: bytearray) -> Iterator[bytes]:
        """Take off the front of what was sent to this peer whole answers to commands."""

    @abstractmethod
    def is_yes(self, verb: str, answer: bytes) -> bool:
        """Whether this answer to such a command is a promise."""


class Talks(Protocol):
    """What a protocol's module offers."""

    def talk(self, port: int, worker: str = "") -> Dialogue:
        """A new connection, of a worker if it is given a name."""


def of(protocol: str) -> Talks:
    return cast(Talks, importlib.import_module(f"tests.prove.talks.{protocol}"))
