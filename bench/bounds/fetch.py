"""C8: a few hundred large jobs wait, and somebody fetches one of them."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.bounds.common import (
    LARGE_BYTES,
    PATIENCE_S,
    RSS_MAX_LARGE_MB,
    RSS_MAX_MB,
    Security,
    memory,
    security,
)
from bench.client import Client, Unexpected
from bench.findings import Finding, Setup, guarded
from bench.servers import Server, running, scratch, start_all

FETCHED = 20  # by each peer, one after the other: what is supplied behind them counts too
HELD = 150
JID = re.compile(rb'"jid":"[^"]*"')
HEAD_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Variant:
    """So many jobs of a size for each peer, in a queue of its own."""

    name: str
    jobs: int = 700
    body_bytes: int = 4_000_000
    peers: int = 1
    has_tls: bool = False
    limit_mb: float = RSS_MAX_MB
    held: int = 0  # jobs that a worker takes and does not acknowledge


VARIANTS = (
    Variant("fetch"),
    Variant("fetch-tls", has_tls=True),
    Variant("fetch-held", held=HELD),
    Variant("fetch-four", jobs=200, peers=4),
    Variant("fetch-four-tls", jobs=200, peers=4, has_tls=True),
    Variant("fetch-64mib", 30, LARGE_BYTES - 1024, limit_mb=RSS_MAX_LARGE_MB),
    Variant("fetch-64mib-tls", 30, LARGE_BYTES - 1024, has_tls=True, limit_mb=RSS_MAX_LARGE_MB),
    Variant("fetch-64mib-four", 10, LARGE_BYTES - 1024, 4, limit_mb=RSS_MAX_LARGE_MB),
)


def fetch(setup: Setup) -> Iterator[Finding]:
    """Each variant: push, fetch, kill the server, fetch from its successor."""
    for variant in VARIANTS:
        with scratch(setup.directory) as directory:
            played = _played(variant, setup.sized(variant.jobs), directory)
            yield from guarded(variant.name, played)


def _played(variant: Variant, jobs: int, directory: Path) -> Iterator[Finding]:
    secured = security(directory, variant.has_tls)
    data = directory / "data"
    with running(start_all(data, *secured.flags)) as server:
        _at_once(variant, lambda peer: _push(server, secured, variant, peer, jobs))
        yield memory(f"{variant.name}-pushed", server, variant.limit_mb)
        _at_once(variant, lambda peer: _fetch(server, secured, peer, 1))
        yield memory(variant.name, server, variant.limit_mb)
    few = min(variant.held or FETCHED, jobs - 1)
    with running(start_all(data, *secured.flags)) as again:
        _at_once(variant, lambda peer: _fetch(again, secured, peer, few, not variant.held))
        yield memory(f"{variant.name}-restarted", again, variant.limit_mb)


def _at_once(variant: Variant, act: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(variant.peers) as pool:
        list(pool.map(act, range(variant.peers)))


def _push(server: Server, secured: Security, variant: Variant, peer: int, jobs: int) -> None:
    body = b"x" * variant.body_bytes
    with Client(server.port, tls=secured.context) as client:
        for number in range(jobs):
            client.send(
                b'PUSH {"jid":"large%d-%d","jobtype":"bench","queue":"large%d","args":["%s"]}'
                % (peer, number, peer, body)
            )
            client.expect(b"+OK")


def _fetch(
    server: Server, secured: Security, peer: int, count: int, acknowledges: bool = True
) -> None:
    with Client(server.port, f"large{peer}", tls=secured.context) as client:
        for number in range(count):
            job = _next(client, b"large%d" % peer)
            if job is None:
                raise Unexpected(f"job {number + 1} of {count} did not come")
            if acknowledges:
                client.send(b"ACK {%s}" % JID.findall(job[:HEAD_BYTES])[0])
                client.expect(b"+OK")


def _next(client: Client, queue: bytes) -> bytes | None:
    """A job; where memory is scarce it may come later than one FETCH waits."""
    deadline = time.monotonic() + PATIENCE_S
    while (job := client.fetch(queue)) is None and time.monotonic() < deadline:
        pass
    return job
