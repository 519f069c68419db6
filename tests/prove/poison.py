"""T26: a job that takes every worker with it is given up, and the reason can be seen.

Each worker that fetches the job vanishes without a word, and its lease runs out (the server's clock is moved,
see `wall_clock.py`). The server is killed now and then, so that the count must be on the disk. After ten
deliveries the job is dead and is never given out again; a healthy job beside it is not touched.
"""

from tests.prove.harness import Options, Result
from tests.prove.observe import show
from tests.prove.wall_clock import TWEAK, WallClock
from tests.support.faktory import Faktory, job

_DELIVERIES_MAX = 10
_TRIES = _DELIVERIES_MAX + 3
_JID, _HEALTHY = "poison-000001", "healthy-000001"
_LEASE_S = 60
_WAIT_S = 6 * 3600  # more than the longest wait before another try
_KILLS = 3


def run(options: Options) -> Result:
    wall_clock = WallClock(options.home / "clock")
    kills = options.rng.sample(range(1, _DELIVERIES_MAX), _KILLS)
    deliveries = 0
    with options.server("data", TWEAK, env=wall_clock.environment) as server:
        with Faktory(server.port).hello() as producer:
            producer.push(job(_JID, queue="poison", reserve_for=_LEASE_S, retry=100))
            producer.push(job(_HEALTHY, queue="healthy", reserve_for=_LEASE_S))
        for turn in range(_TRIES):
            with Faktory(server.port).hello(wid=f"victim-{turn}") as worker:
                deliveries += worker.fetch("poison") is not None
            wall_clock.pass_time(_LEASE_S + 2)
            if turn in kills:
                server.restart()
            wall_clock.pass_time(_WAIT_S)
        job_of = show(server, _JID)
        with Faktory(server.port).hello(wid="healthy") as client:
            sets = client.info()["faktory"]["sets"]
            healthy = client.fetch("healthy") is not None
    dead = job_of["state"] == "dead" and sets["dead"] == 1
    reason = str(job_of["error"]).partition(":")[0]
    left = sets["working"] + sets["retries"]
    counted = deliveries == job_of["losses"] == _DELIVERIES_MAX
    return Result(
        counted and dead and reason == "LeaseExpired" and healthy and not left,
        f"deliveries={deliveries} dead={dead:d} reason={reason} unclean={job_of['losses']}"
        f" healthy={healthy:d} kills={_KILLS}",
    )
