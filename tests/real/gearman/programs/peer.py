"""What the Python programs share: what they are told to be, and the ways in which a function works."""

import base64
import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

from tests.real.programs.jobs import say, until_exists

HOST = "127.0.0.1"
_PROGRESS = (("status", 1, 4), ("data", "part"), ("warning", "careful"), ("status", 3, 4))


class Failed(Exception):
    """A job is to fail, and not by an exception."""


def spec() -> Any:
    return json.loads(sys.argv[1])


def tls(told: Any) -> dict[str, str]:
    """What gear's connections take to be encrypted, where files for it are given."""
    return {f"ssl_{name}": path for name, path in told.get("tls", {}).items()}


def perform(
    does: str, function: str, workload: bytes, tell: Callable[..., None], **facts: object
) -> bytes:
    """A job's result, or `Failed`, or `ValueError`; what it tells before, as far as its library can, goes to `tell`."""
    if does == "wait":  # until the test makes the file that is named in the workload
        path = workload.decode()
        say("started", function=function, path=path)
        until_exists(path)
    say("ran", function=function, digest=hashlib.sha256(workload).hexdigest(), **facts)
    if does == "fail":
        raise Failed
    if does == "raise":
        raise ValueError("boom")
    if does == "progress":
        for part in _PROGRESS:
            tell(*part)
        return b"whole"
    return b"" if does == "empty" else workload[::-1]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def outcome(kind: str, result: bytes = b"", **facts: object) -> dict[str, object]:
    """How a job went: `complete`, `fail` or `exception`, and what was heard before its end."""
    return {"outcome": kind, "result": b64(result), **facts}
