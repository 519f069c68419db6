"""TCP relays between a client and the server, which write down what passes, and may cut it off or hold it back.

What a side said is noted before it is passed on, so the notes of one connection are in an order
that could not have been otherwise: an answer never stands before what it answers.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from tests.support.scoped import Scoped

HOST = "127.0.0.1"
CLIENT: Literal["C"] = "C"
SERVER: Literal["S"] = "S"
Side = Literal["C", "S"]

_CLOSE_S = 30.0


class Tape(list[tuple[Side, bytes]]):
    """What was said over one connection, piece by piece."""

    def said(self, side: Side) -> bytes:
        """Everything that one side said so far."""
        return b"".join(data for who, data in list(self) if who == side)


class Relay(Scoped):
    """Listens on a port of its own, passes every connection on to the server's and changes nothing."""

    read_size = 1 << 18
    cuts_at_close = False

    def __init__(self, server_port: int) -> None:
        self.tapes: list[Tape] = []
        self._server_port = server_port
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = self._start(self._accept)

    def said(self, side: Side) -> bytes:
        """Everything that one side said so far, over all connections."""
        return b"".join(tape.said(side) for tape in list(self.tapes))

    def cut(self) -> None:
        """End every connection there is; new ones may be made."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no more, and wait until every connection has come to its end, unless it is cut."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        if self.cuts_at_close:
            self.cut()
        for number, thread in enumerate(self._threads, 1):
            thread.join(_CLOSE_S)
            assert not thread.is_alive(), f"connection {number} was never closed"

    def passes(self, tape: Tape, side: Side) -> bool:
        """Whether the last piece that this side said is passed on; returning may take a while."""
        return True

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection((HOST, self._server_port))
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                self._threads.append(self._start(self._carry, client, server))

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        tape = Tape()
        self.tapes.append(tape)
        with client, server:
            back = self._start(self._pump, tape, SERVER, server, client)
            self._pump(tape, CLIENT, client, server)
            back.join()

    def _pump(self, tape: Tape, side: Side, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # the other side is gone; so is this one
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := source.recv(self.read_size):
                tape.append((side, data))
                if self.passes(tape, side):
                    sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _start(self, run: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=run, args=args, daemon=True)
        thread.start()
        return thread
