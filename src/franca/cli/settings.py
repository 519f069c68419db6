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
from franca.node.settings import LISTENERS, ConfigError

if TYPE_CHECKING:
    from franca.node.settings import Settings

_HELP = {
    "data": "The data directory.",
    "store": "sqlite: (in the data directory) or memory: (nothing survives a restart).",
    "insecure_bind": "Allow other machines in without a password.",
    "faktory.password_file": "A file with the password that clients must know.",
    "gearman.wakeup": "How many sleeping workers are woken for each job; 0 is all of them.",
    "gearman.job_retries": "How often a job is run again whose worker was lost; -1: no limit.",
    "gearman.exceptions": "Send WORK_EXCEPTION to every client, not only to those who ask for it.",
    "periodic.auth_file": "Who may use which functions over Periodic, a line each.",
    "tls.certificate": "The certificate for tls:// listeners (PEM).",
    "tls.key": "Its private key (PEM).",
    "tls.client_ca": "Ask clients for a certificate of this authority (PEM).",
    "log_format": "auto, console or json.",
    "log_level": "debug, info, warning or error.",
}

_SWITCHES = ("insecure_bind", "gearman.exceptions")
"""Flags that are given without a value."""


def settings_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command every flag of a setting; it is called with the `Settings` that result."""

    @functools.wraps(command)
    def call(config: str, **given: Any) -> Any:
        names = {_parameter(key.flag): key.name for key in keys().values() if key.flag}
        flags = {name: given.pop(parameter) for parameter, name in names.items()}
        return command(settings_of(flags, config), **given)

    for key in reversed(keys().values()):
        if key.flag:
            _option(key.name, key.flag)(call)
    config_help = "A TOML file; flags and the environment win over it."
    click.option("-c", "--config", default="", metavar="FILE", help=config_help)(call)
    return call


def settings_of(flags: dict[str, object], config: str) -> Settings:
    """The settings of all sources together; a wrong one ends the command."""
    try:
        return load(flags, os.environ, config)
    except ConfigError as error:
        raise Failed(str(error), exits.BAD_CONFIG) from None


def _option(name: str, flag: str) -> Callable[..., Any]:
    protocol = name.removesuffix(".listen")
    if protocol in LISTENERS:
        default = " ".join(LISTENERS[protocol])
        spoken = protocol.replace("_", " ").title()
        text = f"Where to speak {spoken} (default {default}), or off. May be repeated."
        return click.option(flag, _parameter(flag), multiple=True, metavar="ADDR", help=text)
    if name in _SWITCHES:
        return click.option(
            flag, _parameter(flag), is_flag=True, flag_value=True, default=None, help=_HELP[name]
        )
    return click.option(flag, _parameter(flag), default=None, help=_HELP[name])


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
