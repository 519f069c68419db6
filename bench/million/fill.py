"""Jobs by the hundred thousand, pushed as fast as a few connections can."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from bench.backlog import BATCH, PUSHERS, push_all
from bench.client import Client
from bench.servers import Server

FILLER = "x" * 64


@dataclass(frozen=True, slots=True)
class Part:
    """So many jobs with names of one kind; those that have a moment wait for it."""

    prefix: str
    count: int
    queue: Callable[[int], str]
    jobtype: Callable[[int], str] = lambda number: "bench"
    at: Callable[[int], float] | None = None  # seconds since 1970
    body: str = FILLER

    def jid(self, number: int) -> str:
        """The name of a job."""
        return f"{self.prefix}{number:09}"

    def jids(self, count: int) -> list[str]:
        """That many of them, evenly from the first to the last."""
        return [self.jid(number * self.count // count) for number in range(count)]

    def job(self, number: int) -> str:
        """A job as JSON."""
        at = f',"at":"{moment(self.at(number))}"' if self.at else ""
        return (
            f'{{"jid":"{self.jid(number)}","jobtype":"{self.jobtype(number)}",'
            f'"queue":"{self.queue(number)}","args":[{number},"{self.body}"]{at}}}'
        )

    def commands(self, batch: int = BATCH) -> Iterator[bytes]:
        """The PUSHB commands that push them all."""
        for first in range(0, self.count, batch):
            numbers = range(first, min(first + batch, self.count))
            yield f"PUSHB [{','.join(map(self.job, numbers))}]".encode()


def moment(seconds: float) -> str:
    """A moment as Faktory writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def fill(server: Server, *parts: Part) -> None:
    """Push these jobs, and see all of them acknowledged."""
    pushers = [Client(server.port) for _ in range(PUSHERS)]
    for part in parts:
        push_all(pushers, part.commands())
    for pusher in pushers:
        pusher.close()
