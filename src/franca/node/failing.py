"""Those who wait for jobs from the store, and hear it when these will not come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from franca.core.tail import Recall, Want


@runtime_checkable
class Failing(Protocol):
    """Whoever asked for jobs and wants to hear that they will not come."""

    def fail(self, error: BaseException) -> None:
        """The node has failed."""


def tell_failing(wants: Iterable[Want], error: BaseException) -> None:
    """Tell everybody who asked for jobs, and wants to hear it."""
    for want in wants:
        if isinstance(want, Recall) and isinstance(want.by, Failing):
            want.by.fail(error)
