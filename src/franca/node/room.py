"""Watches the room on the disk: refuses new jobs before it is full, takes them again after."""

from __future__ import annotations

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.node.datadir import DataDir


class RoomWatch:
    """Below the reserve no new jobs are taken; what is running may still end.

    Between two looks the broker counts what it takes against the room that there was.
    """

    def __init__(self, data: DataDir, broker: Broker, limits: Limits) -> None:
        self._data = data
        self._broker = broker
        self._limits = limits
        data.take_ballast(limits.ballast_bytes)

    def look(self) -> bool:
        """Measure, and set whether new jobs are refused; True if that changed."""
        broker = self._broker
        free = self._data.free_bytes()
        reserve = self._limits.disk_reserve_bytes
        before = broker.refusing_new
        if free < reserve:
            broker.refusing_new = True
        elif before and free >= reserve + self._limits.ballast_bytes:
            # The ballast is taken back first: the next full disk must find it in its place.
            self._data.take_ballast(self._limits.ballast_bytes)
            free = self._data.free_bytes()
            broker.refusing_new = free < reserve
        broker.room_bytes = free - reserve
        return broker.refusing_new is not before

    def make_room(self) -> bool:
        """Give the ballast up; the store calls this when a write found no room."""
        self._broker.refusing_new = True
        return self._data.drop_ballast()
