"""A cable between a client and a server that can be cut, and is whole again at once."""

from __future__ import annotations

import socket
import threading

from tests.support.scoped import Scoped

HOST = "127.0.0.1"
_READ_SIZE = 1 << 18


class Cable(Scoped):
    """Passes every connection on to the server's port, until it is cut. `cuts` ends them all."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._deaf = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection there is; new ones may be made."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            _close(one)

    def lose_replies(self) -> None:
        """From now on nothing that the server says arrives, until the next cut."""
        self._deaf = True

    def heal(self) -> None:
        """Cut, and pass everything on again afterwards."""
        self.cut()
        self._deaf = False

    def close(self) -> None:
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._server_port))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                _close(client)
                continue
            with self._lock:
                self._sockets += [client, server]
            for source, sink, said in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=self._pass_on, args=(source, sink, said), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, by_server: bool) -> None:
        try:
            while data := source.recv(_READ_SIZE):
                if not (by_server and self._deaf):
                    sink.sendall(data)
        except OSError:
            pass  # it was cut
        _close(source)
        _close(sink)


def _close(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
