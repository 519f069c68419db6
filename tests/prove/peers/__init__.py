"""The producers and consumers of each protocol, one module each: a new protocol is a module and a word here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from tests.prove.load import Actor, Load

PROTOCOLS: tuple[str, ...] = ("faktory", "gearman", "periodic", "memodb", "eventmq")


class Peers(Protocol):
    """What a protocol's module offers."""

    def producers(self, load: Load, count: int, rng: Random) -> Iterator[Actor[Any]]:
        """So many threads that submit jobs."""

    def consumers(
        self, load: Load, count: int, rng: Random, first: int = 0
    ) -> Iterator[Actor[Any]]:
        """So many threads that run them, numbered from `first` on."""


def of(protocol: str) -> Peers:
    return cast(Peers, importlib.import_module(f"tests.prove.peers.{protocol}"))
