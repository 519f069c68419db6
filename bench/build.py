"""Compiles the load generator, which is C so that it takes as little as it can of a shared core."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SOURCES = Path(__file__).with_name("load")


class CannotBuild(Exception):
    """What a benchmark needs cannot be had here; the text says what is missing."""


def load_generator() -> Path:
    """The compiled load generator, compiled anew when any of its sources is younger."""
    binary = BUILD / "load"
    youngest = max(source.stat().st_mtime for source in SOURCES.iterdir())
    if binary.exists() and binary.stat().st_mtime >= youngest:
        return binary
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotBuild(
            "the benchmark needs a C compiler, and none of cc, gcc and clang is on the PATH:"
            " install one (Debian: apt install gcc libc6-dev)"
        )
    BUILD.mkdir(exist_ok=True)
    # Compiled beside and renamed, so that a compiler killed half-way leaves no broken binary.
    fresh = BUILD / "load.new"
    result = subprocess.run(
        [compiler, "-std=c11", "-O2", "-o", fresh, *sorted(SOURCES.glob("*.c"))],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise CannotBuild(f"{compiler} does not compile the load generator:\n{result.stderr}")
    fresh.replace(binary)
    return binary
