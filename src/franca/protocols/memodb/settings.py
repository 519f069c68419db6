"""What an operator may choose about MemoDB."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import fields

from franca.protocols.declaration import Declaration, Setting
from franca.values import reader_of


class MemoDBSettings(Struct, frozen=True):
    """What an operator may choose."""

    heartbeat_ms: int = 10_000
    """How long a worker waits for a job before it is asked for a sign of life."""
    heartbeat_due_ms: int = 10_000
    """How long it may take to give one."""
    start_ms: int = 10_000
    """How long a client is kept waiting for a service that nobody offers."""
    remember_ms: int = 60_000
    """How long a reply is remembered for the case that it was lost on the way."""
    remember_replies: int = 16_384
    """And how many of them."""
    remember_bytes: int = 8 * 1024 * 1024
    """And how many bytes of them."""
    share_jobs: int = 1_000
    """Jobs that one connection may have under way."""
    share_bytes: int = 64 * 1024 * 1024
    """And bytes of them; one job may always be."""
    large_bytes: int = 48 * 1024 * 1024
    """Bytes of large jobs that all connections together may have under way; one may always be."""
    unsent_bytes: int = 4 * 1024 * 1024
    """Bytes of replies that wait for peers who do not read; see `docs/limits.md`."""


DECLARATION: Final = Declaration(
    name="memodb",
    listeners={"memodb": ("127.0.0.1:12703",)},
    settings=tuple(Setting(f.name, reader_of(f.name), f.default) for f in fields(MemoDBSettings)),
)
