"""Source as trees: of a module's syntax, of a commit's files."""

import ast
import gc
import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tree_of(text: str) -> ast.Module:
    """The tree of a module.

    CPython 3.11 may lose count of its recursion, and say so, if the collector runs meanwhile.
    """
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


def extracted(commit: str, place: Path, *folders: str) -> Path:
    """The place, with these folders of this repository as they were in that commit."""
    argv = ["git", "archive", commit, *folders]
    packed = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    return place
