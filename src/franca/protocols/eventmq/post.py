"""Results on their way to clients, who are known by their identity and not by a connection.

A result goes to the connection that asked for it or, once that is gone, to another of the same
identity: also to one that is made later, or after a restart of the server, because the job itself
remembers whom its result is for. What cannot be sent at once is kept for a while, in memory. A
client without an identity cannot come back, so what is for it ends with its connection.

What is kept is bounded. Where there is no room for one more, a client that takes what it is sent
must not lose anything, so the worker that brings it waits. Who has taken nothing for some time is
not waited for: many clients never read, and their results go, the oldest first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.events import Event, Finished
from franca.core.model import NEVER, Job, Millis, OnHangUp, Session
from franca.protocols.conversation import Conversation
from franca.protocols.eventmq.job import ORIGIN, Address, client_of, msgid_of
from franca.protocols.eventmq.results import result_of

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

KEPT_COSTS_BYTES: Final = 1_024
"""What a kept result takes besides its own bytes, roughly."""
SHARES: Final = 4
"""One client may have this part of all that is kept, and one result in any case."""
PATIENCE_MS: Final = 10_000
"""For so long a worker waits for a client that takes nothing."""
SHORT_PATIENCE_MS: Final = 250
"""And after a wait in vain: who reads at all takes something in that time."""
IN_VAIN_MS: Final = 60_000
"""For so long after it, or a worker would wait for one such client after the other."""
PACE_BYTES_PER_MS: Final = 1_000
"""What is on its way to a client may take its time, at least at this pace."""


class Letter(Struct, eq=False):
    """A result that waits for its client."""

    client: Address
    result: bytes
    msgid: bytes
    until: Millis

    def size(self) -> int:
        """How much memory it takes."""
        return len(self.result) + KEPT_COSTS_BYTES


class Box(Struct):
    """The results that wait for one client, oldest first.

    `since` is when it should have taken what it was sent last, `is_waited_for` if a worker waits.
    """

    letters: deque[Letter]
    since: Millis
    bytes: int = 0
    is_waited_for: bool = False


class Post(Conversation):
    """Every connection by its name and by its identity, and results that wait for theirs.

    `kept_bytes` is what all of them take. Oldest first, those go for which there is no room, and
    are counted as `dropped`. None has to go before more than `share` is kept.
    """

    def __init__(self, broker: Broker) -> None:
        self.kept_bytes = 0
        self.dropped = 0
        self._broker = broker
        self._limits = broker.limits
        self.share = broker.limits.kept_result_bytes // SHARES
        self._now: Millis = NEVER
        self._in_vain_at: Millis = NEVER
        self._waiting: dict[EventmqConversation, None] = {}
        self._by_link: dict[str, EventmqConversation] = {}
        self._by_identity: dict[bytes, dict[EventmqConversation, None]] = {}
        self._boxes: dict[bytes | str, Box] = {}
        self._order: dict[Letter, None] = {}
        self._stuck: dict[bytes | str, None] = {}
        self._written: tuple[Finished, bytes] | None = None
        broker.listeners[ORIGIN] = broker.open_session("eventmq-post", OnHangUp.KEEP, self)

    # -- clients --------------------------------------------------------------------------------

    def join(self, client: EventmqConversation) -> None:
        """A connection is there: it hears what was kept for its identity."""
        self._by_link[client.link.id] = client
        if client.identity:
            self._by_identity.setdefault(client.identity, {})[client] = None
            self._empty(client.identity)

    def leave(self, client: EventmqConversation) -> None:
        """A connection is gone."""
        self._by_link.pop(client.link.id, None)
        self._waiting.pop(client, None)
        others = self._by_identity.get(client.identity)
        if others is not None:
            others.pop(client, None)
            if not others:
                del self._by_identity[client.identity]
        box = self._boxes.get(client.link.id)
        while box is not None and box.letters:
            self._forget(box.letters[0])

    def _find(self, client: Address) -> EventmqConversation | None:
        """The connection that asked, or the newest of the same identity."""
        found = self._by_link.get(client.link)
        if found is not None and found.identity == client.identity:
            return found
        others = self._by_identity.get(client.identity)
        return next(reversed(others)) if others else None

    # -- results --------------------------------------------------------------------------------

    def tell(self, session: Session, event: Event, now: Millis) -> None:
        """A job whose result somebody asked for has ended."""
        if not isinstance(event, Finished):
            return
        job = event.job
        client = client_of(job)
        if client is None:
            return
        found = self._find(client)
        if found is not None and found.joined and job.id in found.joined:
            found.part(job.id)
        if found is not None and not self._boxes and found.takes_results:
            # As `bring`, where nobody has anything that waits: nearly always.
            found.say_result(result_of(event), msgid_of(job), client.envelope)
            return
        self.bring(client, result_of(event), msgid_of(job), now)

    def written(self, event: Finished) -> bytes:
        """A result as all are sent it who have joined a request: one and the same for all."""
        written = self._written
        if written is None or written[0] is not event:
            written = self._written = (event, result_of(event))
        return written[1]

    def bring(self, client: Address, result: bytes, msgid: bytes, now: Millis) -> None:
        """A result for a client: it leaves at once, or waits behind those that wait already."""
        key = _key(client)
        if self._boxes and key in self._boxes:
            self._now = now
            self._empty(key)
        found = self._find(client)
        if found is not None and found.takes_results and key not in self._boxes:
            found.say_result(result, msgid, client.envelope)
        elif client.identity or found is not None:
            self._keep(Letter(client, result, msgid, now + self._limits.kept_result_ms), key, now)
            if found is not None:
                _call_again(found)

    def go_on(self, client: EventmqConversation) -> None:
        """A client has its turn: it may take more of what waits for it."""
        self._empty(client.identity or client.link.id)

    def _keep(self, letter: Letter, key: bytes | str, now: Millis) -> None:
        size = letter.size()
        most = self._limits.kept_result_bytes
        box = self._boxes.setdefault(key, Box(deque(), self._due(0, now)))
        while box.letters and box.bytes + size > self.share:
            self._give_up(box.letters[0])
        while self._order and self.kept_bytes + size > most:
            self._give_up(next(iter(self._order)))
        self._boxes[key] = box
        box.letters.append(letter)
        box.bytes += size
        self.kept_bytes += size
        self._order[letter] = None
        self._stuck[key] = None

    def _give_up(self, letter: Letter) -> None:
        self._forget(letter)
        self.dropped += 1
        client = self._find(letter.client)
        if client is not None:
            client.link.note(f"a result of {len(letter.result)} bytes that it did not take in time")

    def _forget(self, letter: Letter) -> None:
        """Keep the first letter of a box no longer."""
        key = _key(letter.client)
        box = self._boxes[key]
        box.letters.popleft()
        del self._order[letter]
        size = letter.size()
        box.bytes -= size
        self.kept_bytes -= size
        if not box.letters:
            del self._boxes[key]
            self._stuck.pop(key, None)

    def _empty(self, key: bytes | str) -> None:
        """Send what waits for a client, as much of it as there may be on its way at once."""
        box = self._boxes.get(key)
        has_left = False
        while box is not None and box.letters:
            letter = box.letters[0]
            client = self._find(letter.client)
            if client is None:
                self._stuck.pop(key, None)
                break
            if not client.takes_results:
                self._stuck[key] = None
                _call_again(client)
                break
            client.say_result(letter.result, letter.msgid, letter.client.envelope)
            self._forget(letter)
            box.since = self._due(len(letter.result), self._now)
            box.is_waited_for = False
            has_left = True
        if has_left:
            self._wake()

    def look(self, now: Millis) -> None:
        """Go on where a client takes more, and forget what has waited for too long."""
        self._now = now
        self._written = None
        for key in list(self._stuck):
            self._empty(key)
        while self._order and next(iter(self._order)).until <= now:
            self._give_up(next(iter(self._order)))
        self._wake()

    # -- workers that are faster than clients -----------------------------------------------------

    def must_wait(self, job: Job, size: int, now: Millis) -> bool:
        """Whether a result should stay with its worker until whoever asked for it takes more."""
        size += KEPT_COSTS_BYTES
        client = client_of(job)
        if client is not None and self._has_no_room(client, size, now):
            return True
        if not self._broker.watchers_of(job.id):
            return False
        joined = [box.letters[0].client for box in map(self._boxes.get, self._stuck) if box]
        return any(
            found is not None and job.id in found.joined and self._has_no_room(other, size, now)
            for other, found in zip(joined, map(self._find, joined), strict=True)
        )

    def wait(self, worker: EventmqConversation) -> None:
        """A worker waits: it is called when something has left, and now and then."""
        self._waiting[worker] = None

    def _wake(self) -> None:
        for worker in self._waiting:
            worker.link.again()
        self._waiting.clear()

    def _due(self, size: int, now: Millis) -> Millis:
        """When a client should have taken a result that it is sent, and what went before it."""
        return now + (self._limits.output_soft_bytes + size) // PACE_BYTES_PER_MS

    def _has_no_room(self, client: Address, size: int, now: Millis) -> bool:
        """Whether a client that takes what it is sent would lose something by one more result."""
        found = self._find(client)
        box = self._boxes.get(_key(client))
        if found is None or (box is None and found.takes_results):
            return False
        if box is not None and box.bytes + size > self.share:
            return self._is_waited_for(box, now)
        too_much = self.kept_bytes + size - self._limits.kept_result_bytes
        for letter in self._order:  # as `_keep` would have them go
            if too_much <= 0:
                return False
            theirs = self._boxes[_key(letter.client)]
            if self._find(letter.client) is not None and self._is_waited_for(theirs, now):
                return True
            too_much -= letter.size()
        return False

    def _is_waited_for(self, box: Box, now: Millis) -> bool:
        """Whether a client may still take more; to be asked before a worker waits for it."""
        is_short = self._in_vain_at != NEVER and now - self._in_vain_at < IN_VAIN_MS
        if now - box.since < (SHORT_PATIENCE_MS if is_short else PATIENCE_MS):
            box.is_waited_for = True
        elif box.is_waited_for:
            box.is_waited_for = False
            self._in_vain_at = now
        return box.is_waited_for

    # -- a conversation with nobody ---------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Nobody speaks here."""
        return False

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """Nobody leaves."""

    def unread(self) -> int:
        """Nothing comes."""
        return 0


def _key(client: Address) -> bytes | str:
    return client.identity or client.link


def _call_again(client: EventmqConversation) -> None:
    """Have a client's next turn come at once, if only what it was told in this one is in the way.

    One whose socket is behind would be called in vain, again and again: `look` comes back to it.
    """
    if not client.link.full:
        client.link.again()
