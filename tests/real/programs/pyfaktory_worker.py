"""A consumer of pyfaktory. It forks: its jobs run in a pool of processes."""

import json
import os
import sys
from contextlib import suppress

from pyfaktory import Client, Consumer

from tests.real.programs.jobs import say, work

if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    who = {"worker_id": spec["wid"], "beat_period": spec["beat_s"]}
    client = Client(faktory_url=spec["url"], role="consumer", **who)
    client.connect()
    consumer = Consumer(client, queues=spec["queues"], concurrency=spec.get("concurrency", 1))
    work(spec, consumer, client._beat)
    say("stopped", terminated=client.state.name == "TERMINATING")
    with suppress(OSError):
        client.disconnect()
    os._exit(0)  # its heartbeat would sleep through the rest of its period first
