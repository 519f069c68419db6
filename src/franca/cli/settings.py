"""The flags that change settings, one for each key of the configuration that has one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from franca.cli import exits
from franca.cli.remote import Failed
from franca.node.config import keys, load
from franca.node.settings import ConfigError
from franca.protocols.declaration import Setting
from franca.values import read_addresses

if TYPE_CHECKING:
    from franca.node.settings import Settings


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
