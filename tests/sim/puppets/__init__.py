"""The peers of each protocol, one module each: a new protocol is a module and a word here."""

from __future__ import annotations

import importlib
from random import Random
from typing import Protocol, cast

from franca.core.broker import Broker
from franca.protocols.conversation import Service
from tests.sim.world import World

PROTOCOLS: tuple[str, ...] = ("faktory", "gearman", "periodic", "memodb", "eventmq")

QUEUES = ("alpha", "beta")
"""What everybody submits to and works on, whatever they speak."""
SOMEDAY = "someday"
"""For jobs whose moment is named by a clock that goes wrong."""


class Puppets(Protocol):
    """What a protocol's module offers."""

    def services(self, broker: Broker, rng: Random) -> dict[str, Service]:
        """The server's side of it."""

    def populate(self, world: World, *, exact_times: bool) -> None:
        """Some peers of each kind."""


def of(protocol: str) -> Puppets:
    return cast(Puppets, importlib.import_module(f"tests.sim.puppets.{protocol}"))


def services(broker: Broker, rng: Random) -> dict[str, Service]:
    """The server's side of all of them."""
    found: dict[str, Service] = {}
    for protocol in PROTOCOLS:
        found |= of(protocol).services(broker, rng)
    return found
