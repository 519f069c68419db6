"""Other threads that read the store: who closes it must know that none of them is left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from franca.store.port import StoreError

AGAIN_S = 0.02
"""How often threads that are still there are told again to stop."""


class Threads:
    """Used as a context by whoever reads on another thread. `ending` tells a long one to stop."""

    def __init__(self) -> None:
        self.ending = False
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            if self.ending:
                raise StoreError("the server is stopping")
            self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def end(self, interrupt: Callable[[], None]) -> None:
        """Let nobody in any more; interrupt those who are there until they are gone."""
        with self._changed:
            self.ending = True
            while self._count:
                interrupt()
                self._changed.wait(AGAIN_S)
