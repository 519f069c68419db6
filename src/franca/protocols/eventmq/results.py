"""Results: what a worker's REPLY means, and how it reaches the client that waits for it.

A worker answers with a JSON object, usually `{"value": ...}`; an exception's text is such a value,
as it always was. `{"error": ...}` is our own form of saying that a job failed.

Clients are known by their identity and not by a connection. A result goes to the connection that
asked for it or, once that is gone, to another of the same identity: also to one that is made later,
or after a restart of the server, because the job itself remembers whom its result is for. What
cannot be sent at once is kept for a while, in memory. A client without an identity cannot come
back, so what is for it ends with its connection.

What is kept is bounded. Where there is no room for one more, a client that takes what it is sent
must not lose anything, so the worker that brings it waits. Nobody waits for a client that has taken
nothing for some time: many clients never read, and their results are dropped, the oldest first.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from franca.core.broker import Broker
from franca.core.events import Event, Finished
from franca.core.model import NEVER, Failure, Job, Millis, OnHangUp, Session, State
from franca.core.multimaps import discard
from franca.protocols.bodies import in_one_piece
from franca.protocols.eventmq.jobs import HOLDERS, ORIGIN, Address, client_of, msgid_of
from franca.protocols.eventmq.wire import Encoder

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

TIMED_OUT: Final = (b'{"value": "TimeoutError"}', b'{"value":"TimeoutError"}')
_EMPTY: Final = (b"", b"null", b'{"value": null}', b'{"value":null}')
READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""To read a longer result would hold up everybody."""
_FAILURE: Final = re.compile(rb'\{[ \t\r\n]{0,64}"error"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}"?')
_VALUE: Final = re.compile(rb'\{[ \t\r\n]{0,64}"value"[ \t\r\n]{0,64}:[ \t\r\n]{0,64}')
KEPT_COSTS_BYTES: Final = 1_024
"""What a kept result takes besides its own bytes, roughly."""
SHARES: Final = 4
"""One client may have this part of all that is kept, and one result in any case."""
PATIENCE_MS: Final = 10_000
"""For so long a worker waits for a client that takes nothing."""
SHORT_PATIENCE_MS: Final = 250
"""And after a wait in vain: a client that reads at all takes something in that time."""
IN_VAIN_MS: Final = 60_000
"""For so long after it, or a worker would wait for one such client after the other."""
PACE_BYTES_PER_MS: Final = 1_000
"""What is on its way to a client may take its time, at least at this pace."""


class _Answer(Struct):
    error: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Answer).decode
_encode = msgspec.json.Encoder().encode
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


# -- what a result means -----------------------------------------------------------------------


def failure_in(body: bytes, text_max: int) -> Failure | None:
    """The failure that a REPLY reports, or None if it is a result.

    A very long one is not read to its end: it is a failure if it begins like one.
    """
    if len(body) > READ_BYTES_MAX:
        begun = _FAILURE.match(body)
        if begun is None:
            return None
        return _failure(body[begun.end() : begun.end() + 4 * text_max], text_max)
    if body[:1] != b"{" or body.find(b'"error"') < 0:
        return None
    try:
        answer = _decode(body)
        if not isinstance(answer.error, Raw) or answer.value is not UNSET:
            return None
        text = _text_in(answer.error)
    except _UNREADABLE:
        return None
    if text is None:
        return _failure(bytes(memoryview(answer.error)[: 4 * text_max]), text_max)
    return Failure("Error", text[:text_max])


def _failure(text: bytes, text_max: int) -> Failure:
    return Failure("Error", text.decode("utf-8", "replace")[:text_max])


def _text_in(value: Raw) -> str | None:
    """The text that a value is; None if it is another value, which is not read any further."""
    is_text = bytes(memoryview(value)[:1]) == b'"'
    return msgspec.json.decode(value, type=str) if is_text else None


def result_of(event: Finished) -> bytes:
    """What the client that asked for a job's result is sent."""
    if event.state is not State.DONE:
        text = event.failure.text or event.state.name.lower()
        return _encode({"error": text.encode("utf-8", "replace").decode()})
    result = event.result
    if result in _EMPTY:
        return b"true"  # for a job without a result
    if event.job.holder.startswith(HOLDERS):
        return result
    return in_one_piece(b'{"value":', result, b"}")


def bare_value(result: bytes) -> bytes:
    """A worker's result as a client of another protocol is given it."""
    if len(result) > READ_BYTES_MAX:
        return _long_bare_value(result)
    try:
        value = _decode(result).value
        if not isinstance(value, Raw):
            return result
        text = _text_in(value)
    except _UNREADABLE:
        return result
    if text is not None:
        return text.encode("utf-8", "replace")
    bare = bytes(value)
    return b"" if bare == b"null" else bare


def _long_bare_value(result: bytes) -> bytes:
    """The same without a look at what is in it: a text with escapes stays as it was written."""
    begun = _VALUE.match(result)
    if begun is None or not result.endswith(b"}"):
        return result
    start, end = begun.end(), len(result) - 1
    if result[start : start + 1] != b'"':
        return result[start:end]
    closes = result.find(b'"', start + 1)
    if closes != end - 1 or result.find(b"\\", start) >= 0:
        return result
    return result[start + 1 : closes]


# -- how it reaches its client -----------------------------------------------------------------


class KeptResult(Struct, eq=False):
    """A result that waits for its client."""

    client: Address
    result: bytes
    msgid: bytes
    until: Millis

    def size(self) -> int:
        """How much memory it takes."""
        return len(self.result) + KEPT_COSTS_BYTES


class Backlog(Struct):
    """The results that wait for one client, oldest first.

    `due_at` is when it should have taken what it was sent last, `is_waited_for` if a worker waits.
    """

    results: deque[KeptResult]
    due_at: Millis
    bytes: int = 0
    is_waited_for: bool = False


class ResultDelivery:
    """Every connection by its name and by its identity, and results that wait for theirs.

    `kept_bytes` is what all of them take. The oldest of those for which there is no room are
    `dropped`. `waiting` are workers that are called when something has left, and now and then.
    """

    def __init__(self, broker: Broker, encoder: Encoder) -> None:
        self._encoder = encoder
        self.kept_bytes = 0
        self.dropped = 0
        self._broker = broker
        self._limits = broker.limits
        self._share = broker.limits.kept_result_bytes // SHARES
        self._now: Millis = NEVER
        self._in_vain_at: Millis = NEVER
        self.waiting: dict[EventmqConversation, None] = {}
        self._by_link: dict[str, EventmqConversation] = {}
        self._by_identity: dict[bytes, dict[EventmqConversation, None]] = {}
        self._backlogs: dict[bytes | str, Backlog] = {}
        self._order: dict[KeptResult, None] = {}
        self._stuck: dict[bytes | str, None] = {}
        self._shared: tuple[Finished, bytes] | None = None
        broker.listeners[ORIGIN] = broker.open_session("eventmq-results", OnHangUp.KEEP, self)

    # -- clients --------------------------------------------------------------------------------

    def join(self, client: EventmqConversation) -> None:
        """A connection is there: it is sent what was kept for its identity."""
        self._by_link[client.link.id] = client
        if client.identity:
            self._by_identity.setdefault(client.identity, {})[client] = None
            self.send_kept(client.identity)

    def leave(self, client: EventmqConversation) -> None:
        """A connection is gone."""
        self._by_link.pop(client.link.id, None)
        self.waiting.pop(client, None)
        discard(self._by_identity, client.identity, client)
        while (backlog := self._backlogs.get(client.link.id)) is not None:
            self._forget(backlog.results[0])

    def _find(self, client: Address) -> EventmqConversation | None:
        """The connection that asked, or the newest of the same identity."""
        found = self._by_link.get(client.link)
        if found is not None and found.identity == client.identity:
            return found
        others = self._by_identity.get(client.identity)
        return next(reversed(others)) if others else None

    # -- results --------------------------------------------------------------------------------

    def on_event(self, session: Session, event: Event, now: Millis) -> None:
        """A job whose result somebody asked for has ended."""
        if isinstance(event, Finished) and (client := client_of(event.job)) is not None:
            self.deliver(client, event.job, result_of(event), now)

    def shared(self, event: Finished) -> bytes:
        """A result as all are sent it who have joined a request: one and the same for all."""
        shared = self._shared
        if shared is None or shared[0] is not event:
            shared = self._shared = (event, result_of(event))
        return shared[1]

    def deliver(self, client: Address, job: Job, result: bytes, now: Millis) -> None:
        """Send a client a result at once, or keep it behind those that wait already."""
        key = client.identity or client.link
        if key in self._backlogs:
            self._now = now
            self.send_kept(key)
        found = self._find(client)
        if found is not None and found.joined and job.id in found.joined:
            found.unjoin(job.id)  # it is not sent it twice
        if found is not None and found.takes_results and key not in self._backlogs:
            message = self._encoder.result(result, msgid_of(job), client.envelope)
            found.link.write_pieces(message, durable=True)
        elif client.identity or found is not None:
            until = now + self._limits.kept_result_ms
            self._keep(KeptResult(client, result, msgid_of(job), until), now)
            if found is not None:
                _call_again(found)

    def _keep(self, kept: KeptResult, now: Millis) -> None:
        key, size = kept.client.key, kept.size()
        backlog = self._backlogs.setdefault(key, Backlog(deque(), self._due(0, now)))
        while backlog.results and backlog.bytes + size > self._share:
            self._drop(backlog.results[0])
        while self._order and self.kept_bytes + size > self._limits.kept_result_bytes:
            self._drop(next(iter(self._order)))
        self._backlogs[key] = backlog
        backlog.results.append(kept)
        backlog.bytes += size
        self.kept_bytes += size
        self._order[kept] = None
        self._stuck[key] = None

    def _drop(self, kept: KeptResult) -> None:
        self._forget(kept)
        self.dropped += 1
        client = self._find(kept.client)
        if client is not None:
            client.link.note(f"a result of {len(kept.result)} bytes that it did not take in time")

    def _forget(self, kept: KeptResult) -> None:
        """Keep the first result of a backlog no longer."""
        key = kept.client.key
        backlog = self._backlogs[key]
        backlog.results.popleft()
        del self._order[kept]
        backlog.bytes -= kept.size()
        self.kept_bytes -= kept.size()
        if not backlog.results:
            del self._backlogs[key]
            self._stuck.pop(key, None)

    def send_kept(self, key: bytes | str) -> None:
        """Send what waits for a client, as much of it as may be on its way at once."""
        has_left = False
        while (backlog := self._backlogs.get(key)) is not None:
            kept = backlog.results[0]
            client = self._find(kept.client)
            if client is None:
                self._stuck.pop(key, None)
                break
            if not client.takes_results:
                self._stuck[key] = None
                _call_again(client)
                break
            message = self._encoder.result(kept.result, kept.msgid, kept.client.envelope)
            client.link.write_pieces(message, durable=True)
            self._forget(kept)
            backlog.due_at = self._due(len(kept.result), self._now)
            backlog.is_waited_for = False
            has_left = True
        if has_left:
            self._wake()

    def tick(self, now: Millis) -> None:
        """Go on where a client takes more, and drop what has waited for too long."""
        self._now = now
        self._shared = None
        for key in list(self._stuck):
            self.send_kept(key)
        while self._order and next(iter(self._order)).until <= now:
            self._drop(next(iter(self._order)))
        self._wake()

    # -- workers that are faster than clients -----------------------------------------------------

    def must_wait(self, job: Job, size: int, now: Millis) -> bool:
        """Whether a result should stay with its worker until the client of its job takes more."""
        size += KEPT_COSTS_BYTES
        if self.kept_bytes + size <= self._share:
            return False
        client = client_of(job)
        if client is not None and self._has_no_room(client, size, now):
            return True
        if not self._broker.watchers_of(job.id):
            return False
        joined = [one.results[0].client for one in map(self._backlogs.get, self._stuck) if one]
        return any(
            found is not None and job.id in found.joined and self._has_no_room(other, size, now)
            for other, found in zip(joined, map(self._find, joined), strict=True)
        )

    def _wake(self) -> None:
        for worker in self.waiting:
            worker.link.call_next_turn()
        self.waiting.clear()

    def _due(self, size: int, now: Millis) -> Millis:
        """When a client should have taken a result that it is sent, and what went before it."""
        return now + (self._limits.output_soft_bytes + size) // PACE_BYTES_PER_MS

    def _has_no_room(self, client: Address, size: int, now: Millis) -> bool:
        """Whether a client that takes what it is sent would lose something by one more result."""
        found = self._find(client)
        backlog = self._backlogs.get(client.key)
        if found is None or (backlog is None and found.takes_results):
            return False
        if backlog is not None and backlog.bytes + size > self._share:
            return self._is_waited_for(backlog, now)
        too_much = self.kept_bytes + size - self._limits.kept_result_bytes
        for kept in self._order:  # as `_keep` would drop them
            if too_much <= 0:
                return False
            theirs = self._backlogs[kept.client.key]
            if self._find(kept.client) is not None and self._is_waited_for(theirs, now):
                return True
            too_much -= kept.size()
        return False

    def _is_waited_for(self, backlog: Backlog, now: Millis) -> bool:
        """Whether a client may still take more; to be asked before a worker waits for it."""
        is_short = self._in_vain_at != NEVER and now - self._in_vain_at < IN_VAIN_MS
        if now - backlog.due_at < (SHORT_PATIENCE_MS if is_short else PATIENCE_MS):
            backlog.is_waited_for = True
        elif backlog.is_waited_for:
            backlog.is_waited_for = False
            self._in_vain_at = now
        return backlog.is_waited_for


def _call_again(client: EventmqConversation) -> None:
    """Have a client's next turn come at once, if only what it was sent in this one is in the way.

    One whose socket is behind would be called in vain, again and again: `tick` comes back to it.
    """
    if not client.link.full:
        client.link.call_next_turn()
