"""Compiles what is C: the load generator, which takes little of a shared core that way, and what is
preloaded into a server to measure it from inside.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOAD = Path(__file__).with_name("load")
SHIM = Path(__file__).with_name("shim")


class CannotBuild(Exception):
    """What a benchmark needs cannot be had here; the text says what is missing."""


def load_generator() -> Path:
    """The compiled load generator, compiled anew when any of its sources is younger."""
    return _compiled(BUILD / "load", list(LOAD.iterdir()), "-std=c11")


def preloaded(name: str) -> Path:
    """A compiled library that is preloaded into a server."""
    return _compiled(BUILD / f"{name}.so", [SHIM / f"{name}.c"], "-std=gnu11", "-shared", "-fPIC")


def _compiled(target: Path, sources: Sequence[Path], *flags: str) -> Path:
    youngest = max(source.stat().st_mtime for source in sources)
    if target.exists() and target.stat().st_mtime >= youngest:
        return target
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotBuild(
            "the benchmark needs a C compiler, and none of cc, gcc and clang is on the PATH:"
            " install one (Debian: apt install gcc libc6-dev)"
        )
    BUILD.mkdir(exist_ok=True)
    # Compiled beside and renamed, so that a compiler killed half-way leaves no broken binary.
    fresh = target.with_name(f"{target.name}.new")
    files = sorted(source for source in sources if source.suffix == ".c")
    result = subprocess.run(
        [compiler, *flags, "-O2", "-Wall", "-Wextra", "-o", fresh, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise CannotBuild(f"{compiler} does not compile {target.name}:\n{result.stderr}")
    fresh.replace(target)
    return target
