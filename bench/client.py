"""The least Faktory client that the benchmarks need: raw bytes over a blocking socket."""

import json
import socket
import ssl
from typing import Self

REPLY_TIMEOUT_S = 60.0


class Unexpected(Exception):
    """The server said something else than what the benchmark relies on."""


class Client:
    """A connection that has said HELLO: a consumer if it has a worker's id, else a producer.

    Who would rather read from `sock` may do so whenever no reply is due.
    """

    __slots__ = ("_replies", "sock")

    def __init__(
        self, port: int, worker_id: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=REPLY_TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname="127.0.0.1")
        self._replies = self.sock.makefile("rb")
        self.expect(b"+HI ")
        hello: dict[str, object] = {"v": 2}
        if worker_id is not None:
            hello |= {"wid": worker_id, "hostname": "bench", "pid": 1, "labels": []}
        self.send(b"HELLO " + json.dumps(hello).encode())
        self.expect(b"+OK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._replies.close()
        self.sock.close()

    def send(self, command: bytes) -> None:
        """Send one command, without waiting for its reply."""
        self.sock.sendall(command + b"\r\n")

    def expect(self, start: bytes) -> bytes:
        """The next line of a reply, which must begin with `start`."""
        line = self._replies.readline()
        if not line.startswith(start):
            raise Unexpected(f"{line[:200]!r}, and {start!r} was expected")
        return line

    def fetch(self, queue: bytes) -> bytes | None:
        """Ask for a job of `queue` and wait: its JSON, or None when the server has none."""
        self.send(b"FETCH " + queue)
        if self.expect(b"$").startswith(b"$-1"):
            return None
        return self.expect(b"{")
