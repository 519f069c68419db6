"""What a worker says of how far it is, as it is kept with its job."""

from __future__ import annotations

from math import isfinite
from typing import Final

from msgspec.structs import replace

from franca.core.limits import Limits
from franca.core.model import Millis, Progress

EXACT_MAX: Final = 1 << 53
"""Beyond it whole numbers become floats: no row and no JSON has larger ones everywhere."""
_FLOAT_MAX: Final = 1 << 1_023


def storable(progress: Progress, now: Millis, limits: Limits) -> Progress:
    """The same as it was said at `now`: numbers that every store has room for, no longer text."""
    n, of = _storable(progress.n), _storable(progress.of)
    return replace(progress, n=n, of=of, text=progress.text[: limits.error_text_chars], at=now)


def _storable(number: int | float | None) -> int | float | None:
    if isinstance(number, float):
        return number if isfinite(number) else None
    if number is None or abs(number) <= EXACT_MAX:
        return number
    return float(max(-_FLOAT_MAX, min(number, _FLOAT_MAX)))
