"""Faktory: a stranger hears the greeting and no more, one that said HELLO one reply for each line."""

from __future__ import annotations

import time

from tests.prove.hostile import ANSWERED, CLOSED, REFUSED, SILENT_S, Case, Silence
from tests.prove.hostile.faktory_cases import cases
from tests.prove.hostile.faktory_heavy import endless, heavies, play_heavy
from tests.prove.hostile.raw import AT_ONCE_S
from tests.support.faktory import Faktory, FaktoryError, Reply

__all__ = ["cases", "endless", "heavies", "play", "play_heavy", "silences"]

_PROBE = "QUEUE LATENCY"


def play(port: int, case: Case) -> str:
    """Send a case on a connection of its own; what was wrong with the answer, or nothing."""
    with Faktory(port, timeout=10.0) as client:
        try:
            return _told(client, case) if case.known else _turned_away(client, case)
        except TimeoutError:
            return "no answer"
        except (ValueError, FaktoryError) as error:
            return f"{error!r}"


def _told(client: Faktory, case: Case) -> str:
    """A client that said HELLO gets one reply, and one to its next command unless that was an error."""
    client.hello()
    try:
        client.send_bytes(case.data)
        client.send(_PROBE)
        reply = client.read_reply()
    except ConnectionError:
        return "closed without a word"
    if case.outcome == REFUSED and not reply.is_error:
        return f"answered {_shown(reply)}"
    try:
        probe = client.read_reply()
    except ConnectionError:
        return "" if reply.is_error else f"closed after {_shown(reply)}"
    if case.outcome in (REFUSED, ANSWERED) and (probe.kind, probe.body) != ("$", b"{}"):
        return f"answered {_shown(reply)} and then {_shown(probe)}"
    return ""


def _turned_away(client: Faktory, case: Case) -> str:
    """A stranger hears the greeting, and +OK or an error if it may, and the line is closed at once."""
    client.read_reply()
    began = time.monotonic()
    try:
        client.send_bytes(case.data)
        reply = client.read_reply()
        if case.outcome == CLOSED or (reply.kind, reply.body) == ("$", None):
            return f"answered {_shown(reply)}"
        if (reply.kind, reply.body) == ("+", b"OK"):
            return ""
        client.read_reply()
    except ConnectionError:
        late = time.monotonic() - began > AT_ONCE_S
        return "not closed at once" if late else ""
    return "said more after an error"


def _shown(reply: Reply) -> str:
    return f"{reply.kind}{(reply.body or b'')[:60]!r}"


# -- silence -----------------------------------------------------------------------------------


class Silent:
    """A connection on which something was begun."""

    def __init__(self, port: int, name: str, begun: bytes, *, known: bool) -> None:
        self.name = name
        self._client = Faktory(port, timeout=SILENT_S + 4.0)
        if known:
            self._client.hello()
        else:
            self._client.read_reply()
        self._client.send_bytes(begun)
        for _ in range(begun.count(b"\n")):
            self._client.read_reply()

    def wrong(self) -> str:
        with self._client as client:
            try:
                return f"heard {_shown(client.read_reply())}"
            except TimeoutError:
                return "not hung up on"
            except ConnectionError:
                return ""


def silences(port: int) -> list[Silence]:
    """Strangers and clients that stop in the middle."""
    return [
        Silent(port, "nothing", b"", known=False),
        Silent(port, "half a greeting", b'HELLO {"v"', known=False),
        Silent(port, "half a word", b"PU", known=True),
        Silent(port, "half a job", b'PUSH {"jid":"hostile', known=True),
        Silent(port, "a line and a half", b"INFO\r\nINF", known=True),
    ]
