"""Gearman, one command at a time. A worker is told nothing of a completion, so that is no promise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tests.prove.talks import QUEUE, Command, Dialogue
from tests.support.gearman import Gearman, Type, request, take_packet

_ANSWERS = (Type.JOB_CREATED, Type.ERROR, Type.NO_JOB, Type.JOB_ASSIGN, Type.ECHO_RES)
_PROMISES = {"push": Type.JOB_CREATED, "fetch": Type.JOB_ASSIGN}


class Talk(Dialogue):
    """The server knows a job by the handle that it made for it."""

    client: Gearman

    def __init__(self, port: int, worker: str = "") -> None:
        super().__init__()
        self.client = Gearman(port)
        self._handles: dict[str, bytes] = {}  # of the jobs that were taken
        if worker:
            self.client.can_do(QUEUE)

    def push(self, names: Sequence[str]) -> None:
        packets = [
            request(Type.SUBMIT_JOB_BG, QUEUE.encode(), b"", json.dumps([name, "x" * 50]).encode())
            for name in names
        ]
        self.client.send_bytes(b"".join(packets))
        for name in names:
            self.said.append(Command("push", (name,)))
            handle = self.client.wait_for(Type.JOB_CREATED).checked().body
            self.names[name] = handle.decode()

    def take(self) -> str | None:
        self.said.append(Command("fetch"))
        work = self.client.grab()
        if work is None:
            return None
        name: str = json.loads(work.body)[0]
        self._handles[name] = work.handle
        self.said[-1] = Command("fetch", (name,))
        return name

    def finish(self, name: str) -> None:
        packet = request(Type.WORK_COMPLETE, self._handles[name], b"")
        self._report(Command("ack", (name,)), packet)

    def fail(self, name: str) -> None:
        # What follows is the job's own affair; for one of this protocol it is the end.
        self._report(Command("ack", (name,)), request(Type.WORK_FAIL, self._handles[name]))

    def _report(self, command: Command, packet: bytes) -> None:
        self.said.append(command)
        self.client.send_bytes(packet)
        errors = self.client.echo()
        assert not errors, errors

    def take_answers(self, buffer: bytearray) -> Iterator[bytes]:
        while (packet := take_packet(buffer)) is not None:
            if packet.type in _ANSWERS:
                yield bytes([packet.type])

    def is_yes(self, verb: str, answer: bytes) -> bool:
        return answer[0] == _PROMISES.get(verb)


def talk(port: int, worker: str = "") -> Talk:
    return Talk(port, worker)
