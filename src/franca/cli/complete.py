"""Shell completion: the script that a shell loads, and the names that only a server knows."""

from __future__ import annotations

import os

import click

from franca.node import exits

PATIENCE_S = 0.5
"""Whoever presses a key for a completion waits no longer than this for a server's answer."""
SHELLS = ("bash", "zsh", "fish")
FIELDS = (
    "queue:", "type:", "state:", "via:", "by:", "worker:", "error:", "class:", "arg:", "id:",
    "name:", "key:", "age>", "ended<", "ran>", "tries>",
)  # fmt: skip
STATES = ("scheduled", "retrying", "ready", "running", "done", "dead", "cancelled")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell script that completes commands, queues and types.

    \b
    bash:  eval "$(franca completion bash)"           in ~/.bashrc
    zsh:   eval "$(franca completion zsh)"            in ~/.zshrc
    fish:  franca completion fish | source            in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    root = context.find_root()
    of_shell = get_completion_class(shell)
    if of_shell is None:
        context.exit(exits.FAILURE)
    name = root.info_name or "franca"
    click.echo(of_shell(root.command, {}, name, "_FRANCA_COMPLETE").source())


def queue_names(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Queues of the running server whose names begin so."""
    return _known(context, "queue", begun)


def type_names(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Types of the running server whose names begin so."""
    return _known(context, "type", begun)


def worker_names(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Workers of the running server whose names begin so."""
    return _known(context, "worker", begun)


def filter_terms(context: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """What a term of a filter may go on with: a field, or behind one what the server knows."""
    field, colon, value = begun.partition(":")
    if not colon:
        return [name for name in FIELDS if name.startswith(field)]
    if field == "state":
        values = [state for state in STATES if state.startswith(value)]
    else:
        values = _known(context, field, value)
    return [f"{field}:{one}" for one in values]


def _known(context: click.Context, what: str, begun: str) -> list[str]:
    """No names if there is no answer: a completion never says why."""
    import msgspec

    from franca.control import client
    from franca.node.config import data_directory
    from franca.node.settings import ConfigError

    given = context.params
    try:
        directory = data_directory(given.get("data"), os.environ, given.get("config") or "")
        answer = client.call(directory, "known", {}, timeout_s=PATIENCE_S)
        found = msgspec.json.decode(answer, type=dict[str, list[dict[str, object]]])
    except (
        ConfigError, OSError, msgspec.DecodeError,
        client.CannotConnect, client.TimedOut, client.Declined,
    ):  # fmt: skip
        return []
    names = (str(one.get("value", "")) for one in found.get(what, ()))
    return [name for name in names if name.startswith(begun) and name.isprintable()]
