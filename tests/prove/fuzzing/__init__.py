"""What a fuzzer begins with: good exchanges of each protocol, one module each.

A message is a tuple of parts, so that one of them can be spoiled and all the rest stays sound; `encode` makes
bytes of it. An exchange is what is said on which link, in order. All submit to the queue `q` and work on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol, cast

from franca.protocols.conversation import Service

PROTOCOLS: tuple[str, ...] = ("faktory", "gearman", "periodic", "memodb", "eventmq")
Message = tuple[bytes, ...]
RAW = b"<raw>"
"""The first part of a message whose second part is sent as it is."""


class Step(NamedTuple):
    """Messages that are said in one go. Links are opened when they first speak."""

    link: str
    messages: tuple[Message, ...]
    pass_ms: int = 0
    """Time that passes before it."""


Exchange = tuple[Step, ...]


class Seeds(Protocol):
    """What a protocol's module offers."""

    EXCHANGES: tuple[Exchange, ...]
    LINKS: dict[str, str]
    """On which listener a link is opened, where it is not called as its protocol."""
    VALUES: tuple[bytes, ...]
    """Parts that no good client says: numbers and depths without a bound, times out of reach, text that is none."""

    def encode(self, message: Message) -> bytes:
        """The bytes of a message, sound or not."""

    def fill(self, service: Service, data: bytes) -> bytes:
        """The same with what only the running server can know."""

    def answers(self, said: bytes) -> Iterator[bytes]:
        """What the server said, message by message; `ValueError` if it cannot be read."""


def split(link: str) -> tuple[str, str]:
    """Of a link of one of several protocols, `protocol/name`: both."""
    protocol, _, name = link.partition("/")
    return protocol, name


def of(protocol: str) -> Seeds:
    return cast(Seeds, importlib.import_module(f"tests.prove.fuzzing.{protocol}"))
