"""`franca config show`: every setting, its value, and where the value comes from."""

from __future__ import annotations

import click
import msgspec

from franca.cli.group import Group
from franca.cli.output import printable
from franca.cli.settings import settings_flags
from franca.control.path import written
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
        rows = {
            row.key: {"value": _text(row.value), "source": written(row.source)}
            for row in settings.shown
        }
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return
    lines = [(f"{row.key} = {_toml(row.value)}", row.source) for row in settings.shown]
    width = max(len(text) for text, _source in lines)
    for text, source in lines:
        click.echo(f"{printable(text).ljust(width)}  # {printable(written(source))}")


def _toml(value: object) -> str:
    """JSON is how TOML writes texts, numbers, switches and lists of them."""
    return msgspec.json.encode(_text(value)).decode()


def _text(value: object) -> object:
    """The value, its texts in a form that can be printed: a path need not be UTF-8."""
    if isinstance(value, list | tuple):
        return [_text(one) for one in value]
    return written(value) if isinstance(value, str) else value
