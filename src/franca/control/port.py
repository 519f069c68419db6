"""What an operation needs of the server it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from franca.control.measured import Measured
from franca.core.changes import IdempotencyKey
from franca.core.errors import Refused
from franca.core.history import Found, Past, Rates, RatesQuery, Search, Tallies
from franca.core.model import Job, JobQuery, Millis
from franca.engine.engine import Engine

if TYPE_CHECKING:
    from franca.control.audit import AuditLog
    from franca.control.observer import Observer
    from franca.control.submit import KeysInUse

T = TypeVar("T")

LARGE_BYTES = 1024 * 1024
"""Arguments larger than this are read and checked in steps: each takes long enough. Nor is what is
larger copied more often than it must be."""


class BadRequest(Refused):
    """The question itself is wrong: an unknown operation, or parameters it does not take."""

    code = "bad-request"


class NotCopied(Refused):
    """No copy of the store was made: its place is taken, or cannot be written."""

    code = "not-copied"


class NodePort(Protocol):
    """A running server, as operations see it."""

    engine: Engine
    audit: AuditLog
    observer: Observer
    keys_in_use: KeysInUse

    def clock_ms(self) -> Millis:
        """The time now: what spans are measured with."""

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        """Run `act` between two turns; its result comes when what it changed is durable."""

    async def recall(self, query: JobQuery, act: Callable[[list[Job], Millis], T]) -> T:
        """Have live or dead jobs brought from wherever they lie and act on them, durably."""

    async def find(self, query: JobQuery) -> list[Job]:
        """Search what is committed, ended jobs included. What is found is only to be read."""

    async def search(self, search: Search) -> Found:
        """Look through what is committed, ended jobs included. What is found is only to be read."""

    async def find_keys(self, keys: Sequence[str]) -> dict[str, IdempotencyKey]:
        """Those of these idempotency keys that mean a job now, by themselves."""

    async def past(self) -> Past:
        """How much is remembered of ended jobs."""

    async def rates(self, query: RatesQuery) -> Rates:
        """How many jobs ended in each step of some time, and how long they waited and ran."""

    def note(self, at: Millis, queues: Tallies) -> None:
        """Have the store remember, with its rates, what came into queues and what is ready."""

    async def backup(self, path: str) -> dict[str, object]:
        """Write a whole and consistent copy of the store into a new file."""

    def status(self) -> dict[str, object]:
        """How the server is: version, host, pid, uptime, store, listeners, load."""

    def measured(self) -> Measured:
        """What the server measures of its process, its disk and its commits."""

    def request_stop(self) -> None:
        """Begin a graceful stop."""


async def pause_after(size: int) -> None:
    """Let others go first if so many bytes were looked through since the last pause."""
    if size > LARGE_BYTES:
        await asyncio.sleep(0)
