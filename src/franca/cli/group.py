"""Groups of commands that are helpful about a wrong name."""

from __future__ import annotations

import difflib

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
