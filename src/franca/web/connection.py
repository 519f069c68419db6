"""One connection of HTTP: uvicorn's, with bounds in time that it does not have by itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from franca.web.app import common_headers

HEADERS_S: Final = 10.0
"""Time for the first line and the headers of a request."""
HEADER_BYTES_MAX: Final = 32 * 1024
READ_BYTES: Final = 4 * 1024
"""What is read at once of headers, and of bodies in chunks: to take them apart is slow."""
BODY_READ_BYTES: Final = 256 * 1024
"""And of a body whose length was said."""
CHUNKS_FREE: Final = 256
CHUNK_BYTES: Final = 16
"""Beyond so many chunks a body has one more for each so many bytes."""
KEEP_ALIVE_S: Final = 30
"""How long a connection without a request is kept."""
UNTAKEN_S: Final = 10.0
"""In so long a peer has to take the rest of its answer, or as much as keeps the pace."""
PACE_BYTES: Final = 16_000 * 10
_LOGGERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


def configuration(app: Any) -> Config:
    """What uvicorn is told: nothing is logged, named or trusted that we do not do ourselves."""
    config = Config(
        app,
        http=HttpConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    for name in _LOGGERS:
        logging.getLogger(name).disabled = True
    config.load()
    return config


class _Parser(h11.Connection):
    """Takes requests apart; a body in very many chunks is none."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEADER_BYTES_MAX)
        self._chunks = self._body_bytes = 0

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What came next. `RemoteProtocolError` if it is nothing that may come."""
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._body_bytes += len(event.data)
            if self._chunks > CHUNKS_FREE + self._body_bytes // CHUNK_BYTES:
                raise h11.RemoteProtocolError("the chunks are too small")
        elif isinstance(event, h11.Request):
            self._chunks = self._body_bytes = 0
        return event


class HttpConnection(H11Protocol, asyncio.BufferedProtocol):
    """A connection. It is read from little by little: others have their turns in between."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = _Parser()
        self._read_into = memoryview(b"")
        self._request_timer: asyncio.TimerHandle | None = None
        self._untaken = 0
        self._taking_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0

    @property
    def idle_since(self) -> float | None:
        """Since when there is no request; None if there is one, or an answer on its way."""
        is_idle = self.cycle is None or self.cycle.response_complete
        return None if not is_idle or self.transport.get_write_buffer_size() else self._idle_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A peer is there, and has to send a request."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""
        self._stop_timer()
        if self._taking_timer is not None:
            self._taking_timer.cancel()
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Room for what is read next."""
        cycle = self.cycle
        in_body = cycle is not None and cycle.more_body and not cycle.response_complete
        in_one_piece = in_body and any(name == b"content-length" for name, _ in self.headers)
        room = bytearray(BODY_READ_BYTES if in_one_piece else READ_BYTES)
        self._read_into = memoryview(room)  # parts of it, which TLS fills too, are no copies
        return self._read_into

    def buffer_updated(self, nbytes: int) -> None:
        """So much was read."""
        self.data_received(bytes(self._read_into[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Bytes came: of headers, which must be complete in time, or of a body."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._request_timer is None:
            self._await_request()

    def on_response_complete(self) -> None:
        """An answer was written; what the peer does not take of it is not kept for ever."""
        super().on_response_complete()
        self._idle_since = self.loop.time()
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self.conn.trailing_data[0] and self._request_timer is None:
            self._await_request()  # the next request has begun
        self._await_taking()

    def send_400_response(self, msg: str) -> None:
        """Say that this was no HTTP, with what every answer carries."""
        content = f"{msg}\n".encode()
        headers = [
            *common_headers(),
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%b\r\n%b" % (lines, content))
        self.transport.close()

    def _await_request(self) -> None:
        self._request_timer = self.loop.call_later(HEADERS_S, self._on_late_request)

    def _stop_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _on_late_request(self) -> None:
        self._request_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()

    def _await_taking(self) -> None:
        """Look later how much was taken of what is unsent now, hung up or not."""
        if self._taking_timer is not None:
            self._taking_timer.cancel()
            self._taking_timer = None
        self._untaken = self.transport.get_write_buffer_size()
        if self._untaken:
            self._taking_timer = self.loop.call_later(UNTAKEN_S, self._check_taken)

    def _check_taken(self) -> None:
        self._taking_timer = None
        if self.transport.get_write_buffer_size() > max(0, self._untaken - PACE_BYTES):
            self.transport.abort()
        else:
            self._await_taking()
