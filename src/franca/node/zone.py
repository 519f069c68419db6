"""Whose clocks are meant by a time of day: a zone by its name, or the machine's own."""

from __future__ import annotations

import os
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LOCAL = "local"
_MACHINES = "/etc/localtime"


def zone_of(name: str) -> tzinfo:
    """The zone of that name. The machine's own knows when its clocks go forward and back."""
    if name != LOCAL:
        return ZoneInfo(name)
    named = os.environ.get("TZ", "").lstrip(":")
    try:
        if named:
            return ZoneInfo(named)
        with open(_MACHINES, "rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        # A machine without a table of its zone: what its clock is ahead now must do.
        return datetime.now().astimezone().tzinfo or UTC
