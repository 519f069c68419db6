"""Faktory, one command at a time: every command has its answer, and each that says yes is a promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.prove.talks import QUEUE, Command, Dialogue
from tests.support.faktory import (
    Faktory,
    ack_line,
    fail_line,
    job,
    job_in,
    push_line,
    push_many_line,
)

_TAKEN = (b"+OK\r\n", b"$2\r\n{}\r\n")


class Talk(Dialogue):
    """HI and the answer to HELLO come before the first command's."""

    greetings = 2
    client: Faktory

    def __init__(self, port: int, worker: str = "") -> None:
        super().__init__()
        self.client = Faktory(port).hello(wid=worker or None)
        self._jids: dict[str, str] = {}  # of the jobs that were taken

    def push(self, names: Sequence[str]) -> None:
        works = [job(name, name, "x" * 50, queue=QUEUE, retry=25) for name in names]
        line = push_line(works[0]) if len(works) == 1 else push_many_line(works)
        self._say(Command("push", tuple(names)), line)

    def take(self) -> str | None:
        self.said.append(Command("fetch"))
        got = job_in(self.client.call(f"FETCH {QUEUE}"))
        if got is None:
            return None
        name: str = got["args"][0]
        self._jids[name] = got["jid"]
        self.said[-1] = Command("fetch", (name,))
        return name

    def finish(self, name: str) -> None:
        self._say(Command("ack", (name,)), ack_line(self._jids[name]))

    def fail(self, name: str) -> None:
        self._say(Command("fail", (name,)), fail_line(self._jids[name]))

    def leave(self) -> None:
        self.client.end()

    def _say(self, command: Command, line: str) -> None:
        self.said.append(command)
        self.client.call(line).checked()

    def take_answers(self, buffer: bytearray) -> Iterator[bytes]:
        return take_replies(buffer)

    def is_yes(self, verb: str, answer: bytes) -> bool:
        return answer in _TAKEN if verb == "push" else not answer.startswith(b"-")


def talk(port: int, worker: str = "") -> Talk:
    return Talk(port, worker)


def take_replies(buffer: bytearray) -> Iterator[bytes]:
    """Take the whole replies off the front: a line, or a bulk string with its two line ends."""
    while (line_end := buffer.find(b"\r\n")) >= 0:
        end = line_end + 2
        if buffer[:1] == b"$" and (size := int(buffer[1:line_end])) >= 0:
            end += size + 2
            if len(buffer) < end:
                return
        yield bytes(buffer[:end])
        del buffer[:end]
