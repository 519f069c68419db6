"""Accepting connections of HTTP: counted from the moment they are accepted, handshakes too."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

CONNECTIONS_MAX: Final = 512
"""Connections at a time; for a further one those go that have waited longest without a request."""
SPARED_S: Final = 1.0
"""But not before they had this long, for a handshake or a request."""
ACCEPTS_PER_PASS: Final = 8
"""Connections accepted before other events are handled."""
TLS_HELLO_S: Final = 5.0
TLS_BYE_S: Final = 1.0
HANDSHAKES_MAX: Final = 16
"""Handshakes of TLS at a time: each takes some of everybody's time."""
REST_S: Final = 0.05
"""How long no connection is accepted when there is no room, or no descriptor."""


class HttpListener:
    """One socket that listens. `count` says how many connections there are.

    `make_room` lets some go that nothing is done for, if there are any.
    """

    def __init__(
        self,
        listening: socket.socket,
        tls: ssl.SSLContext | None,
        make: Callable[[], asyncio.Protocol],
        count: Callable[[], int],
        make_room: Callable[[], None],
    ) -> None:
        self.tls = tls
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._make = make
        self._count = count
        self._make_room = make_room
        self._arriving: dict[asyncio.Task[None], float] = {}
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_PASS):
            most = HANDSHAKES_MAX if self.tls is not None else CONNECTIONS_MAX
            arriving = len(self._arriving)
            if arriving >= most or self._count() + arriving >= CONNECTIONS_MAX:
                self._drop_slow()
                self._make_room()
                self._rest()
                return
            try:
                sock, _ = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                self._rest()
                return
            sock.setblocking(False)
            task = self._loop.create_task(self._connect(sock))
            self._arriving[task] = self._loop.time()
            task.add_done_callback(self._arriving.pop)

    async def _connect(self, sock: socket.socket) -> None:
        try:
            if self.tls is None:
                await self._loop.connect_accepted_socket(self._make, sock)
            else:
                await self._loop.connect_accepted_socket(
                    self._make,
                    sock,
                    ssl=self.tls,
                    ssl_handshake_timeout=TLS_HELLO_S,
                    ssl_shutdown_timeout=TLS_BYE_S,
                )
        except (OSError, asyncio.CancelledError):
            sock.close()

    def _drop_slow(self) -> None:
        """Those whose handshake takes long make room: a stalled one costs them nothing."""
        until = self._loop.time() - SPARED_S
        for task in [task for task, since in self._arriving.items() if since < until]:
            task.cancel()

    def _rest(self) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._pause = self._loop.call_later(REST_S, self._resume)

    def _resume(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept nothing any more."""
        if self._listening.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        for task in self._arriving:
            task.cancel()
