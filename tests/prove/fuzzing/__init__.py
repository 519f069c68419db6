"""What a fuzzer begins with: good exchanges of each protocol, one module each.

A message is a tuple of parts, so that one of them can be spoiled and all the rest stays sound; `encode` makes
bytes of it. An exchange is what is said on which link, in order. All submit to the queue `q` and work on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from franca.protocols.service import Service

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


@dataclass(frozen=True)
class Seeds:
    """What a protocol's module offers."""

    exchanges: Sequence[Exchange]
    values: Sequence[bytes]
    """Parts that no good client says: numbers and depths without a bound, times out of reach, text that is none."""
    frame: Callable[[Message], bytes]
    """The bytes of a message, sound or not, that is not sent as it is."""
    answers: Callable[[bytes], Iterator[bytes]]
    """What the server said, message by message; `ValueError` if it cannot be read."""
    links: Mapping[str, str] = field(default_factory=dict)
    """On which listener a link is opened, where it is not called as its protocol."""
    fill: Callable[[Service, bytes], bytes] = lambda service, data: data
    """The same with what only the running server can know; mostly clients choose all names themselves."""

    def encode(self, message: Message) -> bytes:
        return b"".join(message[1:]) if message[:1] == (RAW,) else self.frame(message)


def exchanges(
    found: Mapping[str, Sequence[bytes]], message: Callable[..., Message]
) -> list[Exchange]:
    """Those of a protocol's tables; `message` makes one of its words.

    A line is a step: its link, perhaps the milliseconds that pass before it, and messages with `|` between them. Between
    the words of a message stand two spaces.
    """

    def step(line: bytes) -> Step:
        head, _, said = line.partition(b": ")
        link, _, pass_ms = head.partition(b" +")
        messages = tuple(message(*words.split(b"  ")) for words in said.split(b" | "))
        return Step(link.decode(), messages, int(pass_ms or 0))

    tables = [lines for name, lines in found.items() if name.startswith("exchange ")]
    return [tuple(map(step, lines)) for lines in tables]


def split(link: str) -> tuple[str, str]:
    """Of a link of one of several protocols, `protocol/name`: both."""
    protocol, _, name = link.partition("/")
    return protocol, name


def of(protocol: str) -> Seeds:
    found: Seeds = importlib.import_module(f"tests.prove.fuzzing.{protocol}").SEEDS
    return found
