"""`franca serve`: run a server until it is told to stop."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence

import click

from franca import __version__
from franca.cli.remote import Failed
from franca.cli.settings import settings_flags
from franca.control.path import written
from franca.node import exits
from franca.node.hints import WEB, client_line
from franca.node.settings import ConfigError, Settings, check_binds, open_binds
from franca.values import read_address


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
    """Version, data, where the dashboard is, each protocol on a line, how to push a first job."""
    kept = ", in memory: nothing survives a restart" if settings.store == "memory:" else ""
    lines = [f"Franca {__version__}, data in {written(settings.data)}{kept}", ""]
    shown = [*_dashboard(settings, addresses), *_protocols(settings, addresses)]
    width = max((len(name) for name, _text in shown), default=0)
    lines += [f"  {name.ljust(width)}  {text}".rstrip() for name, text in shown]
    if settings.insecure_bind:
        exposed = ", ".join(f"{protocol} {address}" for protocol, address in open_binds(settings))
        if exposed:
            lines.append(f"  WARNING  open to other machines without a password: {exposed}")
    where = [] if settings.is_default("data") else ["--data", settings.data]
    push = shlex.join([*command(), "push", *where, "default", "hello", "world"])
    lines += ["", f"  push a first job:  {push}"]
    return "\n".join(lines) + "\n"


def _dashboard(
    settings: Settings, addresses: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Where to look with a browser, or why there is nothing to look at."""
    taken = [read_address(text) for listener, text in addresses if listener == WEB]
    if taken:
        yield "dashboard", client_line(WEB, taken[0], settings) or written(str(taken[0]))
    elif wanted := settings.listeners.get(WEB, ()):
        text = ", ".join(map(str, wanted))
        yield "dashboard", f"none: {text} is taken (--web ADDR listens elsewhere)"
    elif WEB in settings.listeners:
        yield "dashboard", "off"


def _protocols(
    settings: Settings, addresses: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """The addresses of each protocol as they really are, and a line for its clients."""
    of_protocol: dict[str, list[str]] = {}
    hints: dict[str, str] = {}
    for listener, text in addresses:
        if listener == WEB:
            continue
        protocol = listener.partition("_")[0]
        of_protocol.setdefault(protocol, []).append(written(text))
        if hint := client_line(listener, read_address(text), settings):
            hints.setdefault(protocol, hint)
    for protocol, taken in of_protocol.items():
        yield protocol, f"{', '.join(taken):<24}  {hints.get(protocol, '')}"


def command() -> list[str]:
    """How the person at this terminal can call us."""
    if shutil.which("franca"):
        return ["franca"]
    beside = os.path.join(os.path.dirname(sys.executable), "franca")
    if os.path.exists(beside):
        near = os.path.relpath(beside)
        return [beside if near.startswith("..") else near]
    return [sys.executable, "-m", "franca"]
