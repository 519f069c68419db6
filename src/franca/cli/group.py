"""Groups of commands: imported when called, and helpful about a wrong name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class Group(click.Group):
    """A group that answers a wrong name with the nearest right one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was meant, or an error that names the nearest."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), 1, 0.5)
            hint = f" Did you mean {near[0]!r}?" if near else f" See '{ctx.command_path} --help'."
            ctx.fail(f"There is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group whose commands live in modules of their own: name -> "module:attribute"."""

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: the common path first."""
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the command's module if it is one of the table."""
        place = self._lazy.get(name)
        if place is None:
            return super().get_command(ctx, name)
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command
