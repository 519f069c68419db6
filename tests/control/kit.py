"""A server for operations: the real engine and broker, a store in memory, a clock by hand."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from franca.control.operations import answer, perform
from franca.core.limits import Limits
from franca.core.model import Demand, Failure, Job, JobQuery, Millis, NewJob, OnHangUp, Policy
from franca.engine.engine import Engine
from franca.node.group import Recaller
from franca.protocols.conversation import Conversation, Link
from franca.protocols.service import Service, WorkerView
from tests.protocols.world import AnyWorld

T = TypeVar("T")

NOW: Millis = 1_900_000_000_000
ON = Policy(max_failures=1, delay_ms=60_000)


class TwoWorkers(Service):
    """A protocol with two workers, one of which listens to nobody."""

    name = "some"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def open(self, link: Link, now: Millis) -> Conversation:
        raise AssertionError("nobody connects to it")

    def workers(self) -> list[WorkerView]:
        anna = WorkerView(
            name="anna", protocol="some", host="host", pid=1, labels=["blue"], state="running",
            started_at=NOW, seen_at=NOW, rss_kb=10,
        )  # fmt: skip
        return [anna, replace(anna, name="bert")]

    def ask_worker(self, name: str, what: str) -> bool:
        if name not in ("anna", "bert"):
            return False
        self.asked.append((name, what))
        return True


class FakeNode(AnyWorld):
    """What operations need of a server. Every answer is as durable as the store can make it."""

    def __init__(self, **limits: int) -> None:
        super().__init__(Limits(**limits), now=NOW)
        self.two = TwoWorkers()
        self.stopping = False
        self.serve({"some": self.two})

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        result = act(self.engine, self.now)
        self.commit()
        return result

    async def recall(self, query: JobQuery, act: Callable[[list[Job], Millis], T]) -> T:
        results: list[T] = []
        self.broker.recall(query, Recaller(lambda *found: results.append(act(*found)), _raise))
        self.commit()
        return results.pop()

    async def find(self, query: JobQuery) -> list[Job]:
        return self.store.find(query)

    async def backup(self, path: str) -> dict[str, object]:
        raise OSError(f"{path} exists")

    def status(self) -> dict[str, object]:
        return {"version": "test", "pid": 1}

    def request_stop(self) -> None:
        self.stopping = True

    # -- for tests --------------------------------------------------------------------------

    def submit(self, queue: str = "q", kind: str = "k", **fields: Any) -> Job:
        """One more job."""
        policy = fields.pop("policy", ON)
        job = self.broker.submit(NewJob(queue, kind, b"[1]", policy, **fields), self.now)
        self.commit()
        return job

    def submit_dead(self, queue: str = "q", **fields: Any) -> Job:
        """One more job in the dead set."""
        job = self.submit(queue, **fields)
        self.broker.kill(job, self.now)
        self.commit()
        return job

    def lease(self, queue: str = "q") -> Job:
        """Have a worker take the next job."""
        session = self.broker.open_session("worker-1", OnHangUp.KEEP, None)
        granted = self.broker.demand(Demand(session, (queue,), until=1), self.now)
        self.commit()
        assert granted is not None
        return cast(Job, getattr(granted, "job"))  # noqa: B009

    def fail(self, job: Job, text: str) -> None:
        """Have the worker report a failure."""
        self.broker.fail(job, job.holder, Failure("Planned", text, ["line 1"]), self.now)
        self.commit()

    def do(self, op: str, **params: object) -> Any:
        """The result of an operation, as plain values."""
        result = asyncio.run(perform(self, op, Raw(msgspec.json.encode(params))))
        return msgspec.json.decode(msgspec.json.encode(result))

    def say(self, line: bytes) -> Any:
        """The whole reply to a line."""
        return msgspec.json.decode(asyncio.run(answer(self, line))[0])


def _raise(error: BaseException) -> None:
    raise error
