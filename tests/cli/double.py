"""A stand-in for a server: a control socket that gives recorded answers, and notes what it is asked.

For the shapes of answers that are told here once; that a real server gives them is tested with it.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from franca.control.path import listen_on

Answer = Callable[[dict[str, Any]], Any]


class Refusal(Exception):
    """What an answer raises to decline."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Double:
    """`answers` by operation: a value, or a function of the parameters. `asked` is what came."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def params_of(self, op: str) -> list[dict[str, Any]]:
        """The parameters of every question of this name."""
        return [params for name, params in self.asked if name == op]

    def reply(self, line: bytes) -> bytes:
        """What is said to one line."""
        request = json.loads(line)
        op, params = request["op"], request["params"]
        self.asked.append((op, params))
        try:
            if op not in self.answers:
                raise Refusal("bad-request", f"there is no operation {op!r}")
            answer = self.answers[op]
            result = answer(params) if callable(answer) else answer
        except Refusal as refusal:
            error = {"code": refusal.code, "text": str(refusal)}
            return json.dumps({"ok": False, "error": error}).encode()
        return json.dumps({"ok": True, "result": result}).encode()


@contextlib.contextmanager
def answering(double: Double, directory: Path) -> Iterator[None]:
    """Have it answer in this data directory."""
    listening = listen_on(str(directory))
    listening.listen(16)

    def serve() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            with peer, peer.makefile("rwb") as file:
                for line in file:
                    file.write(double.reply(line) + b"\n")
                    file.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)
