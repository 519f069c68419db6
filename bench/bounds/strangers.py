"""C11: connections that say nothing, as many as a server takes, and who is still let in."""

import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from bench.bounds.common import PATIENCE_S, memory, security
from bench.client import Client, Unexpected
from bench.findings import Finding, Setup, guarded
from bench.idle import allow_files
from bench.servers import Server, control_status, running, scratch, start_all
from franca.protocols.registry import PROTOCOLS
from tests.prove import hostile

SILENT = 10_300  # limits.connections_max, and some more
SERVED_MAX_S = 5.0
RETRY_S = 0.05
ANSWER_S = 2.0
SPARE_FILES = 300

TLS_FILES, TLS_SILENT = 1_024, 1_400
TLS_ASKED, TLS_ASK_EVERY_S = 20, 0.2


def strangers(setup: Setup) -> Iterator[Finding]:
    """Silent connections of each protocol in turn; then TLS handshakes that are never made."""
    silent = setup.sized(SILENT)
    allow_files(min(silent + SPARE_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for protocol in PROTOCOLS:
        with scratch(setup.directory) as path, running(start_all(path / "data")) as server:
            yield from guarded(f"silent-{protocol}", _shut_out(server, protocol, silent))
    with scratch(setup.directory) as directory:
        yield from _handshakes(directory)


def _shut_out(server: Server, protocol: str, count: int) -> Iterator[Finding]:
    name = f"silent-{protocol}"
    with Client(server.port) as before:
        silent = _silent(server.ports[protocol], count)
        served_s = {newcomer: _served_s(server, newcomer) for newcomer in PROTOCOLS}
        slowest = max(served_s, key=lambda newcomer: served_s[newcomer])
        more = f"connections={len(silent)} slowest={slowest}"
        yield Finding(name, "served_max_s", served_s[slowest], SERVED_MAX_S, more=more)
        yield Finding(name, "lost_before", not _is_there(before), 0)
        yield memory(name, server)
        for sock in silent:
            sock.close()


def _silent(port: int, count: int) -> list[socket.socket]:
    """As many connections as can be made; some may be closed again."""
    silent: list[socket.socket] = []
    for _ in range(count):
        try:
            silent.append(socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S))
        except OSError:
            break
    return silent


def _is_there(client: Client) -> bool:
    """Whether somebody who was there before can still push a job."""
    try:
        client.send(b'PUSH {"jid":"there-before","jobtype":"bench","queue":"q","args":[]}')
        return client.expect(b"+OK") != b""
    except (OSError, Unexpected):
        return False


# -- newcomers ------------------------------------------------------------------------------------


def _served_s(server: Server, protocol: str) -> float:
    """How long it takes until a newcomer that keeps trying is served."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        try:
            hostile.of(protocol).come(server.ports[protocol], ANSWER_S)
        except OSError:
            time.sleep(RETRY_S)
            continue
        break
    return time.monotonic() - began


# -- TLS ------------------------------------------------------------------------------------------


def _handshakes(directory: Path) -> Iterator[Finding]:
    """More connections than a server has descriptors, none of which begins its handshake."""
    secured = security(directory, has_tls=True)
    with running(start_all(directory / "data", *secured.flags, files=TLS_FILES)) as server:
        assert server.data is not None
        silent = _silent(server.port, TLS_SILENT)
        unanswered = 0
        for _ in range(TLS_ASKED):
            try:
                control_status(server.data / "control.sock", ANSWER_S)
            except (OSError, ValueError):
                unanswered += 1
            time.sleep(TLS_ASK_EVERY_S)
        more = f"of={TLS_ASKED} connections={len(silent)} files={TLS_FILES}"
        yield Finding("handshakes-tls", "status_unanswered", unanswered, 0, more=more)
        for sock in silent:
            sock.close()
