"""Server-sent events: what has changed, for pages that would otherwise ask again and again.

Nothing is looked at while nobody listens. All listeners read the same ring of the last events, each
from its own place; one that was away for too long is told that there is a gap.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import suppress
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from franca.control import shapes
from franca.control.caller import VIEWER
from franca.control.observer import Kept
from franca.control.port import NodePort
from franca.control.workers import workers_seen
from franca.web.changes import Rules, look_at_schedules, schedules_changed, workers_changed
from franca.web.problems import Declined
from franca.web.redact import Redaction
from franca.web.router import Asked

LISTENERS_MAX: Final = 64
"""Streams at a time; further ones are refused."""
RING_EVENTS: Final = 512
RING_BYTES: Final = 512 * 1024
"""Events that a listener may come back to."""
EVERY_S: Final = 1.0
"""Changes are looked for so often, while anybody listens."""
HEARTBEAT_S: Final = 15.0
STREAM_S: Final = 3_600.0
"""A stream ends after so long; a browser opens it again by itself, and must sign in if need be."""
CHANGES_MAX: Final = 200
"""Queues whose changes are told one by one; of more at once, that there were some."""


class Events:
    """The last events, and who listens. `publish` tells everybody something."""

    def __init__(
        self, node: NodePort, redaction: Redaction, on_error: Callable[[Exception], None]
    ) -> None:
        self._node = node
        self._on_error = on_error
        self._redaction = redaction
        self._boot = secrets.token_hex(4)
        self._ring: deque[tuple[int, str, object]] = deque()
        self._ring_bytes = 0
        self._last = 0
        self._news = asyncio.Event()
        self._rules: Kept[Rules] = Kept()
        self._listeners = 0
        self._looking: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def listeners(self) -> int:
        """How many streams are open."""
        return self._listeners

    def publish(self, event: str, data: object) -> None:
        """Tell all who listen. Costs nothing while nobody does."""
        if not self._listeners:
            return
        self._last += 1
        self._ring.append((self._last, event, data))
        self._ring_bytes += len(msgspec.json.encode(data))
        while len(self._ring) > RING_EVENTS or self._ring_bytes > RING_BYTES:
            self._ring_bytes -= len(msgspec.json.encode(self._ring.popleft()[2]))
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def answer(self, asked: Asked) -> Response:
        """The stream, from behind the event that the caller had last."""
        if self._stopping:
            raise Declined(503, "stopping", "the server stops", {"retry-after": "5"})
        if self._listeners >= LISTENERS_MAX:
            raise Declined(503, "busy", "too many streams are open", {"retry-after": "30"})
        after = asked.request.headers.get("last-event-id", "")
        return _Stream(self, asked.caller.role, after)

    def stop(self) -> None:
        """End every stream."""
        self._stopping = True
        self._news.set()
        if self._looking is not None:
            self._looking.cancel()

    # -- one stream -----------------------------------------------------------------------------

    async def stream(self, role: str, after: str) -> AsyncGenerator[bytes]:
        """What is sent to one listener."""
        self._join()
        try:
            place = self._last
            yield b"retry: 2000\n\n"
            if after:
                boot, _, digits = after.partition(".")
                known = boot == self._boot and digits.isascii() and digits.isdigit()
                place = int(digits[:18]) if known else -1
                if not known or place > self._last:
                    place = -1
            ends_at = asyncio.get_running_loop().time() + STREAM_S
            while not self._stopping and asyncio.get_running_loop().time() < ends_at:
                news = self._news
                if place < self._oldest() - 1:
                    place = self._oldest() - 1
                    yield self._gap(place)
                for number, event, data in list(self._ring):
                    if number > place:
                        place = number
                        yield self._written(number, event, data, role)
                if self._news is news:
                    try:
                        async with asyncio.timeout(HEARTBEAT_S):
                            await news.wait()
                    except TimeoutError:
                        yield b": still here\n\n"
        finally:
            self._leave()

    def _oldest(self) -> int:
        return self._ring[0][0] if self._ring else self._last + 1

    def _gap(self, place: int) -> bytes:
        return b"id: %b.%d\nevent: gap\ndata: {}\n\n" % (self._boot.encode(), place)

    def _written(self, number: int, event: str, data: object, role: str) -> bytes:
        if role == VIEWER and self._redaction.is_on:
            data = self._redaction.shown(msgspec.to_builtins(data))
        head = f"id: {self._boot}.{number}\nevent: {event}\ndata: ".encode()
        return head + msgspec.json.encode(data) + b"\n\n"

    def _join(self) -> None:
        self._listeners += 1
        if self._looking is None and not self._stopping:
            self._looking = asyncio.get_running_loop().create_task(self._look_on())

    def _leave(self) -> None:
        self._listeners -= 1
        if not self._listeners and self._looking is not None:
            self._looking.cancel()
            self._looking = None
            # What nobody heard is not kept: who comes back is told of a gap.
            self._ring.clear()
            self._ring_bytes = 0
            self._last += 1

    # -- what has changed -------------------------------------------------------------------------

    async def _look_on(self) -> None:
        try:
            await self._tell_changes()
        except Exception as error:
            # Streams go on: whoever opens one next has it tried again.
            self._on_error(error)
            self._looking = None

    async def _tell_changes(self) -> None:
        """Tell what has changed, as the observer sees it: whoever asks it, it looks once."""
        observer = self._node.observer
        paused = (await observer.summed(self._node)).paused
        actions = {one.id: one.view() for one in observer.actions.newest()}
        workers, rules = await workers_seen(self._node), await self._look_at_schedules()
        counts = shapes.Counts()
        while True:
            await asyncio.sleep(EVERY_S)
            before, counts = counts, await observer.counts(self._node)
            if counts != before:
                self.publish("jobs", {"counts": counts})
            before_paused, paused = paused, (await observer.summed(self._node)).paused
            self._tell_paused(before_paused ^ paused, paused)
            told, actions = actions, {one.id: one.view() for one in observer.actions.newest()}
            for name, view in actions.items():
                if told.get(name) != view:
                    self.publish("operation", view)
            workers_before, workers = workers, await workers_seen(self._node)
            if (news := workers_changed(workers_before, workers)) is not None:
                self.publish("workers", news)
            rules_before, rules = rules, await self._look_at_schedules()
            if (changes := schedules_changed(rules_before, rules)) is not None:
                self.publish("schedules", changes)

    async def _look_at_schedules(self) -> Rules:
        node = self._node
        return await self._rules.get(node, lambda: look_at_schedules(node.engine.broker))

    def _tell_paused(self, changed: Collection[str], paused: Collection[str]) -> None:
        for name in sorted(changed)[:CHANGES_MAX]:
            self.publish("queue", {"queue": name, "paused": name in paused})
        if len(changed) > CHANGES_MAX:
            self.publish("queues", {"changed": len(changed)})


class _Stream(Response):
    """The answer that goes on."""

    def __init__(self, events: Events, role: str, after: str) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(None, 200, headers, "text/event-stream")
        del self.headers["content-length"]
        self._events = events
        self._role = role
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the listener is gone, takes nothing, or the server stops."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        gone = asyncio.ensure_future(_gone(receive))
        stream = self._events.stream(self._role, self._after)
        try:
            while not gone.done():
                piece = asyncio.ensure_future(anext(stream, b""))
                await asyncio.wait((piece, gone), return_when=asyncio.FIRST_COMPLETED)
                if not piece.done():
                    piece.cancel()
                    with suppress(asyncio.CancelledError):
                        await piece
                    return
                data = await piece
                if not data:
                    break
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await stream.aclose()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
