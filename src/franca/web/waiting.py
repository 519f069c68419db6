"""Requests that wait: they end when nobody waits for the answer any more, or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from franca.web.problems import Declined

T = TypeVar("T")


class Waits:
    """All requests that wait for something."""

    def __init__(self) -> None:
        self.stopping = False
        self._ends: set[asyncio.Future[None]] = set()

    def stop(self) -> None:
        """The server stops: nobody waits any longer."""
        self.stopping = True
        for end in self._ends:
            if not end.done():
                end.set_result(None)

    async def unless_gone(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """What `work` brings. It is cancelled, and `Declined` raised, if the caller hangs up or
        the server stops before.
        """
        loop = asyncio.get_running_loop()
        end: asyncio.Future[None] = loop.create_future()
        working = loop.create_task(work)
        gone = loop.create_task(_gone(request))
        self._ends.add(end)
        if self.stopping:
            end.set_result(None)
        try:
            await asyncio.wait((working, gone, end), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return await working
            if end.done():
                raise Declined(503, "stopping", "the server stops", {"retry-after": "5"})
            raise Declined(400, "gone", "the caller has hung up")  # nobody gets this answer
        finally:
            self._ends.discard(end)
            gone.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait((working,))


async def _gone(request: Request) -> None:
    """Wait until the caller has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
