"""Bodies of requests: read in pieces, bounded in bytes and in time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from starlette.requests import ClientDisconnect, Request

from franca.control.port import LARGE_BYTES
from franca.protocols.bodies import is_utf8
from franca.web.problems import Declined

SMALL_BYTES: Final = 64 * 1024
"""A larger body is read when no other such body is read or acted on."""
READ_S: Final = 30.0
"""Time for a body, or for each part of it that keeps the pace."""
PACE_BYTES: Final = 16_000 * 30
"""What must come in each such time."""
JSON: Final = "application/json"


class Bodies:
    """Reads bodies. Those who send long ones take turns."""

    def __init__(self) -> None:
        self._long = asyncio.Lock()

    async def read_json(self, request: Request, most: int, turns: AsyncExitStack) -> bytes:
        """A body of JSON; `Declined` if it is none. Empty if there is no body at all."""
        body = await self.read(request, most, turns)
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and media != JSON and not media.endswith("+json"):
            raise Declined(415, "not-json", f"send {JSON}", {"accept": JSON})
        if not await _is_text(body):
            raise Declined(400, "bad-request", "the body is no UTF-8")
        return body

    async def read(self, request: Request, most: int, turns: AsyncExitStack) -> bytes:
        """The body, at most so long; `turns` holds the turn of a long one until it is closed."""
        headers = request.headers
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Declined(415, "encoded", "send the body as it is", {"accept-encoding": ""})
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            raise _too_large(most)
        body = bytearray()
        stream = request.stream()
        try:
            while True:
                begun = len(body)
                async with asyncio.timeout(READ_S):
                    async for piece in stream:
                        body += piece
                        if len(body) > most:
                            raise _too_large(most)
                        is_long = len(body) > SMALL_BYTES >= len(body) - len(piece)
                        if is_long:
                            break
                        if len(body) - begun > PACE_BYTES:
                            break
                    else:
                        return bytes(body)
                if is_long:
                    await turns.enter_async_context(self._long)
        except TimeoutError:
            raise Declined(408, "timed-out", "the body came too slowly") from None
        except ClientDisconnect:
            raise Declined(400, "bad-request", "the body was not sent whole") from None


async def _is_text(body: bytes) -> bool:
    if len(body) <= LARGE_BYTES:
        return is_utf8(body)
    return await asyncio.get_running_loop().run_in_executor(None, is_utf8, body)


def _too_large(most: int) -> Declined:
    return Declined(413, "too-much", f"a body has at most {most} bytes", {"connection": "close"})
