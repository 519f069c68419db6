"""The server that peers come to: Franca, or the original in its place."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.real.kit import DEADLINE_S
from tests.support.server import HOST, Server, ServerFailed, free_port

_POLL_S = 0.01


class Franca(Server):
    """The product, with a Gearman listener."""

    def __init__(self, data: Path, *args: str) -> None:
        super().__init__(data, speaks=("gearman",), extra_args=args)

    @property
    def gearman(self) -> int:
        return self.ports["gearman"]


class TlsFranca(Franca):
    """One that greets nobody without a certificate: that it listens must do."""

    def _greets(self) -> bool:
        return True


class Gearmand:
    """The original, with a store. Its handles begin at 1 with every start."""

    def __init__(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.data = data
        self.gearman = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        argv = [
            "gearmand", "--listen", HOST, "--port", str(self.gearman),
            "--log-file", str(self.data / "log"), "--pid-file", str(self.data / "pid"),
            "--queue-type", "libsqlite3", "--libsqlite3-db", str(self.data / "queue"),
        ]  # fmt: skip
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection((HOST, self.gearman), timeout=1.0).close()
                return self
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise ServerFailed("gearmand does not listen") from None
            time.sleep(_POLL_S)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "never started"
        return self._process

    def kill9(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> Self:
        self.kill9()
        return self.start()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def wait(self, timeout: float) -> int:
        return self.process.wait(timeout)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill9()
