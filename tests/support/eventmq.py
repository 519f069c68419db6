"""An EventMQ client and worker on one connection, small enough to see through.

It speaks ZMTP and eMQP by itself. It is a witness, not a library: it never reconnects, retries or
hides a message. A lost connection and a timeout come out as `OSError`: the outcome is unknown.
"""

import json
import struct
import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from tests.prove.bodies import undone
from tests.support import peer
from tests.support.connection import Connection, messages_in

HANDED_OVER = 5
RESULT = 6
"""How many frames a REPLY has: one that says who has the job, one that says what came of it."""

GREETING_SIZE = 64
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


VERSION = b"eMQP/1.0"
Text = str | bytes


class Given(NamedTuple):
    """A job as a worker is given it."""

    msgid: bytes
    queue: bytes
    headers: bytes
    body: bytes


class EventMQ(Connection[list[bytes]]):
    """A DEALER that speaks eMQP: a client, a worker or an administrator, as it is used."""

    commands: list[bytes]
    """Those of the transport that have come; messages are without them."""

    def __init__(self, where: int | Path, *, identity: bytes = b"", timeout: float = 10.0) -> None:
        super().__init__(where, timeout=timeout)
        self.open(identity=identity)

    def open(self, socket_type: str = "DEALER", identity: bytes = b"") -> Self:
        """Say what one is, and hear what the server is."""
        self.send_bytes(handshake(socket_type, identity))
        self.read_handshake()
        return self

    def read_handshake(self) -> None:
        greeting = self._take(GREETING_SIZE)
        if greeting[0] != 0xFF or greeting[9] & 1 != 1 or greeting[10] < 3:
            raise ValueError(f"not a greeting: {greeting!r}")
        self.commands = []
        while (ready := take_frames(self.unread)) is None:
            self.fill()
        if not ready[0].startswith(b"\x05READY"):
            raise ValueError(f"not READY: {ready!r}")

    def cut(self) -> list[bytes] | None:
        while (frames := take_frames(self.unread)) is not None and len(frames) == 1:
            self.commands += frames
        return frames

    # -- eMQP ------------------------------------------------------------------------------

    def say(self, command: str, *parts: Text, msgid: Text = b"") -> bytes:
        """Send one command; returns its id."""
        msgid = _raw(msgid) or str(uuid.uuid4()).encode()
        self.send_bytes(message(_raw(command), msgid, *map(_raw, parts)))
        return msgid

    def hear(self, command: str) -> list[bytes]:
        """The next message with this command; others wait for their turn."""
        return self.next_of(lambda frames: frames[2] == command.encode())

    def words(self) -> list[tuple[str, ...]]:
        """What has come, without ids of the server's own and without heartbeats."""
        heard = [[m[2], *m[4:]] for m in self.heard() if m[2] != b"HEARTBEAT"]
        return [tuple(part.decode("utf-8", "replace") for part in words) for words in heard]

    # -- clients ---------------------------------------------------------------------------

    def request(
        self, body: Text = b"body", queue: Text = "default", headers: Text = "", msgid: Text = b""
    ) -> bytes:
        """Send a job without waiting for anything; returns its id."""
        return self.say("REQUEST", queue, headers, body, msgid=msgid)

    def handed_over(self) -> bytes:
        """The id of the next request that a worker has been given."""
        return self._reply(HANDED_OVER)[4]

    def result(self) -> tuple[bytes, bytes]:
        """The id and the result of the next job that was asked for with `reply-requested`."""
        frames = self._reply(RESULT)
        return frames[5], frames[4]

    def _reply(self, size: int) -> list[bytes]:
        return self.next_of(lambda frames: frames[2] == b"REPLY" and len(frames) == size)

    def replies(self) -> list[tuple[str, ...]]:
        """The REPLYs that have come: an id, or a result and an id."""
        return [words[1:] for words in self.words() if words[0] == "REPLY"]

    # -- workers ---------------------------------------------------------------------------

    def inform(self, *queues: tuple[int, str], slots: int = 0, role: str = "worker") -> Self:
        """Become a worker of these queues, and say READY for each slot."""
        msgid = self.say("INFORM", json.dumps(queues) if queues else "", role)
        acked = self.hear("ACK")[4:]
        if acked != [msgid]:
            raise ValueError(f"ACK of {acked!r}")
        for _ in range(slots):
            self.ready()
        return self

    def ready(self) -> None:
        """One more job would be taken."""
        self.say("READY")

    def next_job(self) -> Given:
        """The next job that this worker is given; heartbeats are sent only in between calls."""
        return Given(*self.hear("REQUEST")[3:7])

    def given(self) -> list[Given]:
        """The jobs that have come."""
        return [Given(*m[3:7]) for m in self.heard() if m[2] == b"REQUEST"]

    def take(self) -> Given:
        """The one job that has come."""
        (given,) = self.given()
        return given

    def reply(self, msgid: bytes, result: Text = b'{"value": true}') -> None:
        """A job is done."""
        self.say("REPLY", result, msgid)

    def done(self, given: Given, result: Text = '{"value": 1}', *, ready: bool = True) -> None:
        """A job is done, and another would be taken."""
        self.reply(given.msgid, result)
        if ready:
            self.ready()

    # -- administrators -----------------------------------------------------------------------

    def ask(self, command: str) -> Any:
        """STATUS, ROUTER_SHOW_WORKERS or ROUTER_SHOW_SCHEDULERS, and its answer."""
        self.say(command, msgid=f"admin:{uuid.uuid4()}")
        return json.loads(self.hear("REPLY")[4])


def _raw(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text


def message(command: bytes, msgid: bytes, *parts: bytes) -> bytes:
    """One message of eMQP as bytes."""
    return encoded([b"", VERSION, command, msgid, *parts])


def call(name: str = "os.path.basename", *args: object, **kwargs: object) -> bytes:
    """The message that asks a job manager to call a function, as the client library writes it."""
    path, _, function = name.rpartition(".")
    params = {"callable": function, "path": path, "args": list(args), "kwargs": kwargs}
    return json.dumps(["run", params | {"class_args": [], "class_kwargs": {}}]).encode()


def encoded(frames: Sequence[bytes]) -> bytes:
    """One message as bytes."""
    pieces: list[bytes] = []
    for index, data in enumerate(frames):
        more, is_long = index < len(frames) - 1, len(data) > 255
        pieces += [struct.pack(">BQ" if is_long else ">BB", 2 * is_long | more, len(data)), data]
    return b"".join(pieces)


def take_frames(unread: bytearray) -> list[bytes] | None:
    """The next whole message, or a command as a single frame, taken off what was not read yet."""
    frames: list[bytes] = []
    at = 0
    while len(unread) >= at + 2:
        flags = unread[at]
        start = at + 9 if flags & 2 else at + 2
        if len(unread) < start:
            return None
        at = start + int.from_bytes(unread[at + 1 : start])
        if len(unread) < at:
            return None
        frames.append(bytes(unread[start:at]))
        if not flags & 1:
            del unread[:at]
            return frames
    return None


def said(data: bytes) -> Iterator[list[bytes]]:
    """All that a server said behind its greeting, message by message; `ValueError` if it cannot be read."""
    return messages_in(take_frames, data[GREETING_SIZE:])


def handshake(socket_type: str = "DEALER", identity: bytes = b"") -> bytes:
    """All that a peer has to say before its first message."""
    properties = b"".join(
        struct.pack(">B", len(name)) + name + struct.pack(">I", len(value)) + value
        for name, value in ((b"Socket-Type", socket_type.encode()), (b"Identity", identity))
    )
    return _GREETING + _command(b"READY", properties)


def _command(name: bytes, data: bytes) -> bytes:
    body = bytes((len(name),)) + name + data
    return bytes((4, len(body))) + body


# -- in common words -------------------------------------------------------------------------------

_RESULTS = {"fail": b'{"error": "planned"}', "late": b"late"}


class Peer(peer.Peer):
    """A request is accepted when the STATUS behind it is answered, or (`handed-over`) when a worker is given it.

    A worker asks for STATUS behind each report: that answer waits for the disk and nothing else tells that the
    report was heard.
    """

    protocol = "eventmq"
    held_as = "eventmq {link}"

    def open(self) -> None:
        self._greeted = False
        self._said = 0
        self._requests: defaultdict[str, list[peer.Offer]] = defaultdict(list)
        self._waiting: defaultdict[str, list[peer.Offer]] = defaultdict(list)
        self._settling: deque[Sequence[peer.Offer] | peer.Grant] = deque()
        self.say(handshake())
        self._weight = self.rng.choice((10, 10, 10, 5, 20))
        if self.queues:
            self.rng.shuffle(self.queues)
            self._inform()
        super().open()

    def _inform(self) -> None:
        queues = [(self._weight, name) for name in self.queues]
        self._send("INFORM", json.dumps(queues).encode(), b"worker")

    def _send(self, command: str, *parts: bytes, msgid: str = "") -> None:
        self._said += 1
        msgid = msgid or f"{id(self):x}/{self._said}"
        self.say(message(command.encode(), msgid.encode(), *parts))

    def cut(self) -> list[bytes] | None:
        if not self._greeted:
            if len(self.unread) < GREETING_SIZE:
                return None
            del self.unread[:GREETING_SIZE]
            self._greeted = True
        return take_frames(self.unread)

    def answers(self, frames: list[bytes]) -> Iterable[peer.Answer]:
        if len(frames) == 1 or frames[2] in (b"HEARTBEAT", b"ACK"):
            return
        if frames[2] == b"REQUEST":
            yield peer.Granted(_granted(frames))
            return
        assert frames[2] == b"REPLY", frames
        if frames[4].startswith(b'{"inflight'):
            yield from self._settled(self._settling.popleft())
        else:
            yield from self._replied(frames[-1].decode(), frames)

    def _settled(self, what: Sequence[peer.Offer] | peer.Grant) -> Iterable[peer.Answer]:
        if isinstance(what, peer.Grant):
            yield peer.Done(what)
            return
        for offer in what:
            if offer in self._requests[offer.jid]:
                yield self._accepted(offer.jid)

    def _replied(self, jid: str, frames: list[bytes]) -> Iterable[peer.Answer]:
        # One that ended without a run, or was lost with its worker, was never handed over.
        if self._requests[jid] and (self.variant == "handed-over" or len(frames) == RESULT):
            yield self._accepted(jid)
        if len(frames) == HANDED_OVER:
            return
        assert self._waiting[jid], f"nobody waits for {jid}: {frames}"
        yield peer.Result(self._waiting[jid].pop(0), frames[4], b'"error"' in frames[4])

    def _accepted(self, jid: str) -> peer.Answer:
        offer = self._requests[jid].pop(0)
        if offer.waits:
            self._waiting[jid].append(offer)
        return peer.Accepted(offer, jid)

    def submit(self, *offers: peer.Offer) -> None:
        for offer in offers:
            self._requests[offer.jid].append(offer)
            retry = "guarantee" if offer.retry is None else f"retry-count:{offer.retry}"
            said = {"reply-requested": offer.waits, retry: offer.retry != 0}
            said |= {f"timeout:{offer.reserve}": offer.reserve > 0}
            headers = [header for header, is_said in said.items() if is_said]
            body = call("prove.run").replace(b'"args": []', b'"args": ' + offer.body)
            parts = (offer.queue.encode(), ",".join(headers).encode(), body)
            self._send("REQUEST", *parts, msgid=offer.jid)
        self._settle(offers)

    def _settle(self, what: Sequence[peer.Offer] | peer.Grant) -> None:
        if self.variant != "handed-over":
            self._settling.append(what)
            self._send("STATUS")

    def serve(self, queue: str) -> None:
        super().serve(queue)
        self._inform()

    def take(self) -> None:
        self._send("READY")

    def report(self, grant: peer.Grant, word: str, result: bytes = b"") -> None:
        self._send("REPLY", _RESULTS.get(word, b'{"value": "%b"}' % result), grant.handle)
        self._settle(grant)

    def beat(self) -> None:
        self._send("HEARTBEAT", b"1.0")

    def leave(self) -> None:
        self._send("KBYE")


def _granted(frames: list[bytes]) -> peer.Grant:
    msgid, queue, headers, body = frames[3:7]
    grant = peer.Grant(msgid, msgid.decode(), queue.decode(), undone(json.loads(body)[1]["args"]))
    if b"timeout:" in headers:
        grant.reserve = float(headers.split(b"timeout:")[1].split(b",")[0])
    return grant


def _vary(offer: peer.Offer, rng: Random) -> None:
    offer.retry = None if rng.random() < 0.2 else rng.choice((0, 0, 1, 3))
    offer.reserve = 60 if rng.random() < 0.3 else 0


Peer.behaviour = peer.Behaviour(
    vary=_vary,
    variants={"producer": ("handed-over",), "waiter": ("handed-over",)},
    waiters=(0, 2),
    workers=(1, 4),
    words={"ack": 80, "fail": 12, "vanish": 4, "silence": 2, "goodbye": 2},
    spans=((1, 4_000), (8_000, 30_000), (60_000, 120_000)),
    usual=(80, 15, 5),
    sleepy=(80, 15, 5),
    slots=(1, 1, 3),
    beat_ms=7_000,
    asks_at_once=True,
    silence_ms=10_000,
    last_word_ms=150_000,
    ways=(("many", ""), ("wait", "")),
    needs_spare=True,
    retry=25,
    takes_bytes=False,
)
