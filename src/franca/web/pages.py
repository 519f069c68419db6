"""What is answered beside REST: health, the pages, signing in and out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from franca.control.caller import VIEWER
from franca.control.port import NodePort
from franca.core.model import Millis
from franca.engine.engine import Engine
from franca.web.app import cookie_name
from franca.web.auth import Authentication, place_of
from franca.web.body import JSON, Bodies
from franca.web.files import Files
from franca.web.problems import Declined
from franca.web.router import PUBLIC, REST_OF_PATH, Asked, Entry, Handler
from franca.web.waiting import Waits

FORM_BYTES_MAX: Final = 8 * 1024
FORM_FIELDS_MAX: Final = 8
SIGN_INS_MAX: Final = 64
SIGN_INS_OF_ONE: Final = 4
"""Forms that are awaited at a time, in all and from one address: nobody knows yet who they are."""
STEPS_MAX: Final = 10_000
"""Turns that an answer about everything may take."""


class Health:
    """Whether the server lives and takes work; and what monitors of an original server ask."""

    def __init__(self, node: NodePort, waits: Waits) -> None:
        self._node = node
        self._waits = waits

    def entries(self) -> Iterable[Entry]:
        """The ways in. What says nothing but up or down is for everybody."""
        yield Entry("GET", "/livez", PUBLIC, self.live, quiet=True)
        yield Entry("GET", "/healthz", PUBLIC, self.live, quiet=True)
        yield Entry("GET", "/readyz", PUBLIC, self.ready, quiet=True)
        yield Entry("GET", "/health", PUBLIC, self.for_monitors, quiet=True)
        yield Entry("GET", "/stats", VIEWER, self.for_monitors, quiet=True)

    async def live(self, asked: Asked) -> Response:
        """It answers, so it lives."""
        return Response("ok\n", media_type="text/plain")

    async def ready(self, asked: Asked) -> Response:
        """Whether jobs are taken: the store can be written, and the server does not stop."""
        checks = {
            "store": "full" if self._node.engine.broker.refusing_new else "ok",
            "stopping": "yes" if self._waits.stopping else "no",
        }
        is_ready = checks == {"store": "ok", "stopping": "no"}
        lines = [f"{name}: {word}" for name, word in checks.items()]
        text = "\n".join(["ok" if is_ready else "not ready", *lines])
        return Response(f"{text}\n", 200 if is_ready else 503, media_type="text/plain")

    async def for_monitors(self, asked: Asked) -> Response:
        """What an original server answers at this path, if its protocol is served."""
        path = asked.request.url.path

        def ask(engine: Engine, now: Millis) -> tuple[bytes, ...] | None:
            answers = (one.over_http(path, now) for one in engine.services.values())
            return next((tuple(one) for one in answers if one is not None), None)

        for _ in range(STEPS_MAX):
            pieces = await self._node.ask(ask)
            if pieces is None:
                break
            if pieces:
                return Response(b"".join(pieces), media_type=JSON)
            await asyncio.sleep(0)
        raise Declined(404, "not-found", "there is nothing at this path")


class Pages:
    """The dashboard's files, and its way in."""

    def __init__(self, files: Files, authentication: Authentication, bodies: Bodies) -> None:
        self._files = files
        self._authentication = authentication
        self._bodies = bodies
        self._signing_in: Counter[str] = Counter()

    def entries(self) -> Iterable[Entry]:
        """The ways in. The files say nothing of the server, so they are for everybody."""
        yield Entry("GET", "/", PUBLIC, self.home)
        yield Entry("GET", "/try", PUBLIC, self.page("try.html"))
        yield Entry("GET", "/login", PUBLIC, self.page("login.html"))
        yield Entry("POST", "/login", PUBLIC, self.sign_in)
        yield Entry("POST", "/logout", PUBLIC, self.sign_out)
        yield Entry("GET", f"/{REST_OF_PATH}", PUBLIC, self._files.answer)

    async def home(self, asked: Asked) -> Response:
        """The dashboard, or the page to sign in."""
        request = asked.request
        if self._authentication.asks and "authorization" not in request.headers:
            cookie = request.cookies.get(cookie_name(request), "")
            if not self._authentication.is_alive(cookie):
                return RedirectResponse("login", 303)
        return await self._files.response(asked, "index.html")

    def page(self, name: str) -> Handler:
        """A handler that answers with this file."""

        async def answer(asked: Asked) -> Response:
            return await self._files.response(asked, name)

        return answer

    async def sign_in(self, asked: Asked) -> Response:
        """Begin a session with a password or a token, from a form or as JSON."""
        request = asked.request
        address = request.client.host if request.client else ""
        body = await self._form(request, place_of(address))
        try:
            caller = await self._authentication.caller_by(_secret_in(body), address)
        except Declined as declined:
            if declined.status == 401 and request.headers.get("sec-fetch-mode") == "navigate":
                return RedirectResponse("login?wrong", 303)
            raise
        response = RedirectResponse("./", 303)
        name = cookie_name(request)
        response.set_cookie(
            name,
            self._authentication.begin_session(caller),
            path="/",
            secure=name.startswith("__Host-"),
            httponly=True,
            samesite="strict",
        )
        return response

    async def _form(self, request: Request, place: str) -> bytes:
        counts = self._signing_in
        if counts[place] >= SIGN_INS_OF_ONE or counts.total() >= SIGN_INS_MAX:
            raise Declined(503, "busy", "too many sign in at a time", {"retry-after": "1"})
        counts[place] += 1
        try:
            async with AsyncExitStack() as turns:
                return await self._bodies.read(request, FORM_BYTES_MAX, turns)
        finally:
            counts[place] -= 1
            if not counts[place]:
                del counts[place]

    async def sign_out(self, asked: Asked) -> Response:
        """End the session of this browser."""
        name = cookie_name(asked.request)
        self._authentication.end_session(asked.request.cookies.get(name, ""))
        response = RedirectResponse("login", 303)
        response.delete_cookie(name, path="/", secure=name.startswith("__Host-"), httponly=True)
        return response


def _secret_in(body: bytes) -> str:
    """The password or token in a form, or in JSON."""
    text = body.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        try:
            return str(msgspec.json.decode(body, type=dict[str, str]).get("password", ""))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
    try:
        return parse_qs(text, max_num_fields=FORM_FIELDS_MAX).get("password", [""])[0]
    except ValueError:
        raise Declined(400, "bad-request", "the form has too many fields") from None
