"""The flags that change settings, one for each key that has one; and `franca config show`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import click
import msgspec

from franca.cli.group import Group
from franca.cli.output import printable
from franca.cli.remote import Failed
from franca.control.path import written
from franca.node import exits
from franca.node.config import keys, load
from franca.node.settings import ConfigError, Settings
from franca.protocols.declaration import Setting
from franca.values import read_addresses


def settings_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command every flag of a setting; it is called with the `Settings` that result."""

    @functools.wraps(command)
    def call(config: str, **given: Any) -> Any:
        names = {_parameter(key.flag): key.name for key in keys().values() if key.flag}
        flags = {name: given.pop(parameter) for parameter, name in names.items()}
        return command(settings_of(flags, config), **given)

    for key in reversed(keys().values()):
        if key.flag:
            _option(key)(call)
    config_help = "A TOML file; flags and the environment win over it."
    click.option("-c", "--config", default="", metavar="FILE", help=config_help)(call)
    return call


def settings_of(flags: dict[str, object], config: str) -> Settings:
    """The settings of all sources together; a wrong one ends the command."""
    try:
        return load(flags, os.environ, config)
    except ConfigError as error:
        raise Failed(str(error), exits.BAD_CONFIG) from None


def _option(key: Setting) -> Callable[..., Any]:
    named = key.flag, _parameter(key.flag)
    if key.read is read_addresses:
        return click.option(*named, multiple=True, metavar="ADDR", help=key.help)
    if key.switch:
        return click.option(*named, is_flag=True, flag_value=True, default=None, help=key.help)
    return click.option(*named, default=None, help=key.help)


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


@click.group(cls=Group)
def config() -> None:
    """Show the configuration."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@settings_flags
def show(settings: Settings, as_json: bool) -> None:
    """Show each setting, its value, and where it comes from."""
    if as_json:
        shown = [(row.key, _text(row.value), written(row.source)) for row in settings.shown]
        rows = {key: {"value": value, "source": source} for key, value, source in shown}
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return
    # JSON is how TOML writes texts, numbers, switches and lists of them.
    values = {row.key: msgspec.json.encode(_text(row.value)).decode() for row in settings.shown}
    lines = [(f"{row.key} = {values[row.key]}", row.source) for row in settings.shown]
    width = max(len(text) for text, _source in lines)
    for text, source in lines:
        click.echo(f"{printable(text).ljust(width)}  # {printable(written(source))}")


def _text(value: object) -> object:
    """The value, its texts in a form that can be printed: a path need not be UTF-8."""
    if isinstance(value, list | tuple):
        return [_text(one) for one in value]
    return written(value) if isinstance(value, str) else value
