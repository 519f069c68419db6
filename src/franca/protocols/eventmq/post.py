"""Results on their way to clients, who are known by their identity and not by a connection.

A result goes to the connection that asked for it or, once that is gone, to another of the same
identity: also to one that is made later, or after a restart of the server, because the job itself
remembers whom its result is for. What cannot be sent at once is kept for a while, in memory. A
client without an identity cannot come back, so what is for it ends with its connection.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from franca.core.broker import Broker
from franca.core.events import Event, Finished
from franca.core.model import Millis, OnHangUp, Session
from franca.protocols.conversation import Conversation
from franca.protocols.eventmq.job import ORIGIN, Address, client_of, msgid_of
from franca.protocols.eventmq.results import result_of

if TYPE_CHECKING:
    from franca.protocols.eventmq.conversation import EventmqConversation

KEPT_COSTS_BYTES: Final = 1_024
"""What a kept result takes besides its own bytes, roughly."""
SHARES: Final = 4
"""One client may have this part of all that is kept, and one result in any case."""


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
    """The results that wait for one client, oldest first."""

    letters: deque[Letter]
    bytes: int = 0


class Post(Conversation):
    """Every connection by its name and by its identity, and results that wait for theirs.

    `kept_bytes` is what all of them take. Oldest first, those go for which there is no room, and
    are counted as `dropped`.
    """

    def __init__(self, broker: Broker) -> None:
        self.kept_bytes = 0
        self.dropped = 0
        self._limits = broker.limits
        self._by_link: dict[str, EventmqConversation] = {}
        self._by_identity: dict[bytes, dict[EventmqConversation, None]] = {}
        self._boxes: dict[bytes | str, Box] = {}
        self._order: dict[Letter, None] = {}
        self._stuck: dict[bytes | str, None] = {}
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
        has_box = self._boxes and _key(client) in self._boxes  # it hears results in their order
        if found is not None and found.takes_results and not has_box:
            found.say_result(result_of(event), msgid_of(job), client.envelope)
        elif client.identity or found is not None:
            until = now + self._limits.kept_result_ms
            self._keep(Letter(client, result_of(event), msgid_of(job), until), _key(client))

    def _send(self, letter: Letter) -> bool:
        client = self._find(letter.client)
        if client is None or not client.takes_results:
            return False
        client.say_result(letter.result, letter.msgid, letter.client.envelope)
        return True

    def _keep(self, letter: Letter, key: bytes | str) -> None:
        size = letter.size()
        most = self._limits.kept_result_bytes
        box = self._boxes.setdefault(key, Box(deque()))
        while box.letters and box.bytes + size > most // SHARES:
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
            client.link.note(f"a result of {len(letter.result)} bytes that it did not read")

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
        while box is not None and box.letters:
            letter = box.letters[0]
            if not self._send(letter):
                if self._find(letter.client) is None:
                    self._stuck.pop(key, None)
                else:
                    self._stuck[key] = None
                return
            self._forget(letter)

    def look(self, now: Millis) -> None:
        """Go on where a client takes more, and forget what has waited for too long."""
        for key in list(self._stuck):
            self._empty(key)
        while self._order and next(iter(self._order)).until <= now:
            self._give_up(next(iter(self._order)))

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
