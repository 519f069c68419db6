"""A Faktory client on one blocking socket, small enough to see through.

It is a witness, not a library: it never reconnects, retries or hides an answer. A lost connection
and a timeout come out as `OSError` (the outcome is unknown), a refusal as `FaktoryError` (it is not).
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, NamedTuple, Self

from tests.prove.bodies import undone
from tests.support import peer
from tests.support.connection import Connection, messages_in, taken

JobDict = dict[str, Any]  # a work unit as JSON has it


class FaktoryError(RuntimeError):
    """The server answered with an error line; its text is the message."""


class Reply(NamedTuple):
    """One RESP answer: `kind` is its first byte, `body` is None for the null bulk."""

    kind: str
    body: bytes | None

    @property
    def is_error(self) -> bool:
        return self.kind == "-"

    @property
    def text(self) -> str:
        return "" if self.body is None else self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    def checked(self) -> Reply:
        """Itself, or `FaktoryError` when it is an error line."""
        if self.is_error:
            raise FaktoryError(self.text)
        return self


def password_hash(password: str, salt: str, rounds: int) -> str:
    """The answer to a salted greeting: `rounds` times SHA-256, in lower-case hex."""
    digest = (password + salt).encode()
    for _ in range(rounds):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def job(jid: str, *args: object, **fields: object) -> JobDict:
    """A work unit with the fields that every server demands."""
    return {"jid": jid, "jobtype": "prove", "args": list(args), **fields}


def hello_line(wid: str | None = None, **members: object) -> str:
    worker = {"wid": wid, "hostname": "prove", "pid": 1, "labels": ["prove"]} if wid else {}
    return f"HELLO {compact({'v': 2} | worker | members)}"


def push_line(work: Mapping[str, object]) -> str:
    return f"PUSH {compact(work)}"


def push_many_line(works: Iterable[Mapping[str, object]]) -> str:
    return f"PUSHB {compact(list(works))}"


def ack_line(jid: str) -> str:
    return f"ACK {compact({'jid': jid})}"


def fail_line(jid: str, message: str = "planned", errtype: str = "Planned") -> str:
    return f"FAIL {compact({'jid': jid, 'message': message, 'errtype': errtype})}"


def mutate_line(cmd: str, target: str, **filters: object) -> str:
    """Change many jobs of one set: `jids`, `jobtype` and `regexp` choose which."""
    return f"MUTATE {compact({'cmd': cmd, 'target': target, 'filter': filters})}"


def in_bytes(*lines: str | bytes) -> bytes:
    raw = (line.encode() if isinstance(line, str) else line for line in lines)
    return b"".join(line + b"\r\n" for line in raw)


class Faktory(Connection[Reply]):
    """One connection on a blocking socket. Replies come in the order of the commands."""

    def cut(self) -> Reply | None:
        return take_reply(self.unread)

    def say(self, *lines: str | bytes) -> None:
        """Send the lines in one write, without waiting for any reply."""
        self.send_bytes(in_bytes(*lines))

    def call(self, line: str | bytes) -> Reply:
        """Send one command and return its reply, error or not."""
        self.say(line)
        return self.read()

    def command(self, line: str) -> Reply:
        return self.call(line).checked()

    def hello(self, wid: str | None = None, password: str | None = None, **extra: object) -> Self:
        """Read the greeting and answer it; a `wid` makes this a worker's connection."""
        asked = json.loads(self.read().checked().text.removeprefix("HI "))
        if password is not None and "s" in asked:
            extra["pwdhash"] = password_hash(password, asked["s"], asked["i"])
        self.call(hello_line(wid, **extra)).checked()
        return self

    def push(self, work: Mapping[str, object] | str, *args: object, **fields: object) -> Reply:
        """Push a work unit, or one that is made of these as `job` does."""
        unit = job(work, *args, **fields) if isinstance(work, str) else work
        return self.command(push_line(unit))

    def push_many(self, works: Iterable[Mapping[str, object]]) -> dict[str, str]:
        """PUSHB; what was refused, by jid."""
        return dict(self.command(push_many_line(works)).json)

    def fetch(self, *queues: str) -> JobDict | None:
        """A job, or None when the server had none for as long as it waits."""
        self.say(" ".join(["FETCH", *queues]))
        return job_in(self.read())

    def ack(self, jid: str) -> Reply:
        return self.command(ack_line(jid))

    def fail(self, jid: str, message: str = "planned", errtype: str = "Planned") -> Reply:
        return self.command(fail_line(jid, message, errtype))

    def beat(self, wid: str, **fields: object) -> Reply:
        return self.command(f"BEAT {compact({'wid': wid, **fields})}")

    def info(self) -> JobDict:
        return dict(self.command("INFO").json)

    def queue(self, verb: str, names: Iterable[str]) -> Reply:
        """QUEUE PAUSE, RESUME, REMOVE or LATENCY."""
        return self.command(" ".join(["QUEUE", verb, *names]))


def take_replies(unread: bytearray) -> Iterator[bytes]:
    """Take the whole replies off the front: each a line, or a bulk string with its two line ends."""
    while (end := unread.find(b"\r\n")) >= 0:
        size = int(unread[1:end]) if unread[:1] == b"$" else -1
        end += 2 if size < 0 else size + 4
        if len(unread) < end:
            return
        yield taken(unread, end)


def said(data: bytes) -> Iterator[bytes]:
    """All that a server said, reply by reply; `ValueError` if it cannot be read."""
    return messages_in(lambda unread: next(take_replies(unread), None), data)


def take_reply(unread: bytearray) -> Reply | None:
    """Take a whole reply off the front; None until it is there."""
    raw = next(take_replies(unread), None)
    if raw is None:
        return None
    line, end, body = raw[:-2].partition(b"\r\n")
    if line[:1] not in (b"+", b"-", b"$") or not raw.endswith(b"\r\n"):
        raise ValueError(f"not a reply: {raw[:80]!r}")
    if line[:1] == b"$":
        return Reply("$", body if end else None)
    return Reply(chr(line[0]), line[1:])


def job_in(reply: Reply) -> JobDict | None:
    """The job in the reply to a FETCH; None for the null bulk."""
    return None if reply.checked().body is None else dict(reply.json)


# -- in common words -------------------------------------------------------------------------------


class Peer(peer.Peer):
    """Replies come in the order of the commands. A lease outlives the connection of a named worker."""

    protocol = "faktory"
    held_as = "{worker}"

    def open(self) -> None:
        self._asked: deque[Callable[[Reply], Iterable[peer.Answer]]] = deque([self._on_greeting])

    def cut(self) -> Reply | None:
        return take_reply(self.unread)

    def answers(self, reply: Reply) -> Iterable[peer.Answer]:
        return self._asked.popleft()(reply)

    def _ask(self, line: str, hear: Callable[[Reply], Iterable[peer.Answer]]) -> None:
        self._asked.append(hear)
        self.say(in_bytes(line))

    def _on_greeting(self, reply: Reply) -> Iterable[peer.Answer]:
        assert reply.text.startswith("HI "), reply
        hello = {"v": 2, "wid": self.worker} if self.worker else {"v": 2}
        self._ask(f"HELLO {compact(hello)}", self._on_hello)
        return ()

    def _on_hello(self, reply: Reply) -> Iterable[peer.Answer]:
        self.is_open = True
        return _heard(None, reply)

    def submit(self, *offers: peer.Offer) -> None:
        self._asked.extend(partial(_taken, [offer]) for offer in offers)
        self.say(b"".join(b"PUSH %b\r\n" % _unit(offer) for offer in offers))

    def submit_batch(self, *offers: peer.Offer) -> None:
        self._asked.append(partial(_taken, offers))
        self.say(b"PUSHB [%b]\r\n" % b",".join(map(_unit, offers)))

    def order(self, what: object, *words: str) -> None:
        """An operator's command; `Done` with `what` when it was carried out."""
        self._ask(" ".join(words), partial(_heard, what))

    def take(self) -> None:
        self.rng.shuffle(self.queues)
        self._ask(" ".join(["FETCH", *self.queues]), _fetched)

    def report(self, grant: peer.Grant, word: str, result: bytes = b"") -> None:
        line = ack_line(grant.name) if word == "ack" else fail_line(grant.name)
        self._ask(line, lambda reply: [peer.Done(grant, "no" if reply.is_error else "ok")])

    def beat(self) -> None:
        if self.worker:
            self._ask(f"BEAT {compact({'wid': self.worker})}", partial(_heard, None))

    def leave(self) -> None:
        self.say(b"END\r\n")


def _unit(offer: peer.Offer) -> bytes:
    unit: JobDict = {"jid": offer.jid, "jobtype": "prove", "queue": offer.queue}
    at = datetime.fromtimestamp(offer.at, UTC).isoformat().replace("+00:00", "Z")
    more: JobDict = {"retry": offer.retry, "reserve_for": offer.reserve or None}
    more |= {"at": at if offer.at else None, "custom": offer.custom}
    unit |= {name: value for name, value in more.items() if value is not None}
    return b'%b,"args":%b}' % (compact(unit)[:-1].encode(), offer.body)


def _taken(offers: Sequence[peer.Offer], reply: Reply) -> Iterable[peer.Answer]:
    """The answer to PUSH, or to PUSHB, which says which were refused."""
    refused = json.loads(reply.text) if reply.kind == "$" else {}
    for offer in offers:
        if reply.is_error or offer.jid in refused:
            yield peer.Refused(offer, reply.text)
        else:
            yield peer.Accepted(offer, offer.jid)


def _fetched(reply: Reply) -> Iterable[peer.Answer]:
    if reply.is_error:
        return [peer.Nothing("maybe")]
    work = job_in(reply)
    if work is None:
        return [peer.Nothing()]
    failure = work.get("failure")
    grant = peer.Grant(work["jid"].encode(), work["jid"], work["queue"], undone(work["args"]))
    grant.reserve = float(work["reserve_for"])
    grant.attempt = failure["retry_count"] + 1 if failure else 0
    grant.custom = work.get("custom")
    return [peer.Granted(grant)]


def _heard(what: object, reply: Reply) -> Iterable[peer.Answer]:
    assert not reply.is_error, reply
    return [] if what is None else [peer.Done(what)]


def _vary(offer: peer.Offer, rng: Random) -> None:
    offer.retry = rng.choice((-1, 0, 1, 2, 3, 25))
    offer.reserve = rng.choice((60, 60, 90, 600))


Peer.behaviour = peer.Behaviour(
    vary=_vary,
    later=0.2,
    producers=(1, 4),
    workers=(2, 6),
    words={"ack": 75, "fail": 20, "vanish": 5},
    named=0.85,
    operated=True,
    beat_ms=15_000,
    ways=(("one", ""), ("many", ""), ("batch", "")),
    has_custom=True,
    reports_promise=True,
    retry=25,
    eager=True,
    has_reserve=True,
    takes_bytes=False,
    # Leases outlive the connection; a worker that stays silent for a minute is given up.
    peer_rules={"faktory": peer.PeerRules(grace=60.0, expiry_fails=True)},
)
