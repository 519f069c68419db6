"""The library that stands between a server and its disk: how to build it and how to switch it on.

What it does is written at the top of `shim.c`; how its trace is read, in `crash.py`.
"""

import shutil
import subprocess
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


def preloaded(library: Path, directory: Path, **settings: object) -> dict[str, str]:
    """Variables that put the library into a process; `shim.c` lists the settings."""
    env = {"LD_PRELOAD": str(library), "SHIM_DIR": str(directory.resolve())}
    return env | {f"SHIM_{name.upper()}": str(value) for name, value in settings.items()}
