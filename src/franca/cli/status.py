"""`franca status`: how the server is, in a few lines; and `franca stop`."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from msgspec import Raw

from franca.cli.output import age, counted, printable, rate, span
from franca.cli.remote import Remote, remote
from franca.cli.terminal import paint

STATES = ("scheduled", "retrying", "ready", "running", "done", "dead", "cancelled")
LAG_MS = 200
"""A loop that is later than this keeps everybody waiting, and is told of."""


@click.command()
@remote
def status(server: Remote) -> None:
    """Show the state of the running server and what needs attention."""
    whole = msgspec.json.decode(server.fetch("server.status"), type=dict[str, Raw])
    # An earlier release that is still running knows no overview.
    overview = server.fetch_if_known("overview")
    if overview is not None:
        seen = msgspec.json.decode(overview, type=dict[str, Raw])
        whole |= {name: seen[name] for name in ("counts", "notices") if name in seen}
    if server.as_json:
        server.show(whole)
        return
    found = {name: msgspec.json.decode(value) for name, value in whole.items()}
    for line in status_lines(found):
        click.echo(line)


def status_lines(found: dict[str, Any]) -> list[str]:
    """What people want to know of a server: what it is, where, what it has to do, what is wrong."""
    since = f"up {span(int(found.get('uptime_s', 0)) * 1000)}"
    lines = [f"Franca {found.get('version')}, {since}, pid {found.get('pid')}"]
    if "data" in found:
        lines.append(f"  data       {printable(str(found['data']))} ({_store(found)})")
    for listener in found.get("listeners", ()):
        protocol, address = str(listener["protocol"]), str(listener["address"])
        hint = listener.get("client") or ""
        lines.append(f"  {protocol:<10} {printable(address):<24} {printable(hint)}".rstrip())
    if "counts" in found:
        lines.append(f"  jobs       {counts_line(found['counts'])}")
    if "connections" in found:
        peers = counted(int(found["connections"]), "connection")
        lines.append(f"  load       {peers}, {found['rss_mb']} MB of memory")
    wrong = [*_faults(found), *map(notice_line, found.get("notices", ()))]
    lines += wrong or [paint("  all is well", "green")]
    return lines


def _store(found: dict[str, Any]) -> str:
    if found.get("store") == "memory:":
        return "in memory: nothing survives a restart"
    return str(found.get("store", "")).rstrip(":")


def counts_line(counts: dict[str, int]) -> str:
    """How many jobs are in each state, of those in which there are any."""
    known = [f"{counts[state]:,} {state}" for state in STATES if counts.get(state)]
    return ", ".join(known) or "none"


def _faults(found: dict[str, Any]) -> list[str]:
    """What the server says of itself that is not as it should be."""
    told: list[str] = []
    if found.get("refusing_new"):
        told.append(_marked("bad", "the disk has no room: new jobs are refused"))
    lag = found.get("loop_lag_p99_ms") or 0
    if lag > LAG_MS:
        told.append(_marked("warn", f"the server answers late: its loop lags {lag:.0f} ms"))
    return told


def notice_line(notice: dict[str, Any]) -> str:
    """One notice of the server as a sentence."""
    facts = notice.get("facts") or {}
    queue = printable(str(notice.get("queue", "")))
    sentence = {
        "behind": f"queue {queue} falls behind: {facts.get('ready', 0):,} ready, "
        f"in {rate(facts.get('in', 0.0))}/s, out {rate(facts.get('out', 0.0))}/s, "
        f"the oldest waits for {span(facts.get('oldest_ms', 0))}",
        "errors": f"{printable(str(facts.get('error', '')))}: {facts.get('dead', 0):,} dead, "
        f"{facts.get('retrying', 0):,} retrying",
        "stalled": f"worker {printable(str(notice.get('worker', '')))} has asked for no job for "
        f"{age(facts.get('fetched_at'))}",
        "paused": f"queue {queue} is paused, {facts.get('ready', 0):,} jobs are ready in it",
        "schedule": f"schedule {printable(str(notice.get('schedule', '')))} fails",
    }.get(str(notice.get("what")))
    return _marked(str(notice.get("level")), sentence or printable(str(notice.get("what"))))


def _marked(level: str, text: str) -> str:
    mark = "FAIL" if level == "bad" else "warn"
    return f"  {paint(mark, 'red' if level == 'bad' else 'yellow')}       {text}"


@click.command()
@remote
def stop(server: Remote) -> None:
    """Ask the running server to stop gracefully."""
    server.ask("server.stop")
    server.say("stopping", err=True)
