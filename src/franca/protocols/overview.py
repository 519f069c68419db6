"""An answer about everything there is, which a peer may ask for as often as it likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from franca.core.model import Millis

LONG: Final = 1_000
KEPT_MS: Final = 1_000

T = TypeVar("T")


class Overview(Generic[T]):
    """Is made anew each time it is asked for. One of very many names may be a second old: making
    it costs everybody time, however many ask for it.
    """

    __slots__ = ("_last", "_made_at", "_make")

    def __init__(self, make: Callable[[Millis], T]) -> None:
        self._make = make
        self._last: T | None = None
        self._made_at: Millis = 0

    def seen(self, names: int, now: Millis) -> T:
        """The answer, which tells of so many names."""
        last = self._last
        if last is None or names <= LONG or now - self._made_at >= KEPT_MS:
            last = self._last = self._make(now)
            self._made_at = now
        return last
