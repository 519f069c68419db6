"""What every command that speaks to a running server shares: where it is, and what it says.

Data goes to stdout, everything else to stderr. `--json` prints the server's result as it came,
numbers and all.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from franca.cli.terminal import no_colour_option
from franca.control import client
from franca.node import exits
from franca.values import read_duration

TIMEOUT_MAX_MS = 365 * 86_400_000
"""As long as anybody may wait, and no longer than a socket can."""

F = TypeVar("F", bound=Callable[..., Any])


class Failed(click.ClickException):
    """The command cannot be carried out; `exit_code` says which kind of failure it is."""

    def __init__(self, text: str, exit_code: int = exits.FAILURE) -> None:
        super().__init__(text)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance


def duration(text: str | int) -> int:
    """The type of an option that is a span of time, in milliseconds."""
    try:
        return text if isinstance(text, int) else read_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def patience(text: str | int) -> int:
    """The type of `--timeout`: a span that one can wait for."""
    span = duration(text)
    if not 1 <= span <= TIMEOUT_MAX_MS:
        raise click.BadParameter("expected a duration from 1ms to 365d")
    return span


class Remote:
    """The running server that a command is about."""

    def __init__(self, data: str | None, config: str, timeout_ms: int, as_json: bool) -> None:
        self._data = data
        self._config = config
        self._timeout_s = timeout_ms / 1000
        self.as_json = as_json

    @property
    def directory(self) -> str:
        """The data directory of the server."""
        from franca.node.config import data_directory
        from franca.node.settings import ConfigError

        try:
            return data_directory(self._data, os.environ, self._config)
        except ConfigError as error:
            raise Failed(str(error), exits.BAD_CONFIG) from None

    @property
    def timeout_s(self) -> float:
        """For how long whoever called this would wait."""
        return self._timeout_s

    def wait_longer(self, span_ms: int) -> None:
        """Wait at least for so long, for an answer that may take its time."""
        self._timeout_s = max(self._timeout_s, span_ms / 1000)

    def ask(self, op: str, params: object = None, of_type: Any = Any) -> Any:
        """The result of an operation; with `--json` it has been printed already."""
        result = self.fetch(op, params)
        if self.as_json:
            show_json(result)
        return msgspec.json.decode(result, type=of_type)

    def fetch(self, op: str, params: object = None) -> bytes:
        """The result of an operation as JSON; nothing is printed."""
        try:
            return client.call(self.directory, op, params, timeout_s=self._timeout_s)
        except UnicodeEncodeError as error:
            raise Failed(f"{not_text(error.object)} is not UTF-8", exits.USAGE) from None
        except client.CannotConnect as error:
            hint = "Is it running? Start one with 'franca serve', or name its --data."
            raise Failed(f"{error}. {hint}", exits.NO_CONNECTION) from None
        except client.TimedOut as error:
            raise Failed(str(error), exits.TIMED_OUT) from None
        except client.Declined as error:
            raise Failed(error.text, exits.OF_CODES.get(error.code, exits.FAILURE)) from None

    def fetch_if_known(self, op: str, params: object = None) -> bytes | None:
        """The result, or None of a server that does not know the operation."""
        try:
            return self.fetch(op, params)
        except Failed as error:
            if error.exit_code == exits.OF_CODES["bad-request"]:
                return None
            raise

    def show(self, result: object) -> None:
        """Print a result that was put together here for programs."""
        show_json(msgspec.json.encode(result))

    def say(self, text: str, *, err: bool = False) -> None:
        """Print what people want to know; with `--json` they were told already."""
        if not self.as_json:
            click.echo(text, err=err)


def show_json(result: bytes) -> None:
    """Print a result for programs, its members as they came."""
    click.echo(msgspec.json.format(result, indent=2).decode())


def not_text(word: str) -> str:
    """A word that is no text, in a form that can be printed."""
    return repr(word.encode(errors="surrogateescape"))


def remote(command: F) -> F:
    """Give a command the options that reach a server; it is called with a `Remote` first."""

    @functools.wraps(command)
    def call(data: str | None, config: str, timeout: int, as_json: bool, **rest: Any) -> Any:
        return command(Remote(data, config, timeout, as_json), **rest)

    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--timeout", type=patience, default="60s", help="How long to wait."),
        click.option("-c", "--config", default="", help="The server's configuration file."),
        click.option("--data", default=None, help="The server's data directory."),
    ):
        option(call)
    no_colour_option(call)
    return call  # type: ignore[return-value]


def confirm(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; without a terminal, `--yes` must be given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failed(f"{question} Without a terminal to ask on, give --yes.", exits.USAGE)
    if not click.confirm(question, err=True):
        raise Failed("nothing was done")
