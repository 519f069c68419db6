"""`franca doctor`: is everything in order for a server to run here? With or without one running."""

from __future__ import annotations

import click
import msgspec

from franca.cli import exits
from franca.cli.checks import examine
from franca.cli.output import printable
from franca.cli.settings import settings_flags
from franca.node.settings import Settings

_SIGNS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@settings_flags
def doctor(settings: Settings, as_json: bool) -> None:
    """Check configuration, data directory, disk, store, ports and clock."""
    findings = examine(settings)
    failed = any(finding.verdict == "fail" for finding in findings)
    if as_json:
        whole = msgspec.json.encode({"ok": not failed, "findings": findings})
        click.echo(msgspec.json.format(whole, indent=2).decode())
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            text = printable(finding.text)
            click.echo(f"{_SIGNS[finding.verdict]}  {finding.name.ljust(width)}  {text}")
    raise click.exceptions.Exit(exits.FAILURE if failed else exits.OK)
