"""The web side over a server for operations, called in process: no sockets, a clock by hand."""

import asyncio
import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import msgspec

from franca.core.model import Millis
from franca.web.routes import ROUTES, Route
from franca.web.server import WebServer
from franca.web.settings import TokenHash, WebSettings
from tests.control.kit import FakeNode

T = TypeVar("T")
PATIENCE_S = 20.0
LOCAL = "127.0.0.1:7420"
JSON = {"content-type": "application/json"}
TOKENS = {role: f"token-of-{role}" for role in ("viewer", "operator", "admin")}


def bearer(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[role]}"}


def token_hashes() -> tuple[TokenHash, ...]:
    return tuple(
        TokenHash(f"{role}-1", role, hashlib.sha256(token.encode()).hexdigest())
        for role, token in TOKENS.items()
    )


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Call:
    """One request in process, whose answer may be watched while it comes."""

    def __init__(self, scope: dict[str, Any], body: Sequence[bytes]) -> None:
        self.scope = scope
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.complete = False
        self.took = 0
        self.hung_up = asyncio.Event()
        self.stuck = False
        self.news = asyncio.Event()
        self._body = list(body) or [b""]

    async def receive(self) -> dict[str, Any]:
        if self._body:
            piece = self._body.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._body)}
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        if self.stuck:
            await asyncio.Event().wait()
        if message["type"] == "http.response.start":
            assert not self.status, "two answers"
            self.status, self.headers = message["status"], list(message["headers"])
        else:
            self.body += message.get("body", b"")
            self.complete = not message.get("more_body", False)
        self.news.set()

    async def until(self, text: bytes) -> None:
        """Wait until the answer has this in it."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.body:
                self.news.clear()
                await self.news.wait()

    def answer(self) -> Answer:
        headers: dict[str, str] = {}
        for name, value in self.headers:
            assert name.decode() not in headers, f"{name.decode()} is sent twice"
            headers[name.decode()] = value.decode()
        return Answer(self.status, headers, self.body)


class Site:
    """A web side and its server. With `roles`, there is a token for each role."""

    def __init__(
        self, *, roles: bool = False, routes: Sequence[Route] = ROUTES, node: FakeNode | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        self.runner = asyncio.Runner()
        self.node = node or FakeNode()
        self.now: Millis = 1_000_000
        self.errors: list[Exception] = []
        if roles:
            settings["tokens"] = token_hashes()
        other = settings.pop("other_passwords", ())
        self.settings = WebSettings(**settings)

        async def make() -> WebServer:
            return WebServer(
                self.node, self.settings, clock=lambda: self.now, on_error=self.errors.append,
                other_passwords=other, routes=routes,
            )  # fmt: skip

        self.web = self.runner.run(make())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.run(self.web.close())
        self.runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def begin(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None,
        *, client: str = "127.0.0.1", scheme: str = "http", pieces: Sequence[bytes] | None = None,
    ) -> tuple[Call, Coroutine[Any, Any, None]]:  # fmt: skip
        """A call that is not under way yet."""
        raw_path, _, query = path.partition("?")
        sent = {"host": LOCAL} | (JSON if body is not None else {}) | dict(headers or {})
        content = (
            body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        )
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": scheme,
            "path": raw_path, "raw_path": raw_path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(n.lower().encode(), v.encode()) for n, v in sent.items() if v],
            "client": (client, 1234), "server": ("127.0.0.1", 7420), "state": {},
        }  # fmt: skip
        call = Call(scope, pieces if pieces is not None else [content])
        return call, self.web.app(scope, call.receive, call.send)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        """One request and its answer. What every answer must have is checked for each."""
        call, work = self.begin(method, path, body, headers, **more)

        async def carry_out() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await work

        self.run(carry_out())
        assert call.complete, "the answer has no end"
        answer = call.answer()
        check_headers(answer)
        return answer

    def api(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        return self.call(method, f"/api/v1/{path}", body, headers, **more)


def check_headers(answer: Answer) -> None:
    policy = answer.headers["content-security-policy"]
    for part in (
        "default-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
    ):
        assert part in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] in ("no-store", "no-cache")
    assert "access-control-allow-origin" not in answer.headers
    if answer.status >= 400 and answer.headers.get("content-type", "").startswith("application/"):
        problem = answer.json
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem["status"] == answer.status
        assert problem["code"]
        assert problem["detail"]
