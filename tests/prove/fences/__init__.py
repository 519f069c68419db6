"""Who says what about a job that is theirs, was theirs, or never was: one module per protocol.

A script is the words that are said about one job at each stage of its life, each with what must come of
it. `fence.py` plays all scripts of all protocols.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

LEASE_S = 60
BEAT_S = 25
"""How often those who beat do: Faktory hangs up on a worker that is silent for a minute."""
RETRY_S = 15 + 2 * 30 + 16
"""The longest wait after a second failure, which is Faktory's."""

Word = tuple[str, str, str]  # who says what, and what must come of it


@dataclass(frozen=True)
class Script:
    """The words that are said about one job, at each stage of its life."""

    name: str
    only: str = ""  # the one variant it is for, if not for all
    killed: bool = True  # whether it is also for a server that is killed in between
    held: tuple[Word, ...] = ()  # A has it
    expired: tuple[Word, ...] = ()  # A's lease is over
    ready: tuple[Word, ...] = ()  # ... and anybody may take it
    taken: tuple[Word, ...] = ()  # B has it
    expired_again: tuple[Word, ...] = ()  # B's lease is over too


A_DONE = ("a", "ack", "done")
B_DONE = ("b", "ack", "done")


def ignored(*said: str) -> tuple[Word, ...]:
    """`"c ack"`: a word that changes nothing."""
    return tuple((who, verb, "nothing") for who, verb in (words.split() for words in said))


class Worker(ABC):
    """One party. It comes back when it was hung up on."""

    @abstractmethod
    def take(self, queue: str) -> bool:
        """Take the job of this queue; False if it was not given."""

    @abstractmethod
    def say(self, verb: str, name: str) -> str:
        """ACK or FAIL the job of that name; what was heard."""

    def beat(self) -> None:
        """Be alive, where the protocol has a word for it."""

    def stir(self) -> None:
        """Say anything, where those who are silent for a while lose what they have."""

    @abstractmethod
    def leave(self) -> None:
        """Hang up."""


class Cast(Protocol):
    """What a protocol's module offers."""

    SCRIPTS: tuple[Script, ...]
    VARIANTS: tuple[str, ...]
    """Kinds of workers; every script is played with each."""
    LASTING: bool
    """Whether a lease outlives the server."""

    def submit(self, ports: Mapping[str, int], queue: str) -> str:
        """A job for this queue alone; the name by which the server knows it."""

    def worker(self, port: int, who: str, variant: str) -> Worker:
        """`a`, `b` and `c` are workers, `-` is a client without a name, `x` is of another protocol."""


def of(protocol: str) -> Cast:
    return cast(Cast, importlib.import_module(f"tests.prove.fences.{protocol}"))
