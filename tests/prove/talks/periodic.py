"""Periodic, one command at a time. A GRAB_JOB is answered twice, and only the job itself is the answer that counts."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence

from tests.prove.talks import QUEUE, Command, Dialogue
from tests.support.periodic import (
    CLIENT,
    GRAB_JOB,
    JOB_ASSIGN,
    SUBMIT_JOB,
    SUCCESS,
    WORKER,
    Periodic,
    packed,
)

_NAP_S = 0.05
_HEAD = struct.Struct(">4sII")


class Talk(Dialogue):
    """A worker that was given nothing goes on waiting for the same GRAB_JOB."""

    greetings = 1
    client: Periodic

    def __init__(self, port: int, worker: str = "") -> None:
        super().__init__()
        self.client = Periodic(port, role=WORKER if worker else CLIENT)
        self._handles: dict[str, bytes] = {}
        self._grabbing = False
        self._grabs: set[bytes] = set()
        if worker:
            self.client.can_do(QUEUE)
            self.greetings = 2

    def push(self, names: Sequence[str]) -> None:
        asked = []
        for name in names:
            self.said.append(Command("push", (name,)))
            workload = json.dumps([name, "x" * 50]).encode()
            asked.append(self.client.send(SUBMIT_JOB, packed(QUEUE, name, workload)))
        for msgid in asked:
            answer = self.client.answer(msgid)
            assert answer.command == SUCCESS, answer

    def take(self) -> str | None:
        if not self._grabbing:
            self.said.append(Command("fetch"))
            self._grabs.add(self.client.send(GRAB_JOB))
            self._grabbing = True
        self.client.set_timeout(_NAP_S)
        try:
            job = self.client.next_job()
        except TimeoutError:
            return None
        finally:
            self.client.set_timeout(10.0)
        self._grabbing = False
        name: str = json.loads(job.workload)[0]
        self._handles[name] = job.handle
        self.said[-1] = Command("fetch", (name,))
        return name

    def finish(self, name: str) -> None:
        self.said.append(Command("ack", (name,)))
        self.client.done(self._handles[name])

    def fail(self, name: str) -> None:
        self.said.append(Command("fail", (name,)))
        self.client.fail(self._handles[name])

    def take_answers(self, buffer: bytearray) -> Iterator[bytes]:
        while len(buffer) >= _HEAD.size:
            end = _HEAD.size + _HEAD.unpack_from(buffer)[1]
            if len(buffer) < end:
                return
            payload = bytes(buffer[_HEAD.size : end])
            del buffer[:end]
            if payload[:4] not in self._grabs or payload[4] == JOB_ASSIGN:
                yield payload[4:5]

    def is_yes(self, verb: str, answer: bytes) -> bool:
        return answer[0] == (JOB_ASSIGN if verb == "fetch" else SUCCESS)


def talk(port: int, worker: str = "") -> Talk:
    return Talk(port, worker)
