"""What the scenes share: limits of memory, and connections with TLS or without."""

import socket
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import trustme

from bench.findings import Finding
from bench.servers import Server, control_status

RSS_MAX_MB = 400.0
RSS_MAX_LARGE_MB = 800.0
LARGE_BYTES = 64 << 20
PATIENCE_S = 120.0
ASK_EVERY_S = 0.02
WAIT_MAX_MS = 1_000.0


@dataclass(frozen=True, slots=True)
class Security:
    """What a server with TLS is started with, and what its clients trust; nothing without TLS."""

    flags: tuple[str, ...] = ()
    context: ssl.SSLContext | None = None

    def connect(self, port: int) -> socket.socket:
        """A connection whose handshake is over."""
        sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context is None:
            return sock
        return self.context.wrap_socket(sock, server_hostname="127.0.0.1")


def security(directory: Path, has_tls: bool) -> Security:
    """TLS with a certificate of its own, or none."""
    if not has_tls:
        return Security()
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key = directory / "chain.pem", directory / "key.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(key)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return Security(("--tls-cert", str(chain), "--tls-key", str(key)), context)


def memory(name: str, server: Server, limit_mb: float = RSS_MAX_MB, more: str = "") -> Finding:
    """The most memory that the server ever had."""
    return Finding(name, "rss_max_mb", server.rss_max_mb(), limit_mb, more=more)


class Asking:
    """Somebody else, who asks for the server's status all the time and notes the longest wait."""

    def __init__(self, server: Server) -> None:
        assert server.data is not None
        self.wait_max_ms = 0.0
        self.asked = 0
        self._path = server.data / "control.sock"
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="asking")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._ends.wait(ASK_EVERY_S):
            began = time.monotonic()
            try:
                control_status(self._path, PATIENCE_S)
            except (OSError, ValueError):
                self.wait_max_ms = PATIENCE_S * 1e3  # as good as never
                return
            self.asked += 1
            self.wait_max_ms = max(self.wait_max_ms, (time.monotonic() - began) * 1e3)

    def finding(self, name: str) -> Finding:
        """That others were served all the while."""
        return Finding(name, "others_wait_max_ms", self.wait_max_ms, WAIT_MAX_MS)
