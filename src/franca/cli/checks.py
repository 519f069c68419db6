"""`franca compact`; and `franca doctor`: is everything in order for a server to run here?

Each check yields what it found; none of them changes anything:
no directory is made, no file of the store is created, no lock is left behind.
"""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import socket
import sqlite3
import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from franca.cli.output import printable
from franca.cli.settings import settings_flags
from franca.control import client
from franca.node import datadir, exits
from franca.node.settings import ConfigError, Settings, check_binds
from franca.values import Address

MIB = 1 << 20
LOW_DISK_BYTES = 1024 * MIB
SPARE_FILES = 64
SQLITE_MIN = (3, 35, 0)
NOT_BEFORE_S = 1_760_000_000
FUTURE_S = 300
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


@click.command()
@settings_flags
def compact(settings: Settings) -> None:
    """Rewrite the store without unused space, in place of the old file.

    The server must be stopped. A file that an earlier release made can give room back by itself
    from then on. Needs as much free room as the jobs take.
    """
    os.umask(0o077)
    if not os.path.exists(settings.data):
        raise click.ClickException(f"there is no {settings.data}")
    try:
        data = datadir.DataDir(Path(settings.data))
    except datadir.StoreBusy as error:
        click.echo(f"{error}: stop it first", err=True)
        raise click.exceptions.Exit(exits.DATA_IN_USE) from None
    try:
        if not os.path.exists(data.store_path):
            raise click.ClickException(f"there is no store in {settings.data}")
        before = os.path.getsize(data.store_path)
        data.compact()
    except datadir.StoreError as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(exits.DISK_FAILED) from None
    finally:
        data.close()
    click.echo(f"{before} bytes before, {os.path.getsize(data.store_path)} after")


class Finding(Struct, frozen=True):
    """One thing that was looked at: `ok`, `warn` or `fail`, and why."""

    name: str
    verdict: str
    text: str


Found = Iterator[tuple[str, str]]
"""What a check yields: `ok`, `warn` (it will run, but look at this) or `fail`, and why."""


def examine(settings: Settings) -> list[Finding]:
    """Every check, in the order in which a start would meet them."""
    running = _running(settings.data)
    checks = {
        "settings": _bind_policy(settings),
        "tls": _tls(settings),
        "data": _data(settings.data),
        "lock": _lock(settings.data, running),
        "disk": _disk(settings),
        "sqlite": _sqlite(),
        "clock": _clock(settings.data),
        "files": _files(settings),
        "server": _server(running),
    }
    if running is None:
        checks |= {"store": _store(settings.data), "port": _ports(settings)}
    return [Finding(name, *found) for name, check in checks.items() for found in check]


def _server(running: dict[str, object] | None) -> Found:
    if running is None:
        yield "ok", "not running"
        return
    lag = running.get("loop_lag_p99_ms")
    text = f"version {running.get('version')}, pid {running.get('pid')}, loop lag {lag} ms"
    if running.get("refusing_new"):
        yield "fail", f"{text}; it refuses new jobs for want of room"
    else:
        yield "ok", text


def _running(data: str) -> dict[str, object] | None:
    """What the server of this data directory says of itself, if there is one that answers."""
    try:
        status = client.call(data, "server.status", timeout_s=5.0)
        return msgspec.json.decode(status, type=dict[str, object])
    except (client.CannotConnect, client.TimedOut, client.Declined):
        return None


# -- settings ---------------------------------------------------------------------------------


def _bind_policy(settings: Settings) -> Found:
    try:
        check_binds(settings)
    except ConfigError as error:
        yield "fail", str(error)
    else:
        yield "ok", "read without errors"


def _tls(settings: Settings) -> Found:
    tls = settings.tls
    if not tls.certificate:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
    except (OSError, ssl.SSLError) as error:
        yield "fail", f"{tls.certificate}: {error}"
        return
    yield "ok", tls.certificate
    if os.stat(tls.key).st_mode & 0o077:
        yield "warn", f"{tls.key} can be read by others: chmod 600"


# -- the data directory -----------------------------------------------------------------------


def _data(data: str) -> Found:
    if not os.path.exists(data):
        parent = _existing_parent(data)
        if os.access(parent, os.W_OK | os.X_OK):
            yield "ok", f"{data} will be made"
        else:
            yield "fail", f"{data} cannot be made: {parent} is not ours to write"
        return
    about = os.stat(data)
    if not stat.S_ISDIR(about.st_mode):
        yield "fail", f"{data} is not a directory"
    elif not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield "fail", f"{data} is not ours to read and write"
    elif about.st_uid != os.geteuid():
        yield "warn", f"{data} belongs to another user; run this as the server's user"
    elif about.st_mode & 0o077:
        yield "warn", f"{data} is open to others: chmod 700"
    else:
        yield "ok", data
    if os.path.exists(os.path.join(data, datadir.SUSPECT)):
        store = os.path.join(data, datadir.STORE)
        size = os.path.getsize(store) if os.path.exists(store) else 0
        free = shutil.disk_usage(data).free
        room = f"({size // MIB} MiB; {free // MIB} MiB free)"
        copies = f"the next start copies the store into a new file {room}"
        yield "warn", f"a write or sync failed; {copies}, or writes it over where it is"


def _existing_parent(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _lock(data: str, running: dict[str, object] | None) -> Found:
    held = _is_held(os.path.join(data, datadir.LOCK))
    if held and running is None:
        yield "fail", "held by a server that does not answer on its control socket"
    else:
        yield "ok", "held by the running server" if held else "free"


def _is_held(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _disk(settings: Settings) -> Found:
    free = shutil.disk_usage(_existing_parent(settings.data)).free
    text = f"{free // MIB} MiB free"
    if free < settings.limits.disk_reserve_bytes:
        yield "fail", f"{text}: new jobs are refused below the reserve"
    elif free < LOW_DISK_BYTES:
        yield "warn", text
    else:
        yield "ok", text


# -- the machine ------------------------------------------------------------------------------


def _sqlite() -> Found:
    text = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        yield "fail", f"{text} is too old: {'.'.join(map(str, SQLITE_MIN))} or newer"
    elif sqlite3.threadsafety == 0:
        yield "fail", f"{text} was built without threads"
    else:
        yield "ok", text


def _clock(data: str) -> Found:
    now = time.time()
    if now < NOT_BEFORE_S:
        yield "fail", "the machine's clock is years behind"
        return
    try:
        ahead = max(entry.stat().st_mtime for entry in os.scandir(data)) - now
    except (OSError, ValueError):
        ahead = 0.0
    if ahead > FUTURE_S:
        yield "warn", f"files of the data directory are {ahead:.0f} s ahead of the clock"
    else:
        yield "ok", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def _files(settings: Settings) -> Found:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.limits.connections_max + SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        yield "warn", f"{hard} open files allowed; {wanted} for all connections"
    else:
        yield "ok", f"{'any number of' if hard == resource.RLIM_INFINITY else hard} allowed"


# -- only while no server runs ----------------------------------------------------------------


def _store(data: str) -> Found:
    path = os.path.join(data, datadir.STORE)
    if not os.path.exists(path):
        yield "ok", "none yet"
        return
    logged = os.path.exists(f"{path}-wal")
    if logged and os.stat(path).st_uid != os.geteuid():
        # SQLite would make a shared-memory file of ours beside it, and lock its owner out.
        yield "warn", "not looked at: it has a log and belongs to another user"
        return
    try:
        # Without a log nothing is left to read but the file, and nothing need be created for it.
        mode = "mode=ro" if logged else "immutable=1"
        database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?{mode}", uri=True)
        try:
            verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            held, tail = database.execute("SELECT held_rows, tail_rows FROM totals").fetchone()
        finally:
            database.close()
    except sqlite3.Error as error:
        yield "fail", f"{path}: {error}"
        return
    if verdict == "ok":
        yield "ok", f"{path}: whole, {held + tail} jobs"
        if not datadir.gives_room_back(path):
            old = f"{path} ({os.path.getsize(path) // MIB} MiB) was made by an earlier release"
            remedy = "'franca compact', with the server stopped, mends that"
            yield "warn", f"{old} and keeps unused room: {remedy}"
    else:
        yield "fail", f"{path}: {verdict}"


def _ports(settings: Settings) -> Found:
    """As `Listeners.open` does: what nobody asked for is left out, if anything else is left."""
    every = [
        (name, address, settings.is_default(f"{name}.listen"), _why_taken(address))
        for name, addresses in settings.listeners.items()
        for address in addresses
    ]
    has_one = any(
        not (why or (default and (one.path or name == "web"))) for name, one, default, why in every
    )
    for protocol, address, is_default, reason in every:
        if not reason:
            yield "ok", f"{protocol} {address} is free"
        elif has_one and is_default:
            yield "warn", f"{protocol} {address}: {reason}; it will not be listened on"
        else:
            yield "fail", f"{protocol} {address}: {reason}"


def _why_taken(address: Address) -> str:
    """Why a server could not listen there, or nothing."""
    try:
        if address.path:
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(1.0)
                peer.connect(address.path)
            return "somebody listens there"
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address.host, address.port))
    except (ConnectionRefusedError, FileNotFoundError):
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""
