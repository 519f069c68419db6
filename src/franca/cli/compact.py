"""`franca compact`: make the store's file as small as what is in it, while no server runs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from franca.cli import exits
from franca.cli.settings import settings_flags
from franca.node.datadir import DataDir, StoreBusy, StoreError
from franca.node.settings import Settings


@click.command()
@settings_flags
def compact(settings: Settings) -> None:
    """Write the store into a new file without unused room, in place of the old one.

    The server must be stopped. A file that an earlier release made can give room back by itself
    from then on. Needs as much free room as the jobs take.
    """
    os.umask(0o077)
    if not os.path.exists(settings.data):
        raise click.ClickException(f"there is no {settings.data}")
    try:
        data = DataDir(Path(settings.data))
    except StoreBusy as error:
        click.echo(f"{error}: stop it first", err=True)
        raise click.exceptions.Exit(exits.DATA_IN_USE) from None
    try:
        if not os.path.exists(data.store_path):
            raise click.ClickException(f"there is no store in {settings.data}")
        before = os.path.getsize(data.store_path)
        data.compact()
    except StoreError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(exits.DISK_FAILED) from None
    finally:
        data.close()
    click.echo(f"{before} bytes before, {os.path.getsize(data.store_path)} after")
