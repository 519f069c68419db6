"""The application: one request from its first header to the last byte of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from franca.control.caller import ADMIN, Caller, may
from franca.core.errors import Refused
from franca.web.auth import Authentication
from franca.web.guard import HEADERS, Hosts, check_origin
from franca.web.problems import Declined, answer_to, declined_by
from franca.web.router import PUBLIC, Asked, Entry, Router

REQUESTS_MAX: Final = 200
"""Requests at a time, those that wait for something included; further ones are put off."""
PUBLIC_SPARE: Final = 20
"""Requests beyond these, for monitors: a server that is busy is not dead."""
SEND_S: Final = 10.0
"""A peer that has taken nothing of an answer for so long is left."""
NOBODY: Final = Caller("", "", "rest")


class App:
    """Answers requests, by the router's entries, to those who may."""

    def __init__(
        self,
        router: Router,
        authentication: Authentication,
        hosts: Hosts,
        on_error: Callable[[Exception], None],
    ) -> None:
        self.router = router
        self.requests = 0
        self._authentication = authentication
        self._hosts = hosts
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request. Other kinds of scopes, such as WebSockets, are not served."""
        if scope["type"] != "http":
            return
        guarded = _Answer(send)
        self.requests += 1
        try:
            response = await self._respond(scope, receive, guarded)
            await response(scope, receive, guarded.send)
        except TimeoutError:
            raise ConnectionAbortedError("the peer takes nothing of its answer") from None
        finally:
            self.requests -= 1

    async def _respond(self, scope: Scope, receive: Receive, answer: _Answer) -> Response:
        request = Request(scope, receive)
        try:
            return await self._handle(request, answer)
        except Declined as declined:
            return answer_to(declined)
        except Refused as refusal:
            return answer_to(declined_by(refusal))
        except Exception as error:
            self._on_error(error)
            return answer_to(Declined(500, "failed", "the server made a mistake; its log has more"))

    async def _handle(self, request: Request, answer: _Answer) -> Response:
        headers = request.headers
        self._hosts.check(headers)
        check_origin(request.method, headers)
        raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        if request.method == "OPTIONS":
            allow = self.router.methods(raw_path)
            return Response(status_code=204, headers={"allow": allow})
        entry, path = self.router.find(request.method, raw_path)
        room = REQUESTS_MAX + (PUBLIC_SPARE if entry.role == PUBLIC else 0)
        if self.requests > room:
            raise Declined(503, "busy", "too many requests at a time", {"retry-after": "1"})
        caller = NOBODY if entry.role == PUBLIC else await self._admit(request, entry)
        return await entry.handler(Asked(request, path, caller))

    async def _admit(self, request: Request, entry: Entry) -> Caller:
        """Who asks, if he may. `Declined` if not."""
        headers = request.headers
        address = request.client.host if request.client else ""
        cookie = request.cookies.get(cookie_name(request), "")
        authorization = headers.get("authorization", "")
        try:
            caller = await self._authentication.caller_of(authorization, cookie, address)
            if caller is None:
                raise Declined(401, "no-password", "sign in, or send a password or a token")
        except Declined as declined:
            if declined.status == 401:
                declined.headers = {**declined.headers, **challenge(headers)}
            raise
        if not may(caller.role, entry.role):
            needs = f"this needs the role {entry.role}"
            by = " and a token of that role" if entry.role == ADMIN else ""
            raise Declined(403, "forbidden", f"{needs}{by}; {caller.who} is {caller.role}")
        return caller


def cookie_name(request: Request) -> str:
    """What the cookie of a session is called. A browser sends the first only over TLS."""
    return "__Host-franca" if request.url.scheme == "https" else "franca"


def challenge(headers: Headers) -> Mapping[str, str]:
    """How to say who one is. Not so that a browser asks by itself: the dashboard does that."""
    is_script = headers.get("sec-fetch-mode") in ("cors", "same-origin", "no-cors")
    schemes = 'Bearer realm="franca"' if is_script else 'Basic realm="franca", Bearer'
    return {"www-authenticate": schemes}


class _Answer:
    """Sends an answer with what every answer carries, to a peer that takes it."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*common_headers(message["headers"]), *message["headers"]]
        async with asyncio.timeout(SEND_S):
            await self._send(message)


def common_headers(headers: object = ()) -> list[tuple[bytes, bytes]]:
    """What every answer carries. Nothing is stored by anybody unless the answer says so."""
    names = {name for name, _ in headers} if isinstance(headers, list) else set()
    common = [*HEADERS, (b"date", formatdate(usegmt=True).encode())]
    if b"cache-control" not in names:
        common.append((b"cache-control", b"no-store"))
    return common
