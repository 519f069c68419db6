"""A worker of PyPI's `faktory`. Its jobs run in threads, or in processes when `forks` is asked."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import faktory

from tests.real.programs.jobs import JOBS, say, until_go


def main() -> None:
    spec = json.loads(sys.argv[1])
    worker = faktory.Worker(
        faktory=spec["url"],
        queues=spec["queues"],
        worker_id=spec["wid"],
        concurrency=spec.get("concurrency", 1),
        use_threads=not spec.get("forks"),
    )
    # Its first beat comes after twice this time, so the first one is asked for.
    worker.send_heartbeat_every = spec["beat_s"]
    worker.faktory.connect(worker_id=worker.worker_id)
    worker.heartbeat()
    for name, run in JOBS.items():
        worker.register(name, run, bind=True)
    say("ready")
    if spec.get("hold"):
        for _ in until_go():
            worker.heartbeat()
            say("beat")
    with suppress(SystemExit):  # it always ends so, however it was asked
        worker.run()
    say("stopped", terminated=worker.is_disconnecting)


if __name__ == "__main__":
    main()
