"""`franca serve`: run a server until it is told to stop."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import click

from franca.cli import exits
from franca.cli.remote import Failed
from franca.cli.settings import settings_flags
from franca.node.settings import ConfigError, Settings, check_binds


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
    from franca.cli.banner import banner
    from franca.node import log
    from franca.node.run import run

    def announce(addresses: Sequence[tuple[str, str]]) -> None:
        if log.is_console(settings.log_format):
            # By the log's thread: a terminal or pipe that takes nothing must not stop the server.
            log.show(banner(settings, addresses))

    raise click.exceptions.Exit(run(settings, announce))
