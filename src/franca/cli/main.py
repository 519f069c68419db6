"""The entry point: finds the command, and turns every way to end into an exit code.

A command's module is imported when the command is called and not before: `franca jobs ls` must
not pay for the server.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from franca import __version__
from franca.cli import exits
from franca.cli.group import LazyGroup

EXAMPLES = """\
Examples:
  franca serve                        start a server on its default ports
  franca push default hello world     give it a first job
"""

COMMANDS = {
    "serve": "franca.cli.serve:serve",
    "push": "franca.cli.push:push",
    "jobs": "franca.cli.jobs:jobs",
    "queues": "franca.cli.queues:queues",
    "workers": "franca.cli.workers:workers",
    "status": "franca.cli.server:status",
    "stop": "franca.cli.server:stop",
    "backup": "franca.cli.server:backup",
    "compact": "franca.cli.compact:compact",
    "doctor": "franca.cli.doctor:doctor",
    "config": "franca.cli.config:config",
}


class Root(LazyGroup):
    """The command itself; its help begins with examples."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples first: they answer most questions."""
        formatter.write(EXAMPLES + "\n")
        super().format_help(ctx, formatter)


@click.group(
    cls=Root,
    lazy=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, "-V", "--version", prog_name="franca")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A durable job server that speaks the job-queue protocols you already use."""
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
