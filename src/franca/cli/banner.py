"""What a server says to the person who started it: where it listens and what to do next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence

from franca import __version__
from franca.control.values import Address, read_address
from franca.node.settings import Settings, open_binds

_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def banner(settings: Settings, addresses: Sequence[tuple[str, str]]) -> str:
    """Version, data, each listener as it really is with a line for its clients, a first job."""
    memory = settings.store == "memory:"
    kept = "in memory: nothing survives a restart" if memory else "SQLite, synced before answers"
    width = max([8, *(len(protocol) for protocol, _address in addresses)])
    lines = [f"Franca {__version__}", f"  {'data':<{width}} {settings.data} ({kept})"]
    for protocol, address in addresses:
        lines.append(f"  {protocol:<{width}} {address}")
        hint = client_line(protocol, read_address(address), settings)
        if hint:
            lines.append(f"  {'':<{width}} {hint}")
    if settings.insecure_bind:
        exposed = ", ".join(f"{protocol} {address}" for protocol, address in open_binds(settings))
        lines += [f"  WARNING  open to other machines without a password: {exposed}"] * bool(
            exposed
        )
    where = [] if _is_default(settings) else ["--data", settings.data]
    push = shlex.join([*command(), "push", *where, "default", "hello", "world"])
    lines.append(f"  push a first job:  {push}")
    return "\n".join(lines) + "\n"


def client_line(protocol: str, address: Address, settings: Settings) -> str:
    """A line to copy that points a client at this listener, if it has words for it."""
    if protocol != "faktory" or address.path:
        return ""
    host = _WILDCARDS.get(address.host, address.host)
    host = f"[{host}]" if ":" in host else host
    scheme = "tcp+tls" if settings.tls.certificate else "tcp"
    # Never the password itself: a terminal's scroll-back is no place for it.
    secret = ":$FAKTORY_PASSWORD@" if settings.faktory.password else ""
    return f"export FAKTORY_URL={scheme}://{secret}{host}:{address.port}"


def command() -> list[str]:
    """How the person at this terminal can call us."""
    if shutil.which("franca"):
        return ["franca"]
    beside = os.path.join(os.path.dirname(sys.executable), "franca")
    if os.path.exists(beside):
        near = os.path.relpath(beside)
        return [beside if near.startswith("..") else near]
    return [sys.executable, "-m", "franca"]


def _is_default(settings: Settings) -> bool:
    return any(row.key == "data" and row.source == "default" for row in settings.shown)
