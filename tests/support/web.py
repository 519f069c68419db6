"""One request after the other to the web side of a server."""

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.support.server import HOST

API = "/api/v1"
_JSON = {"content-type": "application/json"}
_PATIENCE_S = 30.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    port: int,
    method: str,
    path: str,
    value: object = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """What the server on this port answers; a `value` is sent as JSON."""
    peer = http.client.HTTPConnection(HOST, port, timeout=_PATIENCE_S)
    try:
        body = None if value is None else json.dumps(value).encode()
        peer.request(method, path, body, (_JSON if body else {}) | dict(headers or {}))
        answer = peer.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        peer.close()


def api(port: int, method: str, path: str, value: object = None) -> Any:
    """The result of an operation of REST, which must be carried out."""
    answer = ask(port, method, f"{API}/{path}", value)
    assert answer.status < 300, f"{method} {path}: {answer.status} {answer.body!r}"
    return answer.json if answer.body else None
