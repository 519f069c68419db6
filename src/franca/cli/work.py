"""`franca work`: be a worker from a shell, one job at a time.

Whoever is given a job is given a token with it, and says it in each report: a report with the token
of a lease that has ended is refused.
"""

from __future__ import annotations

import click
from msgspec import Raw, Struct

from franca.cli.complete import queue_names
from franca.cli.group import Group
from franca.cli.output import printable
from franca.cli.push import value
from franca.cli.remote import Failed, Remote, duration, remote
from franca.node import exits

GRACE_MS = 1_000
"""The server is let answer for so much longer than it is asked to wait for a job."""


class LeasedJob(Struct):
    """What is printed of a job; its arguments are left as they are."""

    id: int
    args: Raw


class Leased(Struct):
    """A job and its token, or none of both."""

    job: LeasedJob | None
    token: str | None


@click.group(cls=Group)
def work() -> None:
    """Be a worker from a script: lease jobs and report on them.

    \b
      read -r job token args < <(franca work lease mail --wait 30s)
      ./send-mail "$args" && franca work ack "$job" "$token"
    """


@work.command()
@click.argument("queues", nargs=-1, required=True, shell_complete=queue_names)
@click.option("--wait", "wait_ms", type=duration, default=0, help="Wait this long for a job.")
@click.option("--lease", "lease_ms", type=duration, default=None, help="Time for the run.")
@click.option("--worker", default="", help="The name of this worker.")
@remote
def lease(
    server: Remote, queues: tuple[str, ...], wait_ms: int, lease_ms: int | None, worker: str
) -> None:
    """Lease the next job of QUEUES; prints its id, a token and its arguments on one line."""
    params: dict[str, object] = {"queues": queues, "wait_ms": wait_ms, "worker": worker}
    if lease_ms is not None:
        params["lease_ms"] = lease_ms
    server.wait_longer(wait_ms + GRACE_MS)
    leased = server.ask("work.lease", params, Leased)
    if leased.job is None:
        raise Failed("there is no job", exits.NOT_FOUND)
    args = bytes(leased.job.args).decode()
    server.say(f"{leased.job.id} {leased.token} {printable(args)}")


@work.command()
@click.argument("job")
@click.argument("token")
@click.argument("result", required=False)
@remote
def ack(server: Remote, job: str, token: str, result: str | None) -> None:
    """Acknowledge a job as done. RESULT is JSON if it can be read as JSON, and a text otherwise."""
    params: dict[str, object] = {"job": job, "token": token}
    if result is not None:
        params["result"] = value(result)
    server.ask("work.ack", params)


@work.command()
@click.argument("job")
@click.argument("token")
@click.argument("text", default="")
@click.option("--error", default="Failed", show_default=True, help="The kind of error.")
@remote
def fail(server: Remote, job: str, token: str, text: str, error: str) -> None:
    """Report a failed run; whether it is retried is its submitter's choice."""
    server.ask("work.fail", {"job": job, "token": token, "error": error, "text": text})


@work.command()
@click.argument("job")
@click.argument("token")
@click.option("--lease", "lease_ms", type=duration, default=None, help="Time from now.")
@remote
def heartbeat(server: Remote, job: str, token: str, lease_ms: int | None) -> None:
    """Extend the lease of a job that is still running."""
    params: dict[str, object] = {"job": job, "token": token}
    if lease_ms is not None:
        params["lease_ms"] = lease_ms
    server.ask("work.heartbeat", params)


@work.command()
@click.argument("job")
@click.argument("token")
@click.argument("n", type=float, required=False)
@click.argument("of", type=float, required=False)
@click.option("--text", default="", help="What it is doing.")
@remote
def progress(
    server: Remote, job: str, token: str, n: float | None, of: float | None, text: str
) -> None:
    """Report the progress of a run: N of OF."""
    params: dict[str, object] = {"job": job, "token": token, "text": text}
    params |= {name: number for name, number in (("n", n), ("of", of)) if number is not None}
    server.ask("work.progress", params)
