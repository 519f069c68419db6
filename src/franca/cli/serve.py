"""`franca serve`: run a server until it is told to stop."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence

import click

from franca import __version__
from franca.cli.remote import Failed
from franca.cli.settings import settings_flags
from franca.node import exits
from franca.node.settings import ConfigError, Settings, check_binds, is_secured, open_binds
from franca.protocols.registry import PROTOCOLS
from franca.values import Address, read_address

_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


@click.command()
@settings_flags
def serve(settings: Settings) -> None:
    """Start a server and run it until it is told to stop.

    ADDR is host:port, [v6]:port, a path or unix:PATH, with tcp://, tls:// or ipc:// before it if
    you like, or off. Every flag is also a key of the configuration file and a FRANCA_ variable;
    'franca config show' tells where each value comes from.
    """
    from franca.node.process import open_standard_files

    open_standard_files()
    # Before the rest of the server is loaded, which takes a while; `run` says what it is for.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        check_binds(settings)
    except ConfigError as error:
        raise Failed(str(error), exits.BAD_CONFIG) from None
    from franca.node import log
    from franca.node.run import run

    def announce(addresses: Sequence[tuple[str, str]]) -> None:
        if log.is_console(settings.log_format):
            # By the log's thread: a terminal or pipe that takes nothing must not stop the server.
            log.show(banner(settings, addresses))

    raise click.exceptions.Exit(run(settings, announce))


# -- what it says when it is ready -------------------------------------------------------------


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
        if exposed:
            lines.append(f"  WARNING  open to other machines without a password: {exposed}")
    where = [] if settings.is_default("data") else ["--data", settings.data]
    push = shlex.join([*command(), "push", *where, "default", "hello", "world"])
    lines.append(f"  push a first job:  {push}")
    return "\n".join(lines) + "\n"


def client_line(protocol: str, address: Address, settings: Settings) -> str:
    """A line to copy that points a client at this listener, if it has words for it."""
    declared = PROTOCOLS.get(protocol)
    if declared is None or not declared.client_line or address.path:
        return ""
    host = _WILDCARDS.get(address.host, address.host)
    host = f"[{host}]" if ":" in host else host
    tls = "+tls" if settings.tls.certificate else ""
    # Never the password itself: a terminal's scroll-back is no place for it.
    secret = declared.client_secret if is_secured(settings, protocol) else ""
    return declared.client_line.format(tls=tls, secret=secret, host=host, port=address.port)


def command() -> list[str]:
    """How the person at this terminal can call us."""
    if shutil.which("franca"):
        return ["franca"]
    beside = os.path.join(os.path.dirname(sys.executable), "franca")
    if os.path.exists(beside):
        near = os.path.relpath(beside)
        return [beside if near.startswith("..") else near]
    return [sys.executable, "-m", "franca"]
