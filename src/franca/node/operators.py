"""What operators ask of a running node: act between two turns, act on stored jobs, search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from franca.core.model import Job, JobQuery, Millis
from franca.engine.blame import is_of_the_core
from franca.engine.engine import Engine
from franca.node.node import Node

T = TypeVar("T")


class Operators:
    """Runs operators' acts on a node. An error inside the broker ends the server all the same."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._loop = asyncio.get_running_loop()

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        """Run `act` between two turns; its result comes when what it changed is durable."""
        node = self._node
        now = node.clock.now()
        future: asyncio.Future[T] = self._loop.create_future()
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
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(jobs: list[Job], now: Millis) -> None:
            self._settle(future, act(jobs, now))

        def fail(error: BaseException) -> None:
            self._check_core(error)
            if not future.done():
                future.set_exception(error)

        self._node.engine.broker.recall(query, OperatorRecaller(settle, fail))
        self._node.soon()
        return await future

    async def find(self, query: JobQuery) -> list[Job]:
        """Search the store on another thread; only what is committed is found."""
        self._node.write_now()
        return await self._loop.run_in_executor(None, self._node.store.find, query)

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

        self._node.when_durable(settle)

    def _check_core(self, error: BaseException) -> None:
        if is_of_the_core(error, self._node.engine.broker):
            self._node.fail(error)


class OperatorRecaller:
    """Takes jobs from the store and acts on them; `fail` is told if that cannot be."""

    def __init__(
        self, act: Callable[[list[Job], Millis], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._act = act
        self.fail = fail

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Act on the jobs; a mistake in the asking reaches whoever asked."""
        try:
            self._act(jobs, now)
        except Exception as error:
            self.fail(error)
