"""The nine kinds of peers, what each can do, and what the machine has of them."""

import functools
import os
import shutil
import subprocess
from typing import NamedTuple

import pytest

from tests.support.shared import DEADLINE_S

ORIGINAL = os.environ.get("FRANCA_TEST_GEARMAND") == "1"
"""Whether Debian's gearmand stands where Franca stands."""


def differs(reason: str) -> pytest.MarkDecorator:
    """A test that gearmand 1.1.20 does not pass, with what it does instead."""
    return pytest.mark.skipif(ORIGINAL, reason=f"gearmand: {reason}")


def differs_here(reason: str) -> None:
    """The same, for some of a test's cases."""
    if ORIGINAL:
        pytest.skip(f"gearmand: {reason}")


class Kind(NamedTuple):
    """What a library can do; what it cannot is no test of the server."""

    name: str
    hears: frozenset[str] = frozenset({"status", "data", "warnings"})
    """What its client hands out beside the result, each apart."""
    tells: frozenset[str] = frozenset({"status", "data", "warnings"})
    """What its worker can send before the result."""
    hears_exceptions: bool = True
    raises: bool = True
    """Whether its worker can send WORK_EXCEPTION."""
    fails: bool = True
    """Whether its worker can fail without raising."""
    joins_data: bool = False
    """Its client puts data and result together."""
    takes_bytes: bool = True
    """Its client sends and reads any bytes; else text."""
    gives_bytes: bool = True
    """Its worker reads and sends any bytes; else text."""
    asks_status: bool = True
    grabs_unique: bool = True


_NOTHING: frozenset[str] = frozenset()
_KINDS = (
    Kind("gearman", frozenset({"status", "warnings"}), _NOTHING, hears_exceptions=False, raises=False, joins_data=True,
         asks_status=False, grabs_unique=False),
    Kind("gear"),
    Kind("python3-gearman", hears_exceptions=False, takes_bytes=False, gives_bytes=False),
    # Its worker asks for uniques only at the price of its client's own, which are no UTF-8.
    Kind("aiogear", _NOTHING, takes_bytes=False, gives_bytes=False, grabs_unique=False),
    Kind("gearmanode", gives_bytes=False),
    # It asks for a status and does not read the answer.
    Kind("abraxas", frozenset({"status", "warnings"}), frozenset({"status", "warnings"}),
         fails=False, joins_data=True, asks_status=False),
    Kind("node-gearman", _NOTHING, frozenset({"data"}), hears_exceptions=False, raises=False,
         joins_data=True, asks_status=False, grabs_unique=False),
    Kind("perl", grabs_unique=False),
    Kind("php"),
)  # fmt: skip
ON_NODE = ("gearmanode", "abraxas", "node-gearman")
KINDS = {kind.name: kind for kind in _KINDS}
SLEEPERS = [name for name in KINDS if name not in ("gearman", "perl", "php")]
"""Those whose workers look for jobs only when they are woken."""
PRIORITIES = ("high", None, "low")


def script(kind: str, role: str) -> str:
    """The program that is a client or a worker of that kind."""
    if kind in ON_NODE:
        return f"node/{kind}.js" if role == "client" else f"node/{kind}-work.js"
    ending = {"perl": "pl", "php": "php"}.get(kind, "py")
    return f"gearman/programs/{kind.replace('-', '_')}_{role}.{ending}"


# -- what the machine has --------------------------------------------------------------------------

GEARMAND = shutil.which("gearmand") or "/usr/sbin/gearmand"
_PROBES = {
    "gearman": (["gearman"], "gearman-tools"),
    "gearadmin": (["gearadmin"], "gearman-tools"),
    "gearmand": ([GEARMAND], "gearman-job-server"),
    "perl": (["perl", "-MGearman::Client", "-MGearman::Worker", "-e1"], "libgearman-client-perl"),
    "php": (["php", "-r", "exit((int) !extension_loaded('gearman'));"], "php-cli php-gearman"),
}
"""A program that must be there or, where it has arguments, must end well; and what Debian has it in."""


@functools.cache
def _missing(name: str) -> str:
    argv, packages = _PROBES[name]
    found = shutil.which(argv[0]) is not None
    if found and len(argv) > 1:
        found = subprocess.run(argv, capture_output=True, timeout=DEADLINE_S).returncode == 0
    return "" if found else f"{name} (Debian: {packages}) is not here: NOT tested"


def need(name: str) -> None:
    """Skip, naming what is missing, where the machine does not have it."""
    reason = _missing(name) if name in _PROBES else ""  # the others come from PyPI and npm
    if reason:
        pytest.skip(reason)
