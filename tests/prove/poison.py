"""T26: a job that takes every worker with it is given up, and the reason can be seen.

Each worker that fetches the job vanishes without a word, and its lease runs out (the server's clock is moved,
see `hands.py`). The server is killed now and then, so that the count must be on the disk. After ten
deliveries the job is dead and is never given out again; a healthy job beside it is not touched.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

from tests.prove.hands import TWEAK, Hands
from tests.prove.looking import show
from tests.prove.options import Options
from tests.support.faktory import Faktory, job
from tests.support.server import Server

NAME = "poison"
MUTANTS: tuple[str, ...] = ("no-limit",)

_DELIVERIES_MAX = 10
_TRIES = _DELIVERIES_MAX + 3
_JID, _HEALTHY = "poison-000001", "healthy-000001"
_LEASE_S = 60
_WAIT_S = 6 * 3600  # more than the longest wait before another try
_KILLS = 3


def run(options: Options) -> bool:
    began = time.monotonic()
    rng = Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="franca-poison-") as scratch:
        hands = Hands(Path(scratch) / "hands")
        server = Server(
            Path(scratch) / "data", env=hands.environment, argv_prefix=options.variant(TWEAK)
        )
        with server:
            deliveries = _poison(server, hands, rng)
            job_of = show(server, _JID)
            with Faktory(server.port) as client:
                client.hello(wid="healthy")
                sets = client.info()["faktory"]["sets"]
                healthy = client.fetch("healthy") is not None
    dead = int(job_of["state"] == "dead" and sets["dead"] == 1)
    reason = str(job_of["error"]).partition(":")[0]
    print(
        f"T26 {NAME}: deliveries={deliveries} dead={dead} reason={reason}"
        f" unclean={job_of['losses']} healthy={healthy:d} kills={_KILLS}"
        f" seconds={time.monotonic() - began:.0f}"
    )
    clean = (dead, reason, healthy, sets["working"], sets["retries"]) == (
        1, "LeaseExpired", True, 0, 0,
    )  # fmt: skip
    return deliveries == _DELIVERIES_MAX and job_of["losses"] == _DELIVERIES_MAX and clean


def _poison(server: Server, hands: Hands, rng: Random) -> int:
    """Let one worker after the other die of the job; how often it was given out."""
    with Faktory(server.port) as producer:
        producer.hello()
        producer.push(job(_JID, queue="poison", reserve_for=_LEASE_S, retry=100))
        producer.push(job(_HEALTHY, queue="healthy", reserve_for=_LEASE_S))
    kills = rng.sample(range(1, _DELIVERIES_MAX), _KILLS)
    deliveries = 0
    for turn in range(_TRIES):
        with Faktory(server.port) as worker:
            worker.hello(wid=f"victim-{turn}")
            deliveries += worker.fetch("poison") is not None
        hands.pass_time(_LEASE_S + 2)
        if turn in kills:
            server.restart()
        hands.pass_time(_WAIT_S)
    return deliveries
