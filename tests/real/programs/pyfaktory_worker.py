"""A consumer of pyfaktory. It forks: its jobs run in a pool of processes."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from pyfaktory import Client, Consumer

from tests.real.programs.jobs import JOBS, say, until_go


def main() -> None:
    spec = json.loads(sys.argv[1])
    client = Client(
        faktory_url=spec["url"],
        role="consumer",
        worker_id=spec["wid"],
        beat_period=spec["beat_s"],
    )
    client.connect()
    consumer = Consumer(
        client=client, queues=spec["queues"], concurrency=spec.get("concurrency", 1)
    )
    for name, run in JOBS.items():
        consumer.register(name, run, bind=True)
    say("ready")
    if spec.get("hold"):
        for _ in until_go():
            client._beat()
            say("beat")
    with suppress(SystemExit):  # it always ends so, however it was asked
        consumer.run()
    say("stopped", terminated=client.state.name == "TERMINATING")
    with suppress(OSError):
        client.disconnect()
    os._exit(0)  # its heartbeat would sleep through the rest of its period first


if __name__ == "__main__":
    main()
