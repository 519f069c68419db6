"""What went wrong, as `application/problem+json` (RFC 9457) with a `code` for programs."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct
from starlette.responses import Response

from franca.core.errors import Refused

MEDIA: Final = "application/problem+json"
DETAIL_CHARS: Final = 2_000
STATUS_OF: Final = {
    "bad-request": 400,
    "refused": 409,
    "not-held": 409,
    "not-unique": 409,
    "not-found": 404,
    "too-much": 413,
    "store-full": 507,
    "busy": 503,
    "key-differs": 422,
}
"""The status for each code of a refusal."""


class Problem(Struct):
    """Why a request was refused."""

    type: str
    title: str
    status: int
    detail: str
    code: str


class Declined(Exception):
    """A request that is not carried out; with what it is answered."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}


def declined_by(refusal: Refused) -> Declined:
    """A refusal of an operation, as HTTP says it."""
    status = STATUS_OF.get(refusal.code, 409)
    headers = {"retry-after": "5"} if status in (503, 507) else {}
    return Declined(status, refusal.code, refusal.text, headers)


def answer_to(declined: Declined) -> Response:
    """The response that tells a caller so."""
    detail = declined.detail
    if len(detail) > DETAIL_CHARS:
        detail = f"{detail[:DETAIL_CHARS]}..."
    title = HTTPStatus(declined.status).phrase
    problem = Problem("about:blank", title, declined.status, detail, declined.code)
    content = msgspec.json.encode(problem)
    return Response(content, declined.status, dict(declined.headers), MEDIA)
