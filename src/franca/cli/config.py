"""`franca config show`: every setting, its value, and where the value comes from."""

from __future__ import annotations

import click
import msgspec

from franca.cli.group import Group
from franca.cli.output import printable
from franca.cli.settings import settings_flags
from franca.node.settings import Settings


@click.group(cls=Group)
def config() -> None:
    """Look at the configuration."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@settings_flags
def show(settings: Settings, as_json: bool) -> None:
    """Show each setting, its value, and where it comes from."""
    if as_json:
        rows = {row.key: {"value": row.value, "source": row.source} for row in settings.shown}
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return
    lines = [(f"{row.key} = {_toml(row.value)}", row.source) for row in settings.shown]
    width = max(len(text) for text, _source in lines)
    for text, source in lines:
        click.echo(f"{printable(text).ljust(width)}  # {printable(source)}")


def _toml(value: object) -> str:
    """JSON is how TOML writes texts, numbers, switches and lists of them."""
    return msgspec.json.encode(value).decode()
