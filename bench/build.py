"""Compiles the load generator, which is C so that it takes as little as it can of a shared core."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SOURCE = Path(__file__).with_name("load.c")


class CannotBuild(Exception):
    """The load generator cannot be compiled here; the text says what is missing."""


def load_generator() -> Path:
    """The compiled load generator, compiled anew when its source is younger."""
    binary = BUILD / "load"
    if binary.exists() and binary.stat().st_mtime >= SOURCE.stat().st_mtime:
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
        [compiler, "-O2", "-o", fresh, SOURCE], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise CannotBuild(f"{compiler} does not compile {SOURCE.name}:\n{result.stderr}")
    fresh.replace(binary)
    return binary
