"""HELLO: the challenge in the greeting, and the answer to it."""

from __future__ import annotations

import hmac
from random import Random
from typing import TYPE_CHECKING, Final

from franca.core.model import Millis, OnHangUp
from franca.protocols.faktory.go_json import Reader, Unreadable
from franca.protocols.faktory.messages import Hello
from franca.protocols.faktory.wire import OK, error, greeting, password_hash
from franca.protocols.faktory.workers import ANONYMOUS
from franca.protocols.numbers import FAKTORY

if TYPE_CHECKING:
    from franca.protocols.faktory.conversation import FaktoryConversation

HELLO_BYTES_MAX: Final = 16 * 1024
"""The longest line before HELLO is accepted."""
ROUNDS_MIN: Final = 1_000
ROUNDS_MAX: Final = 2_000
"""Rounds of hashing for a password. They cost the server as much as they cost an attacker."""

_READER: Final = Reader(Hello)


class Challenge:
    """The challenge of one connection. Its salt is its own, so that a hash cannot be used twice."""

    __slots__ = ("_old_too", "_password", "_rounds", "_salt")

    def __init__(self, password: str, rng: Random, *, old_too: bool) -> None:
        self._password = password
        self._old_too = old_too
        self._rounds = rng.randrange(ROUNDS_MIN, ROUNDS_MAX + 1) if password else 0
        self._salt = f"{rng.getrandbits(128):032x}" if password else ""

    def greeting(self) -> bytes:
        """The server's first line."""
        return greeting(self._rounds, self._salt)

    def is_met_by(self, hello: Hello) -> bool:
        """Whether the hash is right, if one is asked for. Clients before version 2 hash once."""
        if not self._password:
            return True
        said = hello.pwdhash or ""
        is_old = (hello.v or 0) < 2
        if not said or (is_old and not self._old_too):
            return False
        right = password_hash(self._password, self._salt, 1 if is_old else self._rounds)
        return hmac.compare_digest(said.encode(), right.encode())


def on_hello(conversation: FaktoryConversation, rest: bytes, now: Millis) -> None:
    """HELLO. One that cannot be read is not answered, and the connection is closed."""
    try:
        if not rest.startswith(b"{"):
            raise Unreadable("not an object")
        hello = _READER.read(rest)
    except Unreadable:
        conversation.link.close()
        return
    wid = hello.wid or ""
    most = conversation.service.limits.name_bytes_max
    refusal = ""
    if not conversation.challenge.is_met_by(hello):
        refusal = "Invalid password"
    elif len(wid.encode()) > most or "\0" in wid:
        refusal = f"wid must be text of at most {most} bytes"
    elif f" {ANONYMOUS}" in f" {wid}":
        refusal = f"wid cannot have {ANONYMOUS.strip()!r} and a space in it"
    if refusal:
        conversation.link.write(error(refusal))
        conversation.link.close()
        return
    holder = conversation.holder = wid or ANONYMOUS + conversation.link.id
    open_session = conversation.broker.open_session
    conversation.session = open_session(holder, OnHangUp.KEEP, conversation, FAKTORY)
    if wid:
        conversation.worker = conversation.service.registry.join(wid, hello, conversation, now)
    conversation.let_in()
    conversation.link.write(OK)
