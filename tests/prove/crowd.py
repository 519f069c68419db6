"""Hostile peers of all protocols in a process of their own, to see whether anybody else notices.

`python -m tests.prove.crowd ORDER` sends what good clients never do: spoiled messages in sound frames, rubbish,
floods, huge and endless messages, half ones, and words of other protocols. All jobs that it makes lie in queues of
its own. Words that hurt neighbours by what they mean (FLUSH, a pause of all queues, somebody else's job cancelled) are left out;
those that stop a server are said too, and must be refused.

A message got past the reader if what came behind it on the same connection was answered. Each line on standard
input is answered with the figures so far.
"""

import os
import re
import socket
import sys
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from random import Random

import msgspec

from tests.prove import hostile
from tests.prove.harness import SideProcess
from tests.prove.hostile.raw import PATIENCE_S, Raw
from tests.prove.hostile.spoil import spoiled_bytes, spoiled_message
from tests.support.protocols import PROTOCOLS

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
    faults: list[str]


class Crowd(SideProcess):
    """The harness's end of the process."""

    def __init__(self, order: Order) -> None:
        super().__init__(__name__, msgspec.json.encode(order).decode())

    def figures(self) -> Figures:
        """What it has sent so far."""
        return msgspec.json.decode(self.ask(), type=Figures)


# -- the peers -----------------------------------------------------------------------------------


class Peer(threading.Thread):
    """One after the other, connections on which something is wrong."""

    def __init__(self, protocol: str, order: Order, number: int) -> None:
        super().__init__(daemon=True)
        self.protocol = protocol
        self.port = order.ports[protocol]
        self.pace = order.pace / _PEERS
        self.rng = Random(f"{order.seed} {protocol} {number}")
        self.hostility = hostile.of(protocol)
        self.sent = self.past = 0
        self.fault = ""
        self._harm = re.compile(self.hostility.harm, re.DOTALL)
        self._halves: deque[Raw] = deque(maxlen=_HALVES)
        steps = [step for exchange in self.hostility.exchanges for step in exchange]
        said = [message for step in steps for message in step.messages]
        self._messages = [m for m in said if m[:1] != (hostile.RAW,) or len(m) != 2]

    def run(self) -> None:
        began = time.monotonic()
        ways = (self._talk, self._flood, self._shout, self._stop_halfway, self._mistake_the_door)
        try:
            while True:
                (way,) = self.rng.choices(ways, (80, 3, 2, 6, 9))
                with suppress(OSError):
                    way()
                ahead = self.sent / self.pace - (time.monotonic() - began)
                time.sleep(min(max(ahead, 0.001), 1.0))
        except Exception as error:
            self.fault = f"{self.protocol}: {error!r}"

    def _greeted(self, timeout: float = _ANSWER_S) -> Raw:
        peer = Raw(self.port, timeout=timeout)
        peer.send_bytes(self.hostility.hello)
        return peer

    def _say_last(self, peer: Raw, count: int) -> None:
        """Say the last word behind so many messages; they got past the reader if it is answered."""
        self.sent += count
        del peer.unread[:]
        peer.send_bytes(self.hostility.last)
        peer.read_until(self.hostility.answer)
        self.past += count

    def _message(self) -> bytes:
        """One that is sound, or has something wrong with it."""
        while True:
            message = self.rng.choice(self._messages)
            if self.rng.random() < 0.5:
                message = spoiled_message(message, self.hostility.values, self.rng)
            data = self.hostility.encode(message)
            if self.protocol == "gearman":
                # A handle as the server makes them, of some job or other.
                handle = f"H:{socket.gethostname()}:{self.rng.randrange(1, 50_000)}"
                data = data.replace(b"@1", handle.encode())
            if not self._harm.search(data):
                return data

    def _talk(self) -> None:
        """A few messages, and whether those behind them are still heard; and so on."""
        with self._greeted() as peer:
            for _ in range(self.rng.choice((3, 10, 30))):
                messages = [self._message() for _ in range(self.rng.choice((1, 2, 3, 8)))]
                data = b"".join(messages)
                cut = self.rng.randrange(len(data) + 1)
                peer.send_bytes(data[:cut])
                peer.send_bytes(data[cut:])
                try:
                    self._say_last(peer, len(messages))
                except TimeoutError:
                    return  # a message that promised more than it held

    def _flood(self) -> None:
        """The same small word a thousand times, and not always an ear for the answers."""
        deaf = self.rng.random() < 0.2
        count = 300 if deaf else 1_000
        with self._greeted(_FLOOD_S) as peer:
            peer.send_bytes(self.hostility.small * count)
            if deaf:
                self.sent += count
            else:
                self._say_last(peer, count)

    def _shout(self) -> None:
        """One large job, or one that is never finished, or one that is far too large."""
        data = self.hostility.large(b"x" * self.rng.choice((100_000, 1 << 20, 6 << 20)))
        with self._greeted(_FLOOD_S) as peer:
            if self.rng.random() < 0.5:
                peer.send_bytes(data)
                self._say_last(peer, 1)
                return
            self.sent += 1
            if self.rng.random() < 0.5:
                data = spoiled_bytes(data[:40], self.rng) + data[40:]
            peer.send_bytes(data[: self.rng.randrange(len(data))])

    def _stop_halfway(self) -> None:
        """Half a message, and a connection that stays."""
        peer = self._greeted()
        data = self._message()
        self.sent += 1
        peer.send_bytes(data[: self.rng.randrange(len(data) + 1)])
        if len(self._halves) == _HALVES:
            self._halves[0].close()
        self._halves.append(peer)

    def _mistake_the_door(self) -> None:
        """Words of another protocol, or noise."""
        other = hostile.of(self.rng.choice(PROTOCOLS)).hello
        noise = (self.rng.randbytes(200), b"\0" * 500, b"x" * _PIECE)
        with Raw(self.port, timeout=_ANSWER_S) as peer:
            self.sent += 1
            words = self.rng.choice((other, *noise, *hostile.FIRST_WORDS))
            peer.send_bytes(words + b"\r\n" * self.rng.randrange(3))
            with suppress(OSError):
                peer.fill()


def _hoard(order: Order) -> None:
    """Fill a queue with large jobs now and then, and ask for one of them."""
    probe, queue = hostile.of("faktory"), HOARD.encode()
    head = b'PUSH {"jid":"hoard-%08d","jobtype":"x","queue":"%b","args":["'
    while order.hoard:
        with suppress(OSError), Raw(order.ports["faktory"], timeout=PATIENCE_S) as peer:
            peer.send_bytes(probe.hello)
            for number in range(order.hoard):
                peer.send_bytes(head % (number, queue) + b"x" * _HOARD_BYTES + b'"]}\r\n')
            peer.send_bytes(b"FETCH %b\r\nQUEUE REMOVE %b\r\n" % (queue, queue))
            peer.send_bytes(probe.last)
            peer.read_until(probe.answer)
        time.sleep(_HOARD_EVERY_S)


def main(argv: list[str]) -> None:
    order = msgspec.json.decode(argv[0], type=Order)
    peers = [Peer(name, order, number) for name in order.ports for number in range(_PEERS)]
    for thread in (*peers, threading.Thread(target=_hoard, args=(order,), daemon=True)):
        thread.start()
    for _ in sys.stdin:
        figures = Figures(Counter(), Counter(), [peer.fault for peer in peers if peer.fault])
        for peer in peers:
            figures.sent[peer.protocol] += peer.sent
            figures.past[peer.protocol] += peer.past
        print(msgspec.json.encode(figures).decode(), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
