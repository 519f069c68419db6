"""How long the passes of a server's event loop take, measured inside it by `shim/passes.c`."""

import mmap
import struct
from pathlib import Path
from typing import Self

from bench.build import preloaded

_FIGURES = struct.Struct("=QQQQ")
NS_PER_MS = 1e6


class Passes:
    """The figures of one server, which must be started with `environment`."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_FIGURES.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _FIGURES.size)
        self.environment = {"LD_PRELOAD": str(preloaded("passes")), "BENCH_PASSES": str(path)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shared.close()

    def reset(self) -> None:
        """Begin anew; a pass that is under way counts as a whole when it ends."""
        self._shared[:] = bytes(_FIGURES.size)

    @property
    def count(self) -> int:
        """Passes that have ended."""
        return self._read()[0]

    @property
    def cpu_max_ms(self) -> float:
        """The most time on the processor that one of them took."""
        return self._read()[1] / NS_PER_MS

    @property
    def wall_max_ms(self) -> float:
        """The longest that one of them took, waits for the disk and for others included."""
        return self._read()[2] / NS_PER_MS

    def _read(self) -> tuple[int, int, int, int]:
        passes, cpu_max, wall_max, cpu_total = _FIGURES.unpack(self._shared[:])
        return passes, cpu_max, wall_max, cpu_total
