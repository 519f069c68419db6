"""The web side of a server: made when it starts, closed when it stops, on the server's own loop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from heapq import nsmallest
from typing import Final

import msgspec
from starlette.responses import Response
from uvicorn.server import ServerState

from franca.control.caller import VIEWER
from franca.control.port import LARGE_BYTES, NodePort
from franca.control.work import Leased
from franca.core.model import Millis
from franca.web.app import App
from franca.web.auth import Authentication
from franca.web.body import JSON
from franca.web.connection import HttpConnection, configuration
from franca.web.events import Events
from franca.web.files import Files
from franca.web.guard import Hosts
from franca.web.listener import ACCEPTS_PER_PASS, SPARED_S, HttpListener
from franca.web.metrics import Metrics
from franca.web.openapi import ASKED, document
from franca.web.pages import Health, Pages
from franca.web.redact import Redaction
from franca.web.rest import Rest
from franca.web.router import Asked, Entry, Handler, Router
from franca.web.routes import PREFIX, ROUTES, Route
from franca.web.settings import WebSettings
from franca.web.submit import Submits
from franca.web.waiting import Waits

CLOSE_S: Final = 2.0
"""Time for requests that are under way when the server stops."""


class WebServer:
    """REST, health, events and the dashboard of one server.

    `other_passwords` are taken beside its own, `names` are those by which it may be called.
    """

    def __init__(
        self,
        node: NodePort,
        settings: WebSettings,
        *,
        clock: Callable[[], Millis],
        on_error: Callable[[Exception], None],
        other_passwords: Iterable[str] = (),
        names: Iterable[str] = (),
        routes: Iterable[Route] = ROUTES,
    ) -> None:
        redaction = Redaction(settings.redact)
        routes = tuple(routes)
        self._node = node
        self._waits = Waits()
        self._routes = routes
        self._openapi = b""
        self._metrics = Metrics(node)
        self.events = Events(node, redaction, on_error)
        self._state = ServerState()
        self._rest = Rest(node, redaction, self._unsent)
        authentication = Authentication(settings, other_passwords, clock)
        pages = Pages(Files(), authentication, self._rest.bodies)
        submits = Submits(self._rest, self._waits)
        special = {
            "submit": submits.one,
            "submit many": submits.many,
            "lease": self._lease,
            "one": self._rest.on_one,
        }
        router = Router(
            [
                *self._rest.entries(routes, special),
                Entry("GET", f"{PREFIX}/events", VIEWER, self.events.answer),
                Entry("GET", "/openapi.json", VIEWER, self._describe),
                Entry("GET", "/metrics", VIEWER, self._scrape, quiet=True),
                *Health(node, self._waits).entries(),
                *pages.entries(),
            ]
        )
        hosts = Hosts([*settings.hosts, *names])
        self.app = App(router, authentication, hosts, on_error)
        self._config = configuration(self.app)
        self._loop = asyncio.get_running_loop()

    def listen(self, listening: socket.socket, tls: ssl.SSLContext | None) -> HttpListener:
        """Answer whoever connects to this socket."""
        connections = self._state.connections
        count = partial(len, connections)
        return HttpListener(listening, tls, self._connection, count, self._make_room)

    def _make_room(self) -> None:
        """Hang up on some of those who have had no request for longest."""
        until = self._loop.time() - SPARED_S
        idle = [
            (one.idle_since, number, one)
            for number, one in enumerate(self._state.connections)
            if isinstance(one, HttpConnection) and (one.idle_since or until) < until
        ]
        for _, _, one in nsmallest(ACCEPTS_PER_PASS, idle):
            one.transport.abort()

    def _unsent(self) -> int:
        """How much of all answers waits for peers."""
        open_ = self._state.connections
        return sum(one.transport.get_write_buffer_size() for one in open_)

    def _connection(self) -> HttpConnection:
        return HttpConnection(self._config, self._state, {}, self._loop)

    # -- what is answered in another way ----------------------------------------------------------

    def _lease(self, route: Route) -> Handler:
        async def answer(asked: Asked) -> Response:
            async with AsyncExitStack() as turns:
                params = await self._rest.params(route, asked, turns)
                work = self._rest.perform(route, asked, params, turns)
                result = await self._waits.unless_gone(asked.request, work)
                assert isinstance(result, Leased)
                if result.job is None:
                    told = {ASKED: result.asked} if result.asked else {}
                    return Response(status_code=204, headers=told)
                if len(memoryview(result.job.args)) > LARGE_BYTES:
                    await self._rest.take_turn(turns)
                return await self._rest.response(route, asked, result)

        return answer

    async def _describe(self, asked: Asked) -> Response:
        """The document of REST."""
        if not self._openapi:
            whole = document(self._routes)
            self._openapi = msgspec.json.encode(whole)
        return Response(self._openapi, media_type=JSON)

    async def _scrape(self, asked: Asked) -> Response:
        """The metrics, in the format that is asked for."""
        accept = asked.request.headers.get("accept", "")
        content, content_type = await self._metrics.scrape(accept)
        return Response(content, headers={"content-type": content_type})

    # -- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """The server is about to stop: nobody waits for a job or for events any longer."""
        self._waits.stop()
        self.events.stop()

    async def close(self) -> None:
        """Finish what is under way, within its time, and hang up."""
        self.drain()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = set(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        for task in self._state.tasks:
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)
        for connection in list(self._state.connections):
            connection.transport.abort()
