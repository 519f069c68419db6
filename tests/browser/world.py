"""A real server with a dashboard, and real clients and workers of three protocols around it."""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import gear
import greenstalk
import pyfaktory
from pyfaktory import Job, Producer

from tests.real.kit import Program
from tests.support.server import HOST, Server

SPEAKS = ("web", "faktory", "gearman", "beanstalkd")

SCHEDULES = (
    {"id": "nightly-report", "queue": "reports", "type": "reports", "args": [50, "night.pdf"], "cron": "0 4 * * *", "timezone": "Europe/Berlin"},
    {"id": "digest", "queue": "mail", "type": "SendWelcome", "args": [20, {"to": "all"}], "cron": "30 7 * * 1", "timezone": "UTC"},
    {"id": "sweep", "queue": "mail", "type": "SendWelcome", "args": [10], "every_ms": 15_000},
)  # fmt: skip


class World:
    """A server, its web address, and whoever talks to it. All of it ends with `stack`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.server = stack.enter_context(Server(folder / "data", speaks=SPEAKS))
        self.address = f"http://{HOST}:{self.server.ports['web']}/"
        self._gear: gear.Client | None = None
        self._tubes: dict[str, greenstalk.Client[str]] = {}
        self._producer: Producer | None = None

    def worker(
        self, protocol: str, name: str, queues: Sequence[str], *, types: Sequence[str] = (),
        slots: int = 1,
    ) -> Program:  # fmt: skip
        """A worker on the protocol's library, once it is connected."""
        spec = {
            "protocol": protocol, "port": self.server.ports[protocol], "name": name,
            "queues": list(queues), "types": list(types), "slots": slots,
        }  # fmt: skip
        argv = [sys.executable, "-m", "tests.browser.work", json.dumps(spec)]
        program = Program(argv, self.folder / f"{name}.stderr")
        self._stack.callback(program.close)
        program.said("ready")
        return program

    def post(self, path: str, members: object) -> None:
        """Have it done over REST, as with curl."""
        headers = {"content-type": "application/json"}
        body = json.dumps(members).encode()
        asked = urllib.request.Request(f"{self.address}api/v1/{path}", body, headers)
        urllib.request.urlopen(asked, timeout=30).close()

    def get(self, path: str) -> dict[str, object]:
        """What REST says."""
        with urllib.request.urlopen(f"{self.address}api/v1/{path}", timeout=30) as said:
            found: dict[str, object] = json.load(said)
        return found

    def push_faktory(self, queue: str, kind: str, args: list[object], **more: int) -> str:
        """Push with pyfaktory; the job's id there."""
        if self._producer is None:
            address = f"tcp://{HOST}:{self.server.ports['faktory']}"
            client = self._stack.enter_context(pyfaktory.Client(address, role="producer"))
            self._producer = Producer(client)
        job = Job(jobtype=kind, args=args, queue=queue, **more)
        assert self._producer.push(job)
        return str(job.jid)

    def push_gearman(self, function: str, args: list[object]) -> None:
        """Submit in the background with gear."""
        if self._gear is None:
            self._gear = gear.Client("shop")
            self._gear.addServer(HOST, self.server.ports["gearman"])
            self._gear.waitForServer()
            self._stack.callback(self._gear.shutdown)
        job = gear.Job(function.encode(), json.dumps(args).encode())
        self._gear.submitJob(job, background=True)

    def push_beanstalkd(self, tube: str, args: list[object], delay: int = 0) -> int:
        """Put with greenstalk; the job's number there."""
        if tube not in self._tubes:
            address = (HOST, self.server.ports["beanstalkd"])
            self._tubes[tube] = self._stack.enter_context(greenstalk.Client(address, use=tube))
        return int(self._tubes[tube].put(json.dumps(args), delay=delay))


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """A server that is new."""
    with ExitStack() as stack:
        yield World(folder, stack)


class Shop:
    """A little load of a shop: it comes and goes, and some of it fails."""

    def __init__(self, around: World, seed: int = 1) -> None:
        self._world = around
        self._rng = Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Open it: workers, what waits for later, schedules, and a backlog of one queue."""
        world = self._world
        world.worker(
            "faktory", "mailer-1", ["mail", "billing", "thumbnails", "reports"], slots=3,
            types=["SendWelcome", "SendInvoice", "SendDigest", "ChargeCard", "thumbnails", "reports"],
        )  # fmt: skip
        world.worker("gearman", "images-1", ["thumbnails", "search.index"])
        world.worker("gearman", "images-2", ["thumbnails", "billing"])
        world.worker("beanstalkd", "reports-1", ["reports", "mail"])
        world.worker("gearman", "video-1", ["transcode"])
        for n in range(12):
            world.push_faktory("mail", "SendDigest", [n], reserve_for=600)
            world.push_beanstalkd("reports", [200, f"monthly/{n:02}.pdf"], delay=3600 + n * 60)
        for n in range(4):
            world.push_gearman("transcode", [30_000, f"s3://clips/{n}.mov"])
        for n in range(8):
            world.push_faktory("billing", "ChargeCard", [-1000 - n, "EUR"], retry=0)
        for members in SCHEDULES:
            world.post("schedules", members)
        world.post("queues/search.index/pause", {})
        self._thread.start()

    def close(self) -> None:
        """No more customers."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._rng.uniform(0.02, 0.2)):
            self._customer()

    def _customer(self) -> None:
        rng, world = self._rng, self._world
        order = rng.randrange(10_000, 99_999)
        took = rng.randrange(5, 120)
        who = {"to": f"customer-{order}@example.org", "order": order}
        if rng.random() < 0.03:
            world.push_gearman("transcode", [30_000, f"s3://clips/{order}.mov"])
        match rng.randrange(8):
            case 0 | 1:
                world.push_faktory("mail", "SendWelcome", [took, who])
            case 2:
                world.push_faktory("billing", "SendInvoice", [took, who])
            case 3:
                number = -order if rng.random() < 0.15 else took
                world.push_faktory("billing", "ChargeCard", [number, "EUR"])
            case 4 | 5:
                world.push_gearman("thumbnails", [took, f"products/{order}.jpg", 320])
            case 6:
                world.push_gearman("search.index", [took, {"order": order}])
            case _:
                number = -order if rng.random() < 0.05 else took
                world.push_beanstalkd("reports", [number, f"orders/{order}.pdf"])
