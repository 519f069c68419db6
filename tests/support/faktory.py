"""A Faktory client on one blocking socket, small enough to see through.

It is a witness, not a library: it never reconnects, retries or hides an answer. A lost connection
and a timeout come out as `OSError` (the outcome is unknown), a refusal as `FaktoryError` (it is not).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from tests.support.connection import Connection

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


def job(jid: str, *args: object, jobtype: str = "prove", **fields: object) -> JobDict:
    """A work unit with the fields that every server demands."""
    return {"jid": jid, "jobtype": jobtype, "args": list(args), **fields}


class Faktory(Connection):
    """One connection. Replies come in the order of the commands, so pipelining is send, then read."""

    # -- raw -------------------------------------------------------------------------------

    def send(self, *lines: str | bytes) -> None:
        """Send the lines in one write, without waiting for any reply."""
        raw = [line.encode() if isinstance(line, str) else line for line in lines]
        self._socket.sendall(b"".join(line + b"\r\n" for line in raw))

    def read_reply(self) -> Reply:
        """The next reply; `OSError` when the connection ends or the timeout passes before it."""
        line = self._take_line()
        kind, rest = chr(line[0]), line[1:]
        if kind in "+-:":
            return Reply(kind, rest)
        if kind != "$":
            raise ValueError(f"not a reply: {line[:80]!r}")
        size = int(rest)
        if size < 0:
            return Reply("$", None)
        body = self._take(size + 2)
        if body[-2:] != b"\r\n":
            raise ValueError("a bulk reply without its end")
        return Reply("$", body[:-2])

    def call(self, line: str | bytes) -> Reply:
        """Send one command and return its reply, error or not."""
        self.send(line)
        return self.read_reply()

    # -- commands --------------------------------------------------------------------------

    def hello(self, wid: str | None = None, password: str | None = None, **extra: object) -> Self:
        """Read the greeting and answer it; a `wid` makes this a worker's connection."""
        greeting = self.read_reply().checked().text
        word, _, rest = greeting.partition(" ")
        if word != "HI":
            raise ValueError(f"not a greeting: {greeting!r}")
        asked = json.loads(rest)
        answer: JobDict = {"v": 2}
        if wid is not None:
            answer |= {"wid": wid, "hostname": "prove", "pid": 1, "labels": ["prove"]}
        if password is not None and "s" in asked:
            answer["pwdhash"] = password_hash(password, asked["s"], asked["i"])
        self.call(f"HELLO {compact(answer | extra)}").checked()
        return self

    def push(self, work: Mapping[str, object]) -> None:
        self.call(push_line(work)).checked()

    def push_many(self, works: Iterable[Mapping[str, object]]) -> dict[str, str]:
        """PUSHB; what was refused, by jid."""
        reply = self.call(push_many_line(works)).checked()
        refused: dict[str, str] = json.loads(reply.body or b"{}")
        return refused

    def fetch(self, *queues: str) -> JobDict | None:
        """A job, or None when the server had none for as long as it waits."""
        return job_in(self.call(" ".join(["FETCH", *queues])))

    def ack(self, jid: str) -> None:
        self.call(ack_line(jid)).checked()

    def fail(self, jid: str, message: str = "planned", errtype: str = "Planned") -> None:
        self.call(fail_line(jid, message, errtype)).checked()

    def beat(self, wid: str, **fields: object) -> str:
        """BEAT; the state the server asks for, or "" when it asks for none."""
        reply = self.call(f"BEAT {compact({'wid': wid, **fields})}").checked()
        if reply.kind == "+":
            return ""
        state: str = json.loads(reply.body or b"{}").get("state", "")
        return state

    def info(self) -> JobDict:
        reply = self.call("INFO").checked()
        facts: JobDict = json.loads(reply.body or b"{}")
        return facts

    def flush(self) -> None:
        self.call("FLUSH").checked()

    def queue(self, verb: str, names: Sequence[str]) -> Reply:
        """QUEUE PAUSE, RESUME, REMOVE or LATENCY."""
        return self.call(" ".join(["QUEUE", verb, *names])).checked()

    def end(self) -> None:
        """END has no reply: the server hangs up."""
        self.send("END")
        self.close()

    # -- inside ----------------------------------------------------------------------------

    def _take_line(self) -> bytes:
        while (end := self._unread.find(b"\r\n")) < 0:
            self._fill()
        if end == 0:
            raise ValueError("an empty line is no reply")
        return self._take(end + 2)[:-2]


def push_line(work: Mapping[str, object]) -> str:
    return f"PUSH {compact(work)}"


def push_many_line(works: Iterable[Mapping[str, object]]) -> str:
    return f"PUSHB {compact(list(works))}"


def ack_line(jid: str) -> str:
    return f"ACK {compact({'jid': jid})}"


def fail_line(jid: str, message: str = "planned", errtype: str = "Planned") -> str:
    return f"FAIL {compact({'jid': jid, 'message': message, 'errtype': errtype})}"


def job_in(reply: Reply) -> JobDict | None:
    """The job in the reply to a FETCH; None for the null bulk."""
    body = reply.checked().body
    if body is None:
        return None
    work: JobDict = json.loads(body)
    return work
