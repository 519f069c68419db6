"""The entry point: finds the command, and turns every way to end into an exit code.

A command's module is imported when the command is called and not before: `franca jobs ls` must
not pay for the server.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click

from franca import __version__
from franca.cli import terminal
from franca.cli.group import Group
from franca.node import exits

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXAMPLES = """\
Examples:
  franca serve                        start a server on its default ports
  franca push default hello world     give it a first job
  franca jobs ls 'state:dead age>1h'  the jobs that match a filter
  franca top                          watch it work
"""

COMMANDS = {
    "serve": "franca.cli.serve:serve",
    "push": "franca.cli.push:push",
    "jobs": "franca.cli.jobs:jobs",
    "queues": "franca.cli.queues:queues",
    "types": "franca.cli.reports:types",
    "workers": "franca.cli.workers:workers",
    "schedules": "franca.cli.schedules:schedules",
    "errors": "franca.cli.reports:errors",
    "top": "franca.cli.top:top",
    "status": "franca.cli.status:status",
    "health": "franca.cli.reports:health",
    "history": "franca.cli.reports:history",
    "audit": "franca.cli.reports:audit",
    "operations": "franca.cli.actions:operations",
    "work": "franca.cli.work:work",
    "stop": "franca.cli.status:stop",
    "backup": "franca.cli.copies:backup",
    "restore": "franca.cli.restore:restore",
    "export": "franca.cli.copies:export",
    "import": "franca.cli.copies:import_jobs",
    "compact": "franca.cli.checks:compact",
    "doctor": "franca.cli.checks:doctor",
    "config": "franca.cli.settings:config",
    "completion": "franca.cli.complete:completion",
}


class Root(Group):
    """The command itself: imports a command's module when it is called, and helps by examples."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: the common path first."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the command's module if it is one of the table."""
        if name not in COMMANDS:
            return super().get_command(ctx, name)
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands whose names begin so. Not one of their modules is imported for it."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(n) for n in self.list_commands(ctx) if n.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples first: they answer most questions."""
        formatter.write(EXAMPLES + "\n")
        super().format_help(ctx, formatter)


@click.group(
    cls=Root, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, "-V", "--version", prog_name="franca")
@click.option("--no-color", "no_colour", is_flag=True, help="No colours; NO_COLOR says the same.")
@click.pass_context
def cli(ctx: click.Context, no_colour: bool) -> None:
    """A durable job server that speaks the job-queue protocols you already use."""
    terminal.choose_colour(ctx, no_colour)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@cli.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    try:
        result = cli.main(arguments, prog_name="franca", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough; the interpreter must not flush into it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.FAILURE
    # Without its own exit handling, click hands back the code of `ctx.exit`.
    return result if isinstance(result, int) else exits.OK
