"""A client of PyPI's `eventmq`, told what to do line by line.

Its words are those of the library; what the library has no word for (waiting for an answer, an
admin's question, a subscription) is said with the library's own socket or with `zmq`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import zmq
from eventmq.client import jobs, messages
from eventmq.constants import PROTOCOL_VERSION
from eventmq.poller import POLLIN, Poller
from eventmq.sender import Sender
from eventmq.utils.messages import generate_msgid

from tests.real.programs import eventmq_jobs
from tests.real.programs.jobs import obey

Facts = dict[str, Any]
_ANSWER_MS = 20_000


class Client:
    """One socket for requests, and others as they are needed."""

    def __init__(self, spec: Facts) -> None:
        self._spec = spec
        os.environ["EMQ_BROKER_ADDR"] = spec["requests"]
        self._requests = self._connected("requests")
        self._publisher: Any = None
        self._nameless: Any = None
        self._subscriptions: dict[str, Any] = {}

    def defer(self, func: str, **how: Any) -> str:
        """`defer_job`; the message id."""
        return str(messages.defer_job(self._requests, func, **how))

    def defer_many(self, func: str, arguments: list[list[Any]], **how: Any) -> list[str]:
        """One `defer_job` for each list of arguments."""
        return [self.defer(func, args=args, **how) for args in arguments]

    def delay_many(self, arguments: list[list[Any]]) -> list[str]:
        """The decorator and its `delay`: each a socket of its own, made, used once and dropped."""
        job = jobs.job(eventmq_jobs.echo)
        return [str(job.delay(*args)) for args in arguments]

    def schedule(self, func: str, **how: Any) -> str:
        """`client.messages.schedule`, which unschedules too."""
        return str(messages.schedule(self._requests, func, **how))

    def schedule_by_helper(self, func: str, **how: Any) -> str:
        """`eventmq.schedule`, with a socket of its own."""
        return str(jobs.schedule(func, **how))

    def answers(self, count: int, within_ms: int = _ANSWER_MS) -> list[list[str]]:
        """The next messages to the socket of requests, each from its command on; fewer if late."""
        return [frames[2:] for frames in self._received(self._requests, count, within_ms)]

    def admin(self, command: str) -> Facts | None:
        """What an admin's question is answered, as JSON."""
        socket = self._connected("admin")
        socket.send_multipart((command, generate_msgid("admin:")), PROTOCOL_VERSION)
        for frames in self._received(socket, 1, _ANSWER_MS):
            found: Facts = json.loads(frames[4])
            socket.zsocket.close()
            return found
        raise TimeoutError(f"no answer to {command}")

    def publish(self, topic: str, message: object) -> str:
        """`send_publish_request`, over one socket."""
        if self._publisher is None:
            self._publisher = self._connected("publish")
        return str(messages.send_publish_request(self._publisher, topic, message))

    def subscribe(self, prefix: str) -> None:
        """A subscriber, as the package's own: a plain SUB socket."""
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
        socket.linger = 0
        socket.setsockopt(zmq.SUBSCRIBE, prefix.encode())
        socket.connect(self._spec["subscribe"])
        self._subscriptions[prefix] = socket

    def heard(self, prefix: str, count: int, within_ms: int = _ANSWER_MS) -> list[list[str]]:
        """The next messages to that subscriber; fewer if late."""
        socket = self._subscriptions[prefix]
        found = _receive(socket, socket.poll, count, within_ms)
        return [[frame.decode() for frame in frames] for frames in found]

    def nameless(self, frames: list[str]) -> None:
        """A message from a DEALER without an identity of its own, as it is."""
        if self._nameless is None:
            self._nameless = zmq.Context.instance().socket(zmq.DEALER)
            self._nameless.linger = 0
            self._nameless.connect(self._spec["requests"])
        self._nameless.send_multipart([frame.encode() for frame in frames])

    def nameless_answer(self) -> list[str]:
        """The next message to it, from its command on."""
        if not self._nameless.poll(_ANSWER_MS):
            raise TimeoutError("no answer to a peer without a name")
        return [frame.decode() for frame in self._nameless.recv_multipart()][2:]

    def _connected(self, where: str) -> Any:
        socket = Sender()
        socket.connect(self._spec[where])
        return socket

    def _received(self, socket: Any, count: int, within_ms: int) -> list[Any]:
        poller = Poller()
        poller.register(socket, POLLIN)
        return _receive(socket, lambda ms: socket in poller.poll(ms), count, within_ms)


def _receive(socket: Any, poll: Callable[[float], Any], count: int, within_ms: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + within_ms / 1_000
    while len(found) < count and poll(max(0, deadline - time.monotonic()) * 1_000):
        found.append(socket.recv_multipart())
    return found


if __name__ == "__main__":
    client = Client(json.loads(sys.argv[1]))
    obey(*(getattr(client, name) for name in dir(client) if not name.startswith("_")))
