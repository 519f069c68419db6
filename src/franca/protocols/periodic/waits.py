"""The answers that one connection waits for: results of jobs, and their streams.

Each waits for a function and a name, whatever job has them. Nothing here speaks to anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from msgspec import Struct

from franca.core.errors import TooMuch
from franca.core.model import NEVER, Millis
from franca.protocols.periodic.room import Share

WAITS_MAX: Final = 10_000
"""Answers that one connection may wait for."""
NAMESAKES_MAX: Final = 64
"""And those for one and the same job: all of them are told in one turn."""
WAIT_BYTES: Final = 1_000
"""What one takes beside its name, here and in the broker, roughly."""
WAITS_BYTES_MAX: Final = 16 * 1024 * 1024
"""What the waits of all connections take together."""
WAITS_BYTES_FREE: Final = 4 * 1024
"""But for the first few of each connection."""
_SPARE_ENTRIES: Final = 1_000

Name = tuple[str, str]
"""A function, and the key of a job in it."""


class Wait(Struct, gc=False, eq=False):
    """An answer that is owed: the result of a job, or its stream (then it has no end).

    A peer may use one id many times, so that each is only itself, however alike they are.
    """

    msgid: bytes
    until: Millis
    is_over: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether pieces are wanted, and not the result."""
        return not self.until


class Waits:
    """Waits by name, and a heap of their ends; entries of those that are over are skipped."""

    __slots__ = ("_added", "_by_name", "_count", "_heap", "_share")

    def __init__(self, share: Share) -> None:
        self._share = share
        self._by_name: dict[Name, list[Wait]] = {}
        self._heap: list[tuple[Millis, int, Name, Wait]] = []
        self._added = self._count = 0

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def __len__(self) -> int:
        return self._count

    def names(self) -> list[Name]:
        """Everything that is waited for."""
        return list(self._by_name)

    def of(self, name: Name) -> Sequence[Wait]:
        """Those who wait for this."""
        return self._by_name.get(name, ())

    def add(self, name: Name, wait: Wait) -> None:
        """Wait for this too; `TooMuch` if that would be one too many."""
        waits = self._by_name.get(name)
        if self._count >= WAITS_MAX or (waits is not None and len(waits) >= NAMESAKES_MAX):
            most = WAITS_MAX if self._count >= WAITS_MAX else NAMESAKES_MAX
            raise TooMuch(f"no more than {most} answers can be waited for")
        self._share.take(_size_of(name))
        self._count += 1
        if waits is None:
            self._by_name[name] = [wait]
        else:
            waits.append(wait)
        if wait.until:
            self._added += 1
            heappush(self._heap, (wait.until, self._added, name, wait))

    def remove(self, name: Name, wait: Wait) -> bool:
        """One waits no more; True if it was the last that waited for this."""
        waits = self._by_name[name]
        waits.remove(wait)
        if not waits:
            del self._by_name[name]
        self._leave(name, [wait])
        return not waits

    def take(self, name: Name) -> list[Wait]:
        """All who wait for this are about to be answered."""
        waits = self._by_name.pop(name, None)
        if waits is None:
            return []
        self._leave(name, waits)
        return waits

    def expired(self, now: Millis) -> tuple[Name, Wait] | None:
        """Somebody whose time is over, if anybody's is."""
        at = self.next_at()
        return self._heap[0][2:] if at and at <= now else None

    def next_at(self) -> Millis:
        """When the next wait ends."""
        heap = self._heap
        while heap and heap[0][3].is_over:
            heappop(heap)
        return heap[0][0] if heap else NEVER

    def clear(self) -> None:
        """Nobody waits any more."""
        self._by_name.clear()
        self._heap.clear()
        self._count = 0
        self._share.clear()

    def _leave(self, name: Name, waits: Sequence[Wait]) -> None:
        for wait in waits:
            wait.is_over = True
        self._share.give_back(len(waits) * _size_of(name))
        self._count -= len(waits)
        # Whoever is always answered long before the end leaves nothing but entries behind.
        if len(self._heap) > 2 * self._count + _SPARE_ENTRIES:
            self._heap = [entry for entry in self._heap if not entry[3].is_over]
            heapify(self._heap)


def _size_of(name: Name) -> int:
    return WAIT_BYTES + 2 * (len(name[0]) + len(name[1]))
