"""An answer about everything there is, which a peer may ask for as often as it likes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Generic, TypeVar

from franca.core.model import Millis

LONG: Final = 1_000
KEPT_MS: Final = 1_000

T = TypeVar("T")


class Overview(Generic[T]):
    """An answer of very many names. Making it costs everybody time, and it takes much room: so it
    is made in steps, all who ask are given the same one, and it may be a second old.
    """

    __slots__ = ("_kept", "_kept_at", "_make", "_making", "_stepped_at")

    def __init__(self, make: Callable[[Millis], Generator[None, None, T]]) -> None:
        self._make = make
        self._making: Generator[None, None, T] | None = None
        self._stepped_at: Millis = 0
        self._kept: T | None = None
        self._kept_at: Millis = 0

    def kept(self, now: Millis) -> T | None:
        """The answer, if there is one that is young enough."""
        self.forget(now)
        return self._kept

    def wait(self, now: Millis) -> Generator[None, Millis, T]:
        """The answer, as soon as all steps are taken: each `yield` brings the time of the next."""
        while (answer := self.kept(now) or self.step(now)) is None:
            now = yield
        return answer

    def step(self, now: Millis) -> T | None:
        """Go on making it, for all who wait for it; returns it when it is done."""
        if self._making is None:
            self._making = self._make(now)
        self._stepped_at = now
        try:
            next(self._making)
        except StopIteration as end:
            self._making = None
            self._kept = end.value
            self._kept_at = now
            return self._kept
        return None

    def forget(self, now: Millis) -> None:
        """Let go of what is too old, or was begun for those who wait no longer."""
        if self._kept is not None and now - self._kept_at >= KEPT_MS:
            self._kept = None
        if self._making is not None and now - self._stepped_at >= KEPT_MS:
            self._making = None
