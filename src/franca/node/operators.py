"""What operators ask of a running node: act between two turns, act on stored jobs, search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from franca.control.observer import Observer
from franca.core.changes import IDEMPOTENCY_MS, IdempotencyKey
from franca.core.history import Found, Past, Rates, RatesQuery, Search, Tallies
from franca.core.model import Job, JobQuery, Millis
from franca.engine.blame import is_of_the_core
from franca.engine.engine import Engine
from franca.node.group import Recaller
from franca.node.node import Node

T = TypeVar("T")


class Operators:
    """Runs operators' acts on a node. An error inside the broker ends the server all the same."""

    node: Node
    observer: Observer

    def clock_ms(self) -> Millis:
        """The time now: what spans are measured with."""
        return self.node.clock.now()

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        """Run `act` between two turns; its result comes when what it changed is durable."""
        node = self.node
        now = node.clock.now()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            result = act(node.engine, now)
            node.engine.deliver(now)
        except Exception as error:
            self._check_core(error)
            raise
        self._settle(future, result)
        return await future

    async def recall(self, query: JobQuery, act: Callable[[list[Job], Millis], T]) -> T:
        """Have jobs brought from wherever they lie, act on them, and make that durable."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(jobs: list[Job], now: Millis) -> None:
            self._settle(future, act(jobs, now))

        def fail(error: BaseException) -> None:
            self._check_core(error)
            if not future.done():
                future.set_exception(error)

        self.node.engine.broker.recall(query, Recaller(settle, fail))
        self.node.soon()
        return await future

    async def find(self, query: JobQuery) -> list[Job]:
        """Search the store on another thread; only what is committed is found."""
        self.node.write_now()
        return await asyncio.get_running_loop().run_in_executor(None, self.node.store.find, query)

    async def search(self, search: Search) -> Found:
        """Look through the store on another thread; only what is committed is found."""
        return await self._read(partial(self.node.store.search, search))

    async def find_keys(self, keys: Sequence[str]) -> dict[str, IdempotencyKey]:
        """Look for idempotency keys on another thread; only what is committed is found."""
        over = self.clock_ms() - IDEMPOTENCY_MS
        found = await self._read(partial(self.node.store.find_keys, keys))
        return {one.key: one for one in found if one.at > over}

    async def past(self) -> Past:
        """How much is remembered of ended jobs."""
        self.node.write_now()
        return self.node.store.past()

    async def rates(self, query: RatesQuery) -> Rates:
        """How many jobs ended in each step of some time, and how long they waited and ran."""
        return await self._read(partial(self.node.store.rates, query))

    def note(self, at: Millis, queues: Tallies) -> None:
        """Have the store remember what came into queues, once a minute."""
        self.node.store.note(at, queues, {})

    async def _read(self, read: Callable[[], T]) -> T:
        self.node.write_now()
        return await asyncio.get_running_loop().run_in_executor(None, read)

    async def settle(self) -> None:
        """Wait until everything said so far is durable and sent."""
        await self.ask(lambda engine, now: None)

    def _settle(self, future: asyncio.Future[T], result: T) -> None:
        def settle(error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.node.when_durable(settle)

    def _check_core(self, error: BaseException) -> None:
        if is_of_the_core(error, self.node.engine.broker):
            self.node.fail(error)
