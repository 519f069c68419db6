"""Workers of three protocols on their unmodified libraries: `python -m tests.browser.work SPEC`.

A job has a number as its first argument: for how many milliseconds it works, or, below zero, that it
fails. They tell what they run on standard output.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gear
import greenstalk
import pyfaktory

HOST = "127.0.0.1"
STEPS = 10
"""In which a job of Gearman tells how far it is."""


class CardDeclined(Exception):
    """What billing knows too well."""


def say(event: str, **facts: object) -> None:
    """One line on standard output, in one write: several processes share it."""
    os.write(1, json.dumps({"event": event, **facts}).encode() + b"\n")


def charge(number: int) -> None:
    """Work for so long, or do not get through."""
    if number < 0:
        raise CardDeclined(f"insufficient funds for order {-number}")
    time.sleep(number / 1000)


def ran(jid: str, first: int | str = 0, *_: object) -> None:
    """A job of Faktory; one of another protocol has all of its text as its only argument."""
    number = json.loads(first)[0] if isinstance(first, str) else first
    say("ran", jid=jid, number=number)
    charge(number)


def faktory(spec: dict[str, Any]) -> None:
    """A consumer of pyfaktory."""
    address = f"tcp://{HOST}:{spec['port']}"
    client = pyfaktory.Client(address, role="consumer", worker_id=spec["name"], labels=["python"])
    client.connect()
    consumer = pyfaktory.Consumer(client, queues=spec["queues"], concurrency=spec["slots"])
    for name in spec["types"]:
        consumer.register(name, ran, bind=True)
    say("ready")
    consumer.run()


def gearman(spec: dict[str, Any]) -> None:
    """A worker of gear."""
    worker = gear.Worker(spec["name"])
    worker.addServer(HOST, spec["port"])
    worker.waitForServer()
    for name in spec["queues"]:
        worker.registerFunction(name)
    say("ready")
    while True:
        job = worker.getJob()
        number = json.loads(job.arguments)[0]
        say("ran", number=number)
        try:
            for step in range(STEPS):
                job.sendWorkStatus(step, STEPS)
                charge(number // STEPS)
            job.sendWorkComplete(b"%d ms" % number)
        except CardDeclined as error:
            job.sendWorkException(f"{type(error).__name__}: {error}".encode())


def beanstalkd(spec: dict[str, Any]) -> None:
    """A consumer of greenstalk."""
    with greenstalk.Client((HOST, spec["port"]), watch=spec["queues"]) as client:
        say("ready")
        while True:
            job = client.reserve()
            number = json.loads(job.body)[0]
            say("ran", number=number)
            try:
                charge(number)
                client.delete(job)
            except CardDeclined:
                client.bury(job)


WORKERS: dict[str, Callable[[dict[str, Any]], None]] = {
    "faktory": faktory, "gearman": gearman, "beanstalkd": beanstalkd,
}  # fmt: skip

if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    WORKERS[told["protocol"]](told)
