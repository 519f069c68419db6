"""Whoever pushes, whoever works: four libraries on each side, in every pair."""

import pytest

from tests.real.kit import KINDS, Stage, until_counts, url
from tests.support.server import Server

# What JSON can say and both languages read alike.
ARGS = [1, -2.5, "ü€😀 \u2028 </script>&", None, True, {"b": [1, {"a": []}], "": {}}, []]


@pytest.mark.parametrize("worker_kind", KINDS)
def test_a_worker_runs_the_jobs_of_every_producer(
    stage: Stage, worker_kind: str, server: Server
) -> None:
    address = url(server.port)
    worker = stage.worker(worker_kind, address)

    for kind in KINDS:
        stage.push(kind, address, f"from {kind}", "echo", kind, *ARGS)
        assert worker.ran(1) == {f"from {kind}": [kind, *ARGS]}, f"pushed by {kind}"
    until_counts(server.port, working=0, total_processed=len(KINDS), total_failures=0)
