"""Hostile peers of all protocols in a process of their own, to see whether anybody else notices.

`python -m tests.prove.crowd ORDER` sends what good clients never do: spoiled messages in sound frames, rubbish,
floods, huge and endless messages, half ones, and words of other protocols. All jobs that it makes lie in queues of
its own. Words that hurt neighbours by what they mean (FLUSH, a pause of all queues, somebody else's job cancelled) are left out;
those that stop a server are said too, and must be refused.

A message got past the reader if what came behind it on the same connection was answered. Each line on standard
input is answered with the figures so far.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from random import Random

import msgspec

from tests.prove.fuzzing import PROTOCOLS, RAW, Message, of
from tests.prove.fuzzing.spoil import spoiled_bytes, spoiled_message
from tests.prove.hostile.raw import Raw
from tests.prove.hostile.strangers import FIRST_WORDS
from tests.support import eventmq, gearman, memodb, periodic
from tests.support.scoped import Scoped
from tests.support.server import ROOT

HOARD = "hoard"
"""The queue of jobs that are too large to be many."""
_PEERS = 6  # threads of each protocol
_ANSWER_S = 0.5
_FLOOD_S = 5.0
_HALVES = 8
_PIECE = 1 << 16
_HOARD_BYTES = 4 << 20
_HOARD_EVERY_S = 60.0


class Order(msgspec.Struct):
    """Whom to bother, and how much: messages in a second of each protocol, large jobs in each hoard."""

    ports: dict[str, int]
    seed: int
    pace: float
    hoard: int


class Figures(msgspec.Struct):
    """What was sent since the beginning."""

    sent: dict[str, int]
    past: dict[str, int]
    connections: int
    faults: list[str]


class Crowd(Scoped):
    """The harness's end of the process."""

    def __init__(self, order: Order) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.prove.crowd", msgspec.json.encode(order).decode()],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def figures(self) -> Figures:
        """What it has sent so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Figures)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# -- how each protocol is spoken -----------------------------------------------------------------


class Tongue(msgspec.Struct, frozen=True):
    """A greeting, a last word and its answer; a word that may be said a thousand times; a large job."""

    hello: bytes
    last: bytes
    answer: bytes
    small: bytes
    large: Message
    """With `<large>` where its body goes."""
    harm: bytes
    """A pattern of what hurts neighbours by what it means."""


_BODY = b"<large>"


def _periodic(command: int, args: bytes = b"", msgid: bytes = b"0001") -> bytes:
    return of("periodic").encode((msgid, bytes([command]), args))


def _memodb(message: bytes) -> bytes:
    return of("memodb").encode((b"\xff\xff\xff\xff", message))


_PONG = of("periodic").encode((b"last", bytes([periodic.PONG]))).replace(b"\0REQ", b"\0RES")
_ECHO = b"the last word"
TONGUES: Mapping[str, Tongue] = {
    "faktory": Tongue(
        b'HELLO {"v":2}\r\n', b"QUEUE LATENCY the-last-word\r\n", b'"the-last-word":', b"QUEUE LATENCY q\r\n",
        (b"PUSH", b'{"jid":"large-job","jobtype":"x","queue":"q","args":["' + _BODY + b'"]}'),
        rb"(?i)FLUSH|QUEUE.*\*",
    ),
    "gearman": Tongue(
        b"", gearman.request(gearman.Type.ECHO_REQ, _ECHO), _ECHO, gearman.request(gearman.Type.ECHO_REQ, b"x"),
        (bytes([gearman.Type.SUBMIT_JOB_BG]), b"q", b"", _BODY), b"cancel",
    ),
    "periodic": Tongue(
        of("periodic").encode((b"\x02",)), _periodic(periodic.PING, msgid=b"last"), _PONG, _periodic(periodic.PING),
        (b"0001", bytes([periodic.SUBMIT_JOB]), b"\x01q\x01n", _BODY),
        b"timeout|keepalive|" + re.escape(bytes([periodic.CONFIG_SET])),
    ),
    "memodb": Tongue(
        memodb.HELLO, _memodb(memodb.heartbeat(b"last")), b"last", _memodb(memodb.heartbeat(b"nobody")),
        (b"\x80\0\0\1", memodb.job("q", b"", 100), _BODY), b"$^",
    ),
    "eventmq": Tongue(
        eventmq.handshake(), eventmq._command(b"PING", b"\0\0last"), eventmq._command(b"PONG", b"last"),
        eventmq._command(b"PING", b"\0\0"),
        (b"", b"eMQP/1.0", b"REQUEST", b"large", b"q", b"", _BODY), b"$^",
    ),
}  # fmt: skip


def _grown(message: Message, body: bytes) -> Message:
    """The large job with a body; Periodic says its size in front."""
    size = len(body).to_bytes(4, "big")
    if message[-1:] == (_BODY,) and message[2:3] == (b"\x01q\x01n",):
        return (*message[:-1], size, body, b"\0" * 9)
    return tuple(part.replace(_BODY, body) for part in message)


# -- the peers -----------------------------------------------------------------------------------


class Peer(threading.Thread):
    """One after the other, connections on which something is wrong."""

    def __init__(self, protocol: str, order: Order, seed: str) -> None:
        super().__init__(daemon=True)
        self.protocol = protocol
        self.port = order.ports[protocol]
        self.pace = order.pace / _PEERS
        self.rng = Random(seed)
        self.seeds = of(protocol)
        self.tongue = TONGUES[protocol]
        self.sent = self.past = self.connections = 0
        self.fault = ""
        self._harm = re.compile(self.tongue.harm, re.DOTALL)
        self._halves: deque[Raw] = deque(maxlen=_HALVES)
        self._messages = [
            message
            for exchange in self.seeds.EXCHANGES
            for step in exchange
            for message in step.messages
            if message[:1] != (RAW,) or len(message) != 2
        ]

    def run(self) -> None:
        began = time.monotonic()
        ways = (self._talk, self._flood, self._shout, self._stop_halfway, self._mistake_the_door)
        try:
            while True:
                (way,) = self.rng.choices(ways, (80, 3, 2, 6, 9))
                with suppress(OSError):
                    way()
                self.connections += 1
                ahead = self.sent / self.pace - (time.monotonic() - began)
                time.sleep(min(max(ahead, 0.001), 1.0))
        except Exception as error:
            self.fault = f"{self.protocol}: {error!r}"

    def _greeted(self, timeout: float = _ANSWER_S) -> Raw:
        peer = Raw(self.port, timeout)
        peer.send(self.tongue.hello)
        return peer

    def _is_heard(self, peer: Raw, count: int) -> bool:
        """Say the last word behind so many messages; whether it is answered."""
        self.sent += count
        del peer.heard[:]
        peer.send(self.tongue.last)
        peer.read_until(self.tongue.answer)
        self.past += count
        return True

    def _message(self) -> bytes:
        """One that is sound, or has something wrong with it."""
        while True:
            message = self.rng.choice(self._messages)
            if self.rng.random() < 0.5:
                message = spoiled_message(message, self.seeds.VALUES, self.rng)
            data = self.seeds.encode(message)
            if not self._harm.search(data):
                return self._filled(data)

    def _filled(self, data: bytes) -> bytes:
        """With a handle as the server makes them, of some job or other."""
        if self.protocol == "gearman":
            host = socket.gethostname().encode()
            data = data.replace(b"@1", b"H:%b:%d" % (host, self.rng.randrange(1, 50_000)))
        return data

    def _talk(self) -> None:
        """A few messages, and whether those behind them are still heard; and so on."""
        with self._greeted() as peer:
            for _ in range(self.rng.choice((3, 10, 30))):
                messages = [self._message() for _ in range(self.rng.choice((1, 2, 3, 8)))]
                data = b"".join(messages)
                cut = self.rng.randrange(len(data) + 1)
                peer.send(data[:cut])
                peer.send(data[cut:])
                try:
                    self._is_heard(peer, len(messages))
                except TimeoutError:
                    return  # a message that promised more than it held

    def _flood(self) -> None:
        """The same small word a thousand times, and not always an ear for the answers."""
        deaf = self.rng.random() < 0.2
        count = 300 if deaf else 1_000
        with self._greeted(_FLOOD_S) as peer:
            peer.send(self.tongue.small * count)
            if deaf:
                self.sent += count
            else:
                self._is_heard(peer, count)

    def _shout(self) -> None:
        """One large job, or one that is never finished, or one that is far too large."""
        size = self.rng.choice((100_000, 1 << 20, 6 << 20))
        data = self.seeds.encode(_grown(self.tongue.large, b"x" * size))
        with self._greeted(_FLOOD_S) as peer:
            if self.rng.random() < 0.5:
                peer.send(data)
                self._is_heard(peer, 1)
                return
            self.sent += 1
            if self.rng.random() < 0.5:
                data = spoiled_bytes(data[:40], self.rng) + data[40:]
            peer.send(data[: self.rng.randrange(len(data))])

    def _stop_halfway(self) -> None:
        """Half a message, and a connection that stays."""
        peer = self._greeted()
        data = self._message()
        self.sent += 1
        peer.send(data[: self.rng.randrange(len(data) + 1)])
        if len(self._halves) == _HALVES:
            self._halves[0].close()
        self._halves.append(peer)

    def _mistake_the_door(self) -> None:
        """Words of another protocol, or noise."""
        other = TONGUES[self.rng.choice(PROTOCOLS)].hello
        words = (other, self.rng.randbytes(200), *FIRST_WORDS.values(), b"\0" * 500, b"x" * _PIECE)
        with Raw(self.port, _ANSWER_S) as peer:
            self.sent += 1
            peer.send(self.rng.choice(words) + b"\r\n" * self.rng.randrange(3))
            with suppress(OSError):
                peer.read()


class Hoarder(threading.Thread):
    """Fills a queue with large jobs now and then, and asks for one of them."""

    def __init__(self, order: Order) -> None:
        super().__init__(daemon=True)
        self.port = order.ports["faktory"]
        self.count = order.hoard
        self.fault = ""

    def run(self) -> None:
        while self.count:
            with suppress(OSError):
                self._fill()
            time.sleep(_HOARD_EVERY_S)

    def _fill(self) -> None:
        with Raw(self.port) as peer:
            peer.send(TONGUES["faktory"].hello)
            body = b"x" * _HOARD_BYTES
            for number in range(self.count):
                head = b'PUSH {"jid":"hoard-%08d","jobtype":"x","queue":"%b","args":["'
                peer.send(head % (number, HOARD.encode()) + body + b'"]}\r\n')
            peer.send(b"FETCH %b\r\nQUEUE REMOVE %b\r\n" % ((HOARD.encode(),) * 2))
            peer.send(TONGUES["faktory"].last)
            peer.read_until(TONGUES["faktory"].answer)


def main(argv: list[str]) -> None:
    order = msgspec.json.decode(argv[0], type=Order)
    peers = [
        Peer(protocol, order, f"{order.seed} {protocol} {number}")
        for protocol in order.ports
        for number in range(_PEERS)
    ]
    for thread in (*peers, Hoarder(order)):
        thread.start()
    for _ in sys.stdin:
        sent = {name: sum(p.sent for p in peers if p.protocol == name) for name in order.ports}
        past = {name: sum(p.past for p in peers if p.protocol == name) for name in order.ports}
        faults = [peer.fault for peer in peers if peer.fault]
        figures = Figures(sent, past, sum(peer.connections for peer in peers), faults)
        print(msgspec.json.encode(figures).decode(), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
