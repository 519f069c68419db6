"""A server for operations: the real engine and broker, a store in memory, a clock by hand."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from franca.control.audit import AuditLog
from franca.control.measured import Measured, Spread
from franca.control.observer import Observer
from franca.control.operations import answer, perform
from franca.control.submit import KeysInUse
from franca.core.changes import IDEMPOTENCY_MS, IdempotencyKey
from franca.core.history import Found, Past, Rates, RatesQuery, Search, Tallies
from franca.core.limits import Limits
from franca.core.model import (
    NEVER,
    Demand,
    Failure,
    Job,
    JobQuery,
    Millis,
    NewJob,
    OnHangUp,
    Policy,
)
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
        self.queues: list[str] = []

    def open(self, link: Link, now: Millis) -> Conversation:
        raise AssertionError("nobody connects to it")

    def workers(self, now: Millis = NEVER) -> Iterator[WorkerView]:
        anna = WorkerView(
            name="anna", protocol="some", host="host", pid=1, labels=["blue"], state="idle",
            started_at=NOW, seen_at=NOW, rss_kb=10, queues=self.queues,
        )  # fmt: skip
        return iter([anna, replace(anna, name="bert")])

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
        self.audit = AuditLog(lambda: self.now)
        self.commits, self.groups = Spread((0.001, 0.01)), Spread((1, 10))
        self.observer = Observer(NOW)
        self.keys_in_use = KeysInUse()
        self.noted: list[tuple[Millis, Tallies]] = []
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

    async def find_keys(self, keys: Sequence[str]) -> dict[str, IdempotencyKey]:
        found = self.store.find_keys(keys)
        return {one.key: one for one in found if one.at > self.now - IDEMPOTENCY_MS}

    def clock_ms(self) -> Millis:
        return self.now

    async def search(self, search: Search) -> Found:
        return self.store.search(search)

    async def past(self) -> Past:
        return self.store.past()

    async def rates(self, query: RatesQuery) -> Rates:
        return self.store.rates(query)

    def note(self, at: Millis, queues: Tallies) -> None:
        self.noted.append((at, queues))

    async def backup(self, path: str) -> dict[str, object]:
        raise OSError(f"{path} exists")

    def status(self) -> dict[str, object]:
        return {"version": "test", "pid": 1}

    def measured(self) -> Measured:
        return Measured(
            version="test", store="memory", started_at_s=NOW / 1_000, cpu_s=1.5, resident_bytes=1 << 20,
            store_bytes=4_096, disk_bytes=1_000, disk_free_bytes=500, commits=self.commits, groups=self.groups,
            loop_lag_s=0.002, peers_refused=3,
        )  # fmt: skip

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

    def do_all(self, *calls: tuple[str, dict[str, object]]) -> list[Any]:
        """The results of operations, one after the other; what they leave under way has ended."""

        async def run() -> list[object]:
            results = [
                await perform(self, op, Raw(msgspec.json.encode(params))) for op, params in calls
            ]
            while rest := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.gather(*rest)
            return results

        return [msgspec.json.decode(msgspec.json.encode(one)) for one in asyncio.run(run())]

    def say(self, line: bytes) -> Any:
        """The whole reply to a line."""
        return msgspec.json.decode(asyncio.run(answer(self, line))[0])


def _raise(error: BaseException) -> None:
    raise error
