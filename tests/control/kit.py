"""A server for operations: the real engine and broker, a store in memory, a clock by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw

from franca.control.operations import answer, perform
from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.core.model import Demand, Failure, Job, JobQuery, Millis, NewJob, OnHangUp, Policy
from franca.engine.engine import Engine
from franca.protocols.conversation import Conversation, Link, Service, WorkerView
from franca.store.memory import MemoryStore

T = TypeVar("T")

NOW: Millis = 1_900_000_000_000
ON = Policy(failures=1, delay_ms=60_000)


class Crew(Service):
    """A protocol with two workers, one of which listens to nobody."""

    name = "crew"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def open(self, link: Link, now: Millis) -> Conversation:
        raise AssertionError("nobody connects to it")

    def workers(self) -> list[WorkerView]:
        return [
            WorkerView(name, "crew", "host", 1, ["blue"], "running", NOW, NOW, 10, 1)
            for name in ("anna", "bert")
        ]

    def ask_worker(self, name: str, what: str) -> bool:
        if name not in ("anna", "bert"):
            return False
        self.asked.append((name, what))
        return True


class FakeNode:
    """What operations need of a server. Every answer is as durable as the store can make it."""

    def __init__(self, **limits: int) -> None:
        self.crew = Crew()
        self.now = NOW
        self.stopping = False
        self.store = MemoryStore()
        bounds = Limits(**limits)
        self.engine = Engine(Broker(bounds, Random(1)), {"crew": self.crew}, bounds)

    @property
    def broker(self) -> Broker:
        return self.engine.broker

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        result = act(self.engine, self.now)
        self.commit()
        return result

    async def recall(self, query: JobQuery, act: Callable[[list[Job], Millis], T]) -> T:
        recaller = Recaller(act)
        self.broker.recall(query, recaller)
        self.commit()
        return cast(T, recaller.results.pop())

    async def find(self, query: JobQuery) -> list[Job]:
        return self.store.find(query)

    async def backup(self, path: str) -> dict[str, object]:
        raise OSError(f"{path} exists")

    def status(self) -> dict[str, object]:
        return {"version": "test", "pid": 1}

    def request_stop(self) -> None:
        self.stopping = True

    # -- for tests --------------------------------------------------------------------------

    def commit(self) -> None:
        """Write out what changed and bring what is wanted, until nothing is."""
        while self.broker.has_changes() or self.broker.wants:
            changes, wants = self.broker.drain(), self.broker.take_wants()
            for want, jobs in zip(wants, self.store.write(changes, wants), strict=True):
                self.engine.supplied(want, jobs, self.now)

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
        raw = Raw(msgspec.json.encode(params))
        result = asyncio.run(perform(self, op, raw))
        return msgspec.json.decode(msgspec.json.encode(result))

    def say(self, line: bytes) -> Any:
        """The whole reply to a line."""
        return msgspec.json.decode(asyncio.run(answer(self, line))[0])


class Recaller:
    """Keeps what the act made of the recalled jobs."""

    def __init__(self, act: Callable[[list[Job], Millis], object]) -> None:
        self._act = act
        self.results: list[object] = []

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        self.results.append(self._act(jobs, now))
