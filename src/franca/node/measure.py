"""What the server measures of itself: its process, its disk, its commits."""

from __future__ import annotations

import os
import time
from pathlib import Path

from franca import __version__
from franca.control.measured import Measured
from franca.node.datadir import STORE
from franca.node.gauges import resident_bytes
from franca.node.node import Node

MEMORY = "memory:"
LOG = f"{STORE}-wal"


def measure(node: Node, store: str, data: Path, uptime_s: float) -> Measured:
    """Everything as it is now."""
    room = _room(data)
    times = os.times()
    return Measured(
        version=__version__,
        store="memory" if store == MEMORY else "sqlite",
        started_at_s=round(time.time() - uptime_s),
        cpu_s=times.user + times.system,
        resident_bytes=resident_bytes(),
        store_bytes=None if store == MEMORY else _size(data / STORE) + _size(data / LOG),
        disk_bytes=None if room is None else room.f_blocks * room.f_frsize,
        disk_free_bytes=None if room is None else room.f_bavail * room.f_frsize,
        commits=node.gauges.commit_spans,
        groups=node.gauges.group_jobs,
        loop_lag_s=node.gauges.lag_p99_ms() / 1000,
        peers_refused=node.notices.count,
    )


def _room(data: Path) -> os.statvfs_result | None:
    try:
        return os.statvfs(data)
    except OSError:
        return None  # the watch over the room ends the server if the directory is gone


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
