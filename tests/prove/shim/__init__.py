"""The library that stands between a server and its disk: how to build it and how to switch it on.

What it does is written at the top of `shim.c`; how its trace is read, in `trace.py`.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_SOURCE = _HERE / "shim.c"
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-U_FORTIFY_SOURCE")


class NoCompiler(RuntimeError):
    """The shim cannot be built on this machine; the message says what is missing."""


def build(into: Path) -> Path:
    """Compile the library into this directory, unless it is there and newer than its sources."""
    library = into / "shim.so"
    changed = max(part.stat().st_mtime for part in _HERE.glob("*.[ch]"))
    if library.exists() and library.stat().st_mtime > changed:
        return library
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise NoCompiler(f"a C compiler is needed to build the shim: none of {_COMPILERS} is here")
    into.mkdir(parents=True, exist_ok=True)
    command = [compiler, *_FLAGS, "-o", str(library), str(_SOURCE), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{' '.join(command)} failed:\n{done.stderr}")
    return library


@dataclass(slots=True)
class Shim:
    """What to ask of the library; counts begin at 1, and 0 asks for nothing."""

    library: Path
    directory: Path
    trace: Path | None = None
    notes: Path | None = None
    switch: Path | None = None
    fail_sync: int = 0
    slow_sync_ms: int = 0
    nospc_at: int = 0
    nospc_for: int = 1

    def environment(self) -> dict[str, str]:
        """The variables that put the library into a process."""
        paths = {"SHIM_TRACE": self.trace, "SHIM_NOTES": self.notes, "SHIM_SWITCH": self.switch}
        numbers = {
            "SHIM_FAIL_SYNC": self.fail_sync,
            "SHIM_SLOW_SYNC": self.slow_sync_ms,
            "SHIM_NOSPC_AT": self.nospc_at,
            "SHIM_NOSPC_FOR": self.nospc_for,
        }
        env = {"LD_PRELOAD": str(self.library), "SHIM_DIR": str(self.directory.resolve())}
        env |= {name: str(path) for name, path in paths.items() if path is not None}
        return env | {name: str(value) for name, value in numbers.items()}
