"""Whoever pushes, whoever works: four libraries on each side, in every pair; and what all of them can do."""

import hashlib
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from tests.real.kit import KINDS, PYTHON_KINDS, Peers, counts, until_counts, url
from tests.support.server import Server
from tests.support.tls import secured

PASSWORD = "sesame-123"

# What JSON can say and both languages read alike.
ARGS = [1, -2.5, "ü€😀 \u2028 </script>&", None, True, {"b": [1, {"a": []}], "": {}}, []]


@pytest.mark.parametrize("worker_kind", KINDS)
def test_a_worker_runs_the_jobs_of_every_producer(
    peers: Peers, worker_kind: str, server: Server
) -> None:
    address = url(server.port)
    worker = peers.worker(worker_kind, address)

    for kind in KINDS:
        peers.push(kind, address, f"from {kind}", "echo", kind, *ARGS)
        assert worker.ran(1) == {f"from {kind}": [kind, *ARGS]}, f"pushed by {kind}"
    until_counts(server.port, working=0, total_processed=len(KINDS), total_failures=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_for_later_waits_for_its_time(peers: Peers, kind: str, server: Server) -> None:
    worker = peers.worker(kind, url(server.port))
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    peers.push(kind, url(server.port), "job-later", "echo", at=due.isoformat())
    assert counts(server.port)["scheduled"] == 1
    worker.ran(1)
    assert datetime.now(UTC) >= due
    until_counts(server.port, scheduled=0, total_processed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_big_job_goes_both_ways(peers: Peers, kind: str, server: Server) -> None:
    worker = peers.worker(kind, url(server.port))
    text = "größer " * {"pyfaktory": 60_000, "faktory": 150_000}.get(kind, 300_000)
    peers.push(kind, url(server.port), "job-big-1", "measure", text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert worker.ran(1) == {"job-big-1": [len(text), digest]}
    until_counts(server.port, working=0, total_processed=1)


@pytest.mark.parametrize("kind", PYTHON_KINDS)
def test_a_password_lets_producers_and_workers_in(peers: Peers, kind: str) -> None:
    address = url(peers.server(password=PASSWORD).port, PASSWORD)
    worker = peers.worker(kind, address)
    peers.push(kind, address, "job-secret", "echo")
    assert list(worker.ran(1)) == ["job-secret"]


@pytest.mark.parametrize(("kind", "password"), [("pyfaktory", PASSWORD), ("faktory", "")])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_jobs_pass_through_tls(peers: Peers, ca: trustme.CA, kind: str, password: str) -> None:
    if kind == "faktory" and not hasattr(ssl, "wrap_socket"):
        pytest.skip("it needs what Python 3.12 removed")
    server = peers.server(args=secured(peers.folder, ca).flags, password=password)
    address = url(server.port, password, scheme="tcp+tls")
    worker = peers.worker(kind, address)
    text = "x" * 100_000  # several records
    peers.push(kind, address, "job-hidden", "measure", text)
    assert worker.ran(1) == {"job-hidden": [100_000, hashlib.sha256(text.encode()).hexdigest()]}
