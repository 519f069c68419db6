"""A TCP proxy that writes down what passes, and changes nothing.

What a side said is noted before it is passed on, so the notes of one connection are in an order
that could not have been otherwise: an answer never stands before what it answers.
"""

from __future__ import annotations

import socket
import threading
from typing import Literal

from tests.support.scoped import Scoped

HOST = "127.0.0.1"
CLIENT: Literal["C"] = "C"
SERVER: Literal["S"] = "S"
Side = Literal["C", "S"]

_READ_SIZE = 1 << 16
_CLOSE_S = 30.0


class Tape:
    """What was said over one connection, piece by piece; `over` once both sides have hung up."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Side, bytes]] = []
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._open_sides = 2

    def note(self, side: Side, data: bytes) -> None:
        with self._lock:
            self.pieces.append((side, data))

    def hung_up(self) -> None:
        with self._lock:
            self._open_sides -= 1
            if self._open_sides == 0:
                self.over.set()

    def said(self, side: Side) -> bytes:
        """Everything that one side said so far."""
        with self._lock:
            return b"".join(data for who, data in self.pieces if who == side)


class Proxy(Scoped):
    """Listens on a port of its own and passes every connection on to the server's."""

    def __init__(self, server_port: int) -> None:
        self.tapes: list[Tape] = []
        self._server_port = server_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def said(self, side: Side) -> bytes:
        """Everything that one side said so far, over all connections."""
        return b"".join(tape.said(side) for tape in list(self.tapes))

    def close(self) -> None:
        """Accept no more, and wait until every connection has come to its end."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        for number, tape in enumerate(self.tapes, 1):
            assert tape.over.wait(_CLOSE_S), f"connection {number} was never closed"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((HOST, self._server_port))
            except OSError:
                client.close()
                continue
            tape = Tape()
            self.tapes.append(tape)
            for side, source, sink in ((CLIENT, client, server), (SERVER, server, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pump = threading.Thread(target=_pump, args=(tape, side, source, sink), daemon=True)
                pump.start()


def _pump(tape: Tape, side: Side, source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(_READ_SIZE):
            tape.note(side, data)
            sink.sendall(data)
    except OSError:
        pass  # the other side is gone; so is this one
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    tape.hung_up()
    if tape.over.is_set():
        source.close()
        sink.close()
