"""EventMQ, one command at a time: the answer to STATUS behind it is the promise, for requests and for results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tests.prove.talks import QUEUE, Command, Dialogue
from tests.support.eventmq import GREETING_SIZE, EventMQ, call, take_frames

_NAP_S = 0.05
_STATUS, _JOB = b"status", b"job"


class Talk(Dialogue):
    """A worker that was given nothing goes on waiting with the same READY."""

    client: EventMQ

    def __init__(self, port: int, worker: str = "") -> None:
        super().__init__()
        self.client = EventMQ(port)
        self._given: dict[str, str] = {}
        self._waiting = False
        self._greeted = False
        if worker:
            self.client.inform((10, QUEUE), (10, "default"))

    def push(self, names: Sequence[str]) -> None:
        self.said.append(Command("push", tuple(names)))
        for name in names:
            self.client.request(call("prove", "run", name, "x" * 50), QUEUE, msgid=name)
        self._settle()

    def take(self) -> str | None:
        if not self._waiting:
            self.said.append(Command("fetch"))
            self.client.ready()
            self._waiting = True
        self.client.beat_if_due()
        self.client.set_timeout(_NAP_S)
        try:
            job = self.client.next_job()
        except TimeoutError:
            return None
        finally:
            self.client.set_timeout(10.0)
        self._waiting = False
        name: str = json.loads(job.body)[1]["args"][0]
        self._given[name] = job.msgid
        self.said[-1] = Command("fetch", (name,))
        return name

    def finish(self, name: str) -> None:
        self.said.append(Command("ack", (name,)))
        self.client.reply(self._given[name])
        self._settle()

    def fail(self, name: str) -> None:
        # What follows is the job's own affair; for one of this protocol it may be the end.
        self.said.append(Command("ack", (name,)))
        self.client.reply(self._given[name], b'{"error": "planned"}')
        self._settle()

    def _settle(self) -> None:
        self.client.say("STATUS", msgid="admin:status")
        while not self.client.hear("REPLY")[4].startswith(b'{"inflight'):
            pass

    def take_answers(self, buffer: bytearray) -> Iterator[bytes]:
        if not self._greeted:
            if len(buffer) < GREETING_SIZE:
                return
            del buffer[:GREETING_SIZE]
            self._greeted = True
        while (frames := take_frames(buffer)) is not None:
            if len(frames) > 4 and frames[2] == b"REPLY" and frames[4].startswith(b'{"inflight'):
                yield _STATUS
            elif len(frames) > 4 and frames[2] == b"REQUEST":
                yield _JOB

    def is_yes(self, verb: str, answer: bytes) -> bool:
        # A failure says nothing about whether the job is still there.
        return answer == (_JOB if verb == "fetch" else _STATUS) and verb != "ack"


def talk(port: int, worker: str = "") -> Talk:
    return Talk(port, worker)
