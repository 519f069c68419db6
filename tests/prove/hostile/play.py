"""Says to a server what no good client says, and judges the answers."""

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from tests.prove.hostile import CLOSED, EITHER, REFUSED, Case, Heavy, Hostility
from tests.support.scoped import Scoped

SILENT_S = 2.0
"""As long as half a message may wait for its other half."""
_AT_ONCE_S = 1.0
"""By then whoever is hung up on at once has noticed."""
_PATIENCE_S = 60.0
_ENDLESS_BYTES = 32 << 20
_CHUNK = 1 << 20
_LOOKED_AT = 1 << 17  # more than is read at once


class Raw(Scoped):
    """A connection of which only bytes are known. All that was heard is kept."""

    def __init__(self, port: int, timeout: float = _PATIENCE_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.heard = bytearray()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def pour(self, pieces: Iterable[bytes]) -> None:
        """Send all of them, or as many as the server takes."""
        with suppress(ConnectionError):
            for data in pieces:
                self.send(data)

    def read(self) -> None:
        """Some more bytes; `ConnectionError` when there will be none."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server hung up")
        self.heard += data

    def read_until(self, last: bytes) -> None:
        """Until this was said; other words may already follow it."""
        while self.heard.find(last, max(0, len(self.heard) - _LOOKED_AT)) < 0:
            self.read()

    def close(self) -> None:
        self._socket.close()


def play(hostility: Hostility, port: int, case: Case) -> str:
    """Send a case on a connection of its own; what was wrong with the answer, or nothing."""
    may_wait = hostility.halves_wait and case.outcome == EITHER
    with Raw(port, 0.5 if may_wait else 10.0) as peer:
        began = time.monotonic()
        closed = False
        try:
            if case.known:
                peer.send(hostility.hello)
            peer.send(case.data)
            if case.known or case.outcome == EITHER:
                peer.send(hostility.last)
            peer.read_until(hostility.answer)
        except TimeoutError:
            return "" if may_wait else f"no answer, only {bytes(peer.heard[:124])!r}"
        except ConnectionError:
            closed = True
        is_late = time.monotonic() - began > _AT_ONCE_S
    try:
        answers = list(hostility.said(bytes(peer.heard).removesuffix(hostility.answer)))
    except ValueError as error:
        return str(error)
    if case.outcome == CLOSED and (is_late or not closed):
        return "not closed at once"
    return _judged(hostility, case, answers[hostility.greetings :], closed=closed)


def _judged(hostility: Hostility, case: Case, answers: list[bytes], *, closed: bool) -> str:
    errors = [answer for answer in answers if answer.startswith(hostility.errors)]
    shown = [answer[:60] for answer in answers[:3]]
    if case.outcome == CLOSED:
        told = answers if hostility.counts else [a for a in answers if a not in errors]
        return f"answered {shown}" if hostility.errors and told else ""
    if closed:
        is_right = case.outcome == EITHER or (hostility.counts and errors)
        return "" if is_right else f"closed after {shown}"
    if case.outcome == REFUSED and len(errors) != 1:
        return f"not refused: {shown}"
    if hostility.counts and case.known and len(answers) != 1:
        return f"{len(answers)} answers: {shown}"
    return ""


def play_heavy(hostility: Hostility, port: int, heavy: Heavy) -> str:
    """Send it as a known client, read all answers meanwhile; what was wrong with them, or nothing."""
    answered = threading.Event()
    with Raw(port) as peer:

        def read_on() -> None:
            with suppress(OSError):
                peer.read_until(hostility.answer)
                answered.set()

        reader = threading.Thread(target=read_on, daemon=True)
        reader.start()
        pieces = [m * min(1_000, n - at) for m, n in heavy.messages for at in range(0, n, 1_000)]
        peer.pour([hostility.hello, *pieces, hostility.last])
        reader.join()
    if heavy.closes:
        return "not hung up on" if answered.is_set() else ""
    if not answered.is_set():
        return f"no answer to the last, only {bytes(peer.heard[-60:])!r}"
    if hostility.counts:
        answers = len(list(hostility.said(bytes(peer.heard)))) - hostility.greetings - 1
        wanted = sum(times for _, times in heavy.messages)
        return "" if answers == wanted else f"{answers} answers to {wanted} messages"
    return ""


def silences(hostility: Hostility, port: int) -> dict[bytes, Raw]:
    """Those who began to say something, and are to be hung up on after a while."""
    peers = {begun: Raw(port, SILENT_S + 4.0) for begun in hostility.rows("silences")}
    for begun, peer in peers.items():
        peer.send(begun)
    return peers


def stays(silent: Raw) -> bool:
    """Whether one of them is not hung up on."""
    with silent, suppress(ConnectionError):
        try:
            while True:
                silent.read()
        except TimeoutError:
            return True
    return False


def endless(hostility: Hostility, port: int, *, known: bool) -> Raw:
    """Say more and more until the server has had enough; left open."""
    peer = Raw(port)
    begun = hostility.rows("endless")[known]
    peer.pour([begun, *[b"x" * _CHUNK] * (_ENDLESS_BYTES // _CHUNK)])
    return peer
