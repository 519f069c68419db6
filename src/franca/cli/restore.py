"""`franca restore`: a backup becomes the store of an empty data directory."""

from __future__ import annotations

import os

import click

from franca.cli.output import counted
from franca.cli.remote import Failed
from franca.cli.terminal import Progress
from franca.node import exits


@click.command()
@click.argument("file")
@click.option("--data", default=None, help="The data directory; it must be empty or not exist.")
@click.option("-c", "--config", default="", help="The server's configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def restore(file: str, data: str | None, config: str, as_json: bool) -> None:
    """Restore a backup into an empty data directory.

    No server may run there. Every job of FILE is read and its checksum compared before the store
    gets its place; FILE itself is only read.
    """
    from franca.node.config import data_directory
    from franca.node.settings import ConfigError

    try:
        directory = data_directory(data, os.environ, config)
    except ConfigError as error:
        raise Failed(str(error), exits.BAD_CONFIG) from None
    count = _restored(file, directory)
    if as_json:
        import msgspec

        from franca.cli.remote import show_json

        show_json(msgspec.json.encode({"data": directory, "jobs": count}))
    else:
        click.echo(f"{counted(count, 'job')} in {directory}")


def _restored(file: str, directory: str) -> int:
    from franca.node.datadir import StoreBusy, StoreError
    from franca.node.restore import NotEmpty, restore

    os.umask(0o077)
    with Progress("restore") as bar:
        try:
            return restore(file, directory, bar.show)
        except StoreBusy as error:
            raise Failed(f"{error}: stop it first", exits.DATA_IN_USE) from None
        except NotEmpty as error:
            raise Failed(str(error), exits.REFUSED) from None
        except StoreError as error:
            raise Failed(f"{error}; nothing was restored", exits.FAILURE) from None
        except OSError as error:
            where = error.filename or directory
            raise Failed(f"{where}: {error.strerror or error}") from None
