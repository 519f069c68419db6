"""A server's clock, moved from outside.

Under the tweak `moved-clock` the server's clock reads the machine's two clocks through a small shared file
that says how far each is set forward. The product's own clock (`franca.node.clock`) stands between,
unchanged: what is set here are the machine's clocks, as time itself or an administrator would.
"""

import mmap
import os
import struct
import time
from pathlib import Path
from types import SimpleNamespace

TWEAK = "moved-clock"
VARIABLE = "PROVE_CLOCK"
SETTLED_S = 0.25
"""Real time in which the server surely looks at its clock: it does so twenty times a second."""

_BOTH = struct.Struct("=qq")  # how far ahead the monotonic and the wall clock are, in ns


class WallClock:
    """The harness's end: lets time pass, or sets the wall clock and lets none pass."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(_BOTH.pack(0, 0))
        self._shared = _open(path)
        self.environment = {VARIABLE: str(path)}
        """What tells the server where the file is."""
        self.wall_ahead_s = self._passed_s = 0.0

    def wall(self) -> float:
        """What the server's wall clock shows now, in seconds since 1970."""
        return time.time() + self.wall_ahead_s

    def pass_time(self, seconds: float) -> None:
        """This much time is over, on both clocks, and the server has seen it."""
        self._passed_s += seconds
        self.set_wall(seconds)
        time.sleep(SETTLED_S)

    def set_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock forward by so much, or back; no time passes."""
        self.wall_ahead_s += seconds
        ahead_ns = (round(span * 1e9) for span in (self._passed_s, self.wall_ahead_s))
        _BOTH.pack_into(self._shared, 0, *ahead_ns)


def moved(_: object) -> SimpleNamespace:
    """The tweak: what a server's clock takes for the module `time`, which follows the file that the environment names."""
    shared = _open(Path(os.environ[VARIABLE]))

    def ahead(place: int) -> int:
        found: int = _BOTH.unpack_from(shared, 0)[place]
        return found

    return SimpleNamespace(
        monotonic_ns=lambda: time.monotonic_ns() + ahead(0),
        time_ns=lambda: time.time_ns() + ahead(1),
    )


def _open(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), _BOTH.size)
