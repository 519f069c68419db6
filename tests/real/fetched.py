"""What peers need and the environment does not bring is fetched once, beside it.

What cannot be had is a skip that says so, and a failure in CI.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.server import ROOT

NODE = Path(__file__).with_name("node")
_PEERS = ROOT / ".venv" / "peers"


def not_tested(reason: str) -> NoReturn:
    """Skip for want of a peer."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(f"{reason}: NOT tested here")


def node() -> str:
    """Where `node` is, with the libraries that it runs."""
    if complaint := npm("ci", NODE, "package-lock.json"):
        not_tested(f"the clients on Node: {complaint}")
    return shutil.which("node") or ""


@functools.cache
def npm(command: str, folder: Path, list_of_packages: str) -> str:
    """Have npm fill a folder's `node_modules`, unless it has for this list; its complaint, or nothing."""
    program = shutil.which("node") and shutil.which("npm")
    if not program:
        return "node or npm is not on the PATH"
    argv = [program, command, "--no-audit", "--no-fund", "--ignore-scripts"]
    wanted = hashlib.sha256((folder / list_of_packages).read_bytes()).hexdigest()
    return _fetch(folder / "node_modules", argv, wanted)


@functools.cache
def pip(name: str, *packages: str) -> Path:
    """A folder with these packages, without what they would bring along."""
    wanted = hashlib.sha256(" ".join((sys.version, *packages)).encode()).hexdigest()
    folder = _PEERS / f"{name}-{wanted[:12]}"
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    if complaint := _fetch(folder, [*argv, "--target", str(folder), *packages], ""):
        not_tested(f"{name} from PyPI: {complaint}")
    return folder


def _fetch(folder: Path, argv: list[str], wanted: str) -> str:
    """Fill a folder unless that was done for what is wanted, one process at a time."""
    stamp = folder / ".installed"
    _PEERS.mkdir(parents=True, exist_ok=True)
    with (_PEERS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            done = subprocess.run(argv, cwd=folder.parent, capture_output=True, text=True)
            if done.returncode != 0:
                codes = [line for line in done.stderr.splitlines() if " code " in line]
                return " ".join(codes) or done.stdout + done.stderr
            stamp.write_text(wanted)
    return ""
