"""Jobs recalled from the store for an operator."""

from __future__ import annotations

from collections.abc import Callable

from franca.core.model import Job, JobQuery, Millis


class OperatorRecaller:
    """Takes them, and acts on them; `fail` is told if that cannot be."""

    def __init__(
        self, act: Callable[[list[Job], Millis], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._act = act
        self.fail = fail

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Act on the jobs; a mistake in the asking reaches whoever asked."""
        try:
            self._act(jobs, now)
        except Exception as error:
            self.fail(error)
