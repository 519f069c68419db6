"""Alarms: calls that are made once a moment has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from franca.core.model import Millis
from franca.core.timers import Buckets
from franca.protocols.conversation import Link

SLICE_MS: Final = 50
RUNG_A_TICK: Final = 1_000
"""Alarms that ring in one tick; the rest ring in the next."""


class Alarm(Struct, eq=False):
    """One call that is to be made while the link is open; `ring` is unset once that is over."""

    link: Link
    ring: Callable[[Millis], None] | None
    bucket: int = 0


class Alarms:
    """Those of all connections. None is early, and none later than a slice of time."""

    def __init__(self) -> None:
        self.pending: Buckets[Alarm] = Buckets(SLICE_MS)

    def set(self, link: Link, at: Millis, ring: Callable[[Millis], None]) -> Alarm:
        """Have `ring` called at this moment."""
        alarm = Alarm(link, ring)
        alarm.bucket = self.pending.add(alarm, at)
        return alarm

    def cancel(self, alarm: Alarm | None) -> None:
        """Make this call no more, if it was not made yet."""
        if alarm is not None and alarm.ring is not None:
            alarm.ring = None
            self.pending.discard(alarm, alarm.bucket)

    def tick(self, now: Millis) -> None:
        """Make the calls whose moment has come, at most so many."""
        for alarm in self.pending.due(now, RUNG_A_TICK):
            ring, alarm.ring = alarm.ring, None
            if ring is not None and not alarm.link.closing:
                ring(now)
