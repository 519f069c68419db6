"""A worker of PyPI's `faktory`. Its jobs run in threads, or in processes when `forks` is asked."""

import json
import sys

import faktory

from tests.real.programs.jobs import say, work

if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    who = {"faktory": spec["url"], "worker_id": spec["wid"], "use_threads": not spec.get("forks")}
    worker = faktory.Worker(queues=spec["queues"], concurrency=spec.get("concurrency", 1), **who)
    # Its first beat comes after twice this time, so the first one is asked for.
    worker.send_heartbeat_every = spec["beat_s"]
    worker.faktory.connect(worker_id=worker.worker_id)
    worker.heartbeat()
    work(spec, worker, worker.heartbeat)
    say("stopped", terminated=worker.is_disconnecting)
