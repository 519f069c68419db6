"""`franca status`, `franca stop` and `franca backup`: the running server as a whole."""

from __future__ import annotations

import os

import click

from franca.cli.output import pairs
from franca.cli.remote import Remote, remote


@click.command()
@remote
def status(server: Remote) -> None:
    """Show how the running server is."""
    found = server.ask("server.status")
    if not server.as_json:
        pairs(found.items())


@click.command()
@remote
def stop(server: Remote) -> None:
    """Ask the running server to stop gracefully."""
    server.ask("server.stop")
    if not server.as_json:
        click.echo("stopping", err=True)


@click.command()
@click.argument("file")
@remote
def backup(server: Remote, file: str) -> None:
    """Write a whole copy of the store into a new FILE while the server runs."""
    # The server's working directory is another one.
    path = os.path.abspath(file)
    server.ask("server.backup", {"path": path})
    if not server.as_json:
        click.echo(path)
