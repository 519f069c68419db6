"""`franca jobs`: list them, show one, act on them by name or by filter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
import msgspec
from msgspec import Raw

from franca.cli.complete import FIELDS, STATES, filter_terms, queue_names, type_names
from franca.cli.group import Group
from franca.cli.output import cell, counted, pairs, printable, table
from franca.cli.remote import Failed, Remote, confirm, remote
from franca.node import exits

OLDER_STATES = ("waiting", "leased")
"""Words of earlier releases: scheduled or retrying, and running."""
NEWER_STATES = frozenset({"scheduled", "retrying", "running"})
"""And those that only a filter knows."""
COLUMNS = "ID STATE QUEUE TYPE NAME AGE TRIES ERROR"
MEMBERS = "id state queue type name created_at attempts error"
ID_MAX = 2**63 - 2
WORDS = {"origin": "via", "holder": "worker", "body": "args"}
"""What members of `jobs.show` are called now."""


@click.group(cls=Group)
def jobs() -> None:
    """List, show and manage jobs."""


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which jobs are meant."""
    for option in (
        click.option("--type", default="", help="Only this type.", shell_complete=type_names),
        click.option("--queue", default="", help="Only this queue.", shell_complete=queue_names),
        click.option(
            "--state", "states", type=click.Choice((*STATES, *OLDER_STATES)), multiple=True
        ),
    ):
        command = option(command)
    return command


# -- list -------------------------------------------------------------------------------------


class Filtered(click.Command):
    """A command that takes a term with a minus in front for a term, and not for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A blank in front keeps click from looking at it."""
        begins = tuple(f"-{field}" for field in FIELDS)
        return super().parse_args(ctx, [f" {a}" if a.startswith(begins) else a for a in args])


@jobs.command(cls=Filtered)
@click.argument("terms", nargs=-1, metavar="[FILTER]...", shell_complete=filter_terms)
@filters
@click.option("--name", default="", help="Only jobs with this public name (jid).")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--after", default="", help="Continue after the previous page.")
@click.option("--oldest-first", is_flag=True)
@remote
def ls(
    server: Remote,
    terms: tuple[str, ...],
    limit: int,
    after: str,
    oldest_first: bool,
    **given: Any,
) -> None:
    """List jobs, newest first, or those that match a filter.

    \b
      franca jobs ls 'state:dead queue:mail,news type:Send* age>1h'
      franca jobs ls 'via:gearman worker:mail-1 arg:"a b" -queue:x ran>30s tries>3'

    Terms are joined by and, values by a comma are joined by or, a minus in front means not, and
    a star is anything. Words without a field are looked for in names, errors and arguments.
    """
    if not terms and NEWER_STATES.isdisjoint(given["states"]):
        params = {**given, "limit": limit, "after": _id(after)}
        _tell_found(server, params | {"newest_first": not oldest_first})
        return
    if oldest_first:
        raise Failed("a filter has an order of its own: no --oldest-first", exits.USAGE)
    query = " ".join([*map(str.strip, terms), *_terms_of(given)])
    page = server.ask("jobs.search", {"q": query, "after": after, "limit": limit})
    if server.as_json:
        return
    table(COLUMNS, MEMBERS, page["jobs"])
    click.echo(_footer(page), err=True)


def _tell_found(server: Remote, params: dict[str, object]) -> None:
    page = server.ask("jobs.find", params)
    if not server.as_json:
        table(COLUMNS, MEMBERS, page["jobs"])
    if page["after"]:
        server.say(f"There may be more: --after {page['after']}", err=True)


def _id(after: str) -> int:
    """`--after` of a list that goes by ids."""
    if not after:
        return 0
    if not (after.isascii() and after.isdigit() and int(after) <= ID_MAX):
        raise Failed(f"--after {after!r} is not in the range of ids", exits.USAGE)
    return int(after)


def _terms_of(options: Mapping[str, object]) -> Iterator[str]:
    """What the options say, as terms of a filter."""
    for field, value in options.items():
        if isinstance(value, tuple):
            if value:
                yield f"state:{','.join(value)}"
        elif value:
            text = str(value).replace("\\", "\\\\").replace('"', '\\"')
            yield f'{field}:"{text}"'


def _footer(page: dict[str, Any]) -> str:
    """How many there are, how far was looked, and how to go on."""
    total = f"{page['total']:,}" if page["total_exact"] else f"at least {page['total']:,}"
    text = f"{len(page['jobs'])} of {total}"
    if page["scanned"] < page["of"]:
        text += f", {page['scanned']:,} of {page['of']:,} looked at"
    return f"{text}; more: --after {page['next']}" if page["next"] else text


# -- show -------------------------------------------------------------------------------------


@jobs.command()
@click.argument("job")
@remote
def show(server: Remote, job: str) -> None:
    """Show everything about a job, by id or by name."""
    found = server.ask("jobs.show", {"job": job}, dict[str, list[dict[str, Raw]]])["jobs"]
    if server.as_json:
        return
    for number, view in enumerate(found):
        if number:
            click.echo()
        attempts = msgspec.json.decode(view.pop("story"))
        pairs((WORDS.get(name, name), _plain(raw)) for name, raw in _for_people(view).items())
        for attempt in attempts:
            error = f"{attempt['error']}: {attempt['text']}" if attempt["error"] else ""
            when = cell(attempt["ended_at"])
            click.echo(f"  {when}  {attempt['how']}  {attempt['holder']}  {printable(error)}")
            for line in attempt["trace"]:
                click.echo(f"      {printable(line)}")


class _Unit(msgspec.Struct):
    args: Raw


def _for_people(view: dict[str, Raw]) -> dict[str, Raw]:
    """A job with the state in today's words, and with arguments instead of what is around them."""
    has_run = any(bytes(view[name]) != b"0" for name in ("failures", "losses"))
    waits = b'"retrying"' if has_run else b'"scheduled"'
    state = {b'"waiting"': waits, b'"leased"': b'"running"'}.get(bytes(view["state"]))
    shown = dict(view) if state is None else view | {"state": Raw(state)}
    if bytes(view["media"]) == b'"json-job"':
        # A body that is remembered may be cut, and then is a text.
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            shown["body"] = msgspec.json.decode(view["body"], type=_Unit).args
    return shown


def _plain(raw: Raw) -> str:
    """A value of JSON for people: a text without its quotes, all else as it was sent."""
    value = bytes(raw)
    if value == b"null":
        return ""
    return str(msgspec.json.decode(value)) if value.startswith(b'"') else value.decode()


# -- submit -----------------------------------------------------------------------------------


@jobs.command()
@click.argument("file", default="-")
@remote
def submit(server: Remote, file: str) -> None:
    """Push many jobs: a JSON object on each line of FILE, or of stdin. Prints their ids.

    Members are those of a push over REST: {"queue": "mail", "type": "Send", "args": [1]}.
    """
    from franca.cli.copies import portions, read_lines

    done = refused = 0
    whole: list[object] = []
    with read_lines(file) as (source, _size):
        for lines in portions(source, 0):
            found = msgspec.json.decode(server.fetch("jobs.submit", {"jobs": lines}))["jobs"]
            for number, one in enumerate(found, done + 1):
                if one.get("error"):
                    refused += 1
                    click.echo(f"line {number}: {printable(one['error'])}", err=True)
                else:
                    server.say(str(one["id"]))
            done += len(lines)
            whole += found
    if server.as_json:
        server.show({"jobs": whole})
    if refused:
        raise Failed(f"{counted(refused, 'job')} of {done} not submitted")


# -- act --------------------------------------------------------------------------------------


def _add(name: str, done: str, help_text: str, *, asks: bool = False) -> None:
    """Add a command that does one thing to many jobs."""

    def act(
        server: Remote,
        references: tuple[str, ...],
        terms: str,
        yes: bool = True,
        **filtered: Any,
    ) -> None:
        ways = [bool(references), any(filtered.values()), bool(terms.strip())]
        if sum(ways) != 1:
            reason = "say which jobs: by id or name, by --filter, or by --state, --queue, --type"
            raise Failed(reason, exits.USAGE)
        if asks and not references:
            confirm(f"All jobs that fit will be {done}. Go on?", yes)
        if not NEWER_STATES.isdisjoint(filtered["states"]):
            terms = " ".join(_terms_of(filtered))
        if terms.strip():
            from franca.cli.actions import act_on_filter

            act_on_filter(server, name, done, terms)
            return
        result = server.ask(f"jobs.{name}", {"jobs": references, **filtered})
        server.say(f"{counted(result['count'], 'job')} {done}")
        _tell_skipped(result, done)

    jobs_meant = click.argument("references", nargs=-1, metavar="[JOB]...")
    by_filter = click.option(
        "--filter", "-q", "terms", default="", help="A filter, as for 'jobs ls'."
    )
    command = remote(filters(by_filter(jobs_meant(act))))
    if asks:
        command = click.option("--yes", is_flag=True, help="Do not ask.")(command)
    jobs.command(name, help=help_text)(command)


def _tell_skipped(result: dict[str, Any], done: str) -> None:
    """Say what was not done, and end with the code for it."""
    for word in result["missing"]:
        click.echo(f"There is no job {printable(word)}.", err=True)
    for skip in result["skipped"]:
        about = f"Job {printable(skip['job'])} is {skip['state']}: not {done}"
        # A server of an earlier release gives no reason.
        told = skip.get("reason", "") not in ("", f"it is {skip['state']}")
        click.echo(f"{about}, {printable(skip['reason'])}." if told else f"{about}.", err=True)
    if result.get("skipped_more"):
        click.echo(f"{counted(result['skipped_more'], 'job')} more: not {done}.", err=True)
    if result["missing"]:
        raise click.exceptions.Exit(exits.NOT_FOUND)
    if result["skipped"]:
        raise click.exceptions.Exit(exits.FAILURE)


_add("retry", "retried", "Make waiting or dead jobs ready now.")
_add("kill", "killed", "Move live jobs to the dead set.", asks=True)
_add("cancel", "cancelled", "End live jobs, running ones too.", asks=True)
_add("delete", "deleted", "Delete waiting, ready or dead jobs for good.", asks=True)
