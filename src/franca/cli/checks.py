"""What the doctor looks at. Each check yields what it found; none of them changes anything:
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

import msgspec
from msgspec import Struct

from franca.control import client
from franca.control.values import Address
from franca.node.datadir import LOCK, STORE, SUSPECT, keeps_unused_room
from franca.node.settings import ConfigError, Settings, check_binds

MIB = 1 << 20
LOW_DISK_BYTES = 1024 * MIB
SPARE_FILES = 64
SQLITE_MIN = (3, 35, 0)
NOT_BEFORE_S = 1_760_000_000
FUTURE_S = 300


class Finding(Struct, frozen=True):
    """One thing that was looked at: `ok`, `warn` or `fail`, and why."""

    name: str
    verdict: str
    text: str


def ok(name: str, text: str) -> Finding:
    """In order."""
    return Finding(name, "ok", text)


def warn(name: str, text: str) -> Finding:
    """It will run, but look at this."""
    return Finding(name, "warn", text)


def fail(name: str, text: str) -> Finding:
    """It will not run, or not keep its promises."""
    return Finding(name, "fail", text)


def examine(settings: Settings) -> list[Finding]:
    """Every check, in the order in which a start would meet them."""
    running = _running(settings.data)
    findings = [
        *_bind_policy(settings),
        *_tls(settings),
        *_data(settings.data),
        *_lock(settings.data, running),
        *_disk(settings),
        *_sqlite(),
        *_clock(settings.data),
        *_files(settings),
    ]
    if running is not None:
        lag = running.get("loop_lag_p99_ms")
        text = f"version {running.get('version')}, pid {running.get('pid')}, loop lag {lag} ms"
        refusing = bool(running.get("refusing_new"))
        full = "; it refuses new jobs for want of room"
        return [*findings, fail("server", text + full) if refusing else ok("server", text)]
    findings.append(ok("server", "not running"))
    return [*findings, *_store(settings.data), *_ports(settings)]


def _running(data: str) -> dict[str, object] | None:
    """What the server of this data directory says of itself, if there is one that answers."""
    try:
        return msgspec.json.decode(
            client.call(data, "server.status", timeout_s=5.0), type=dict[str, object]
        )
    except (client.CannotConnect, client.TimedOut, client.Declined):
        return None


# -- settings ---------------------------------------------------------------------------------


def _bind_policy(settings: Settings) -> Iterator[Finding]:
    try:
        check_binds(settings)
    except ConfigError as error:
        yield fail("settings", str(error))
    else:
        yield ok("settings", "read without errors")


def _tls(settings: Settings) -> Iterator[Finding]:
    tls = settings.tls
    if not tls.certificate:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca:
            context.load_verify_locations(tls.client_ca)
    except (OSError, ssl.SSLError) as error:
        yield fail("tls", f"{tls.certificate}: {error}")
        return
    yield ok("tls", tls.certificate)
    if os.stat(tls.key).st_mode & 0o077:
        yield warn("tls", f"{tls.key} can be read by others: chmod 600")


# -- the data directory -----------------------------------------------------------------------


def _data(data: str) -> Iterator[Finding]:
    if not os.path.exists(data):
        parent = _existing_parent(data)
        if os.access(parent, os.W_OK | os.X_OK):
            yield ok("data", f"{data} will be made")
        else:
            yield fail("data", f"{data} cannot be made: {parent} is not ours to write")
        return
    about = os.stat(data)
    if not stat.S_ISDIR(about.st_mode):
        yield fail("data", f"{data} is not a directory")
    elif not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield fail("data", f"{data} is not ours to read and write")
    elif about.st_uid != os.geteuid():
        yield warn("data", f"{data} belongs to another user; run this as the server's user")
    elif about.st_mode & 0o077:
        yield warn("data", f"{data} is open to others: chmod 700")
    else:
        yield ok("data", data)
    if os.path.exists(os.path.join(data, SUSPECT)):
        store = os.path.join(data, STORE)
        size = os.path.getsize(store) if os.path.exists(store) else 0
        free = shutil.disk_usage(data).free
        yield warn(
            "data",
            "a write or sync failed; the next start copies the store into a new file "
            f"({size // MIB} MiB; {free // MIB} MiB free), or writes it over where it is",
        )


def _existing_parent(path: str) -> str:
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _lock(data: str, running: dict[str, object] | None) -> Iterator[Finding]:
    held = _is_held(os.path.join(data, LOCK))
    if held and running is None:
        yield fail("lock", "held by a server that does not answer on its control socket")
    elif held:
        yield ok("lock", "held by the running server")
    else:
        yield ok("lock", "free")


def _is_held(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _disk(settings: Settings) -> Iterator[Finding]:
    free = shutil.disk_usage(_existing_parent(settings.data)).free
    text = f"{free // MIB} MiB free"
    if free < settings.limits.disk_reserve_bytes:
        yield fail("disk", f"{text}: new jobs are refused below the reserve")
    elif free < LOW_DISK_BYTES:
        yield warn("disk", text)
    else:
        yield ok("disk", text)


# -- the machine ------------------------------------------------------------------------------


def _sqlite() -> Iterator[Finding]:
    text = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        wanted = ".".join(str(part) for part in SQLITE_MIN)
        yield fail("sqlite", f"{text} is too old: {wanted} or newer")
    elif sqlite3.threadsafety == 0:
        yield fail("sqlite", f"{text} was built without threads")
    else:
        yield ok("sqlite", text)


def _clock(data: str) -> Iterator[Finding]:
    now = time.time()
    if now < NOT_BEFORE_S:
        yield fail("clock", "the machine's clock is years behind")
        return
    try:
        ahead = max(entry.stat().st_mtime for entry in os.scandir(data)) - now
    except (OSError, ValueError):
        ahead = 0.0
    if ahead > FUTURE_S:
        yield warn("clock", f"files of the data directory are {ahead:.0f} s ahead of the clock")
    else:
        yield ok("clock", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)))


def _files(settings: Settings) -> Iterator[Finding]:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.limits.connections_max + SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        yield warn("files", f"{hard} open files allowed; {wanted} for all connections")
    else:
        yield ok("files", f"{'any number of' if hard == resource.RLIM_INFINITY else hard} allowed")


# -- only while no server runs ----------------------------------------------------------------


def _store(data: str) -> Iterator[Finding]:
    path = os.path.join(data, STORE)
    if not os.path.exists(path):
        yield ok("store", "none yet")
        return
    logged = os.path.exists(f"{path}-wal")
    if logged and os.stat(path).st_uid != os.geteuid():
        # SQLite would make a shared-memory file of ours beside it, and lock its owner out.
        yield warn("store", "not looked at: it has a log and belongs to another user")
        return
    try:
        # Without a log nothing is left to read but the file, and nothing need be created for it.
        mode = "mode=ro" if logged else "immutable=1"
        database = sqlite3.connect(f"file:{_quoted(path)}?{mode}", uri=True)
        try:
            verdict = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            held, tail = database.execute("SELECT held_rows, tail_rows FROM totals").fetchone()
        finally:
            database.close()
    except sqlite3.Error as error:
        yield fail("store", f"{path}: {error}")
        return
    if verdict == "ok":
        yield ok("store", f"{path}: whole, {held + tail} jobs")
        if keeps_unused_room(path):
            size = os.path.getsize(path) // MIB
            yield warn(
                "store",
                f"{path} ({size} MiB) was made by an earlier release and keeps unused room: "
                "'franca compact', with the server stopped, mends that",
            )
    else:
        yield fail("store", f"{path}: {verdict}")


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _ports(settings: Settings) -> Iterator[Finding]:
    """A server does without a port of the defaults that is taken, unless it would have none."""
    by_default = {row.key for row in settings.shown if row.source == "default"}
    every = [(name, one) for name, ones in settings.listeners.items() for one in ones]
    reasons = [_why_taken(address) for _, address in every]
    has_one = any(not why and not one.path for (_, one), why in zip(every, reasons, strict=True))
    for (protocol, address), reason in zip(every, reasons, strict=True):
        if not reason:
            yield ok("port", f"{protocol} {address} is free")
        elif has_one and f"{protocol}.listen" in by_default:
            yield warn("port", f"{protocol} {address}: {reason}; it will not be listened on")
        else:
            yield fail("port", f"{protocol} {address}: {reason}")


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
