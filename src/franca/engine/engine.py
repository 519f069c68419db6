"""The engine: every link's conversation and the broker, driven by inputs and a time.

One turn takes what came in, lets each conversation act on its share, and delivers the events
that follow, until nothing is left to say. What came of it is for the node: links with something
to say (`speaking`), changes to commit (`broker.drain`), jobs wanted from the store, and what
operators should know of peers (`notices`).

Whatever a peer sends, at worst its own link ends. An exception that a conversation raises while it
reads, handles a message or is told an event is charged to its link (`_blame`). One that comes
out of the broker is not the peer's: a half-changed broker must not go on, so it is raised.

A turn need not end with everything acted on. Whoever drives the engine is asked `between` the
shares of links whether it should, so that no pass takes long; who was not heard comes first then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.events import Event, Granted
from franca.core.limits import Limits
from franca.core.model import Job, Millis, Session
from franca.core.tail import Recall, SupplyReady, SupplyWaiting, Want
from franca.engine.blame import close_sessions, is_of_the_core, link_in
from franca.engine.roster import LAST_BYTES, LINK_BYTES, Held, Roster
from franca.protocols.conversation import Conversation, Link, Notice, Peer, Service

TICK_MS = 50
SWEEP_MS = 1_000
LAST_SHARES = 8
"""Turns' shares of those who are gone that are acted on at once, in one turn."""
PARTINGS = 256
"""How many may go in one turn; of more at once, the others are there a little longer."""
SLICE = 32
"""How many pieces of input are acted on before it is asked whether the turn should end."""


class Engine(Roster):
    """Links, services and one broker. Every method is a step; none waits.

    `unhandled` counts the exceptions for which a link had to end.
    `between` is asked now and then, with the link that was heard last, whether the turn should end;
    if `careful`, after every piece of input. `before` is then shown each, before it is acted on.
    """

    def __init__(self, broker: Broker, services: Mapping[str, Service], limits: Limits) -> None:
        super().__init__(limits)
        self.broker = broker
        self.services = services
        self.before: Callable[[Link, int], None] | None = None
        self.between: Callable[[Link], bool] | None = None
        self.careful = False
        self.speaking: list[Link] = []
        self.notices: list[Notice] = []
        self.unhandled = 0
        self._wanting: list[Link] = []
        self._unfinished: dict[Link, None] = {}
        self._leaving: dict[Link, tuple[int, bool]] = {}
        self._parted = 0
        self._last_shares = LAST_SHARES
        self._taken = 0
        self._tick_at: Millis = 0

    # -- links ------------------------------------------------------------------------------

    def open_link(self, service_name: str, link_id: str, peer: Peer, now: Millis) -> Link:
        """A peer has connected; its greeting may already be written."""
        link = Link(
            link_id,
            peer,
            self.speaking,
            self._wanting,
            self.notices,
            self.deliver,
            now,
            service_name,
            self.limits.output_soft_bytes,
        )
        self.links[link] = None
        self.unknown[link] = None
        if len(self.unknown) > self.limits.unknown_max:
            self.drop_one_of_many(now)
        link.conversation = self.services[service_name].open(link, now)
        return link

    def received(self, link: Link, data: bytes) -> None:
        """Bytes came from a peer; they are acted on in the next turn. (`inputs`, once more.)"""
        self.inputs.append((link, data))

    def close_link(self, link: Link, now: Millis, *, unheard: bool) -> None:
        """A peer is gone. Whole messages that came before are acted on first.

        The few that most have at once, a flood turn by turn; nothing of one that took no answers.
        """
        is_deaf = link.full and not link.conversation.drops
        is_done = link.closing or is_deaf
        waits = not is_done and (link in self.held_back or self.broker.is_behind())
        self._parted += 1
        if waits or self._parted > PARTINGS or len(self.inputs) > SLICE:
            self._leave(link, unheard, is_done=is_done)
            return
        self._take_inputs(now)
        if link.closing or is_deaf:
            self.held_back.pop(link, None)
            self._unfinished.pop(link, None)  # nothing more of it is acted on
        while self._last_shares and link in self._unfinished:
            self._last_shares -= 1
            del self._unfinished[link]
            self._receive(link, b"", now)
            unheard = True
        if link in self._unfinished:
            self._leaving[link] = 0, True
        else:
            self._part(link, now, unheard=unheard)

    def _leave(self, link: Link, unheard: bool, *, is_done: bool) -> None:
        """Have a link end after everything that came so far was acted on, if not `is_done`."""
        unheard = unheard or bool(link.out)
        link.speaking = []  # what is said from now on stays, and nobody hears it
        if is_done:
            self.held_back.pop(link, None)
            self._unfinished.pop(link, None)
            self._leaving[link] = 0, unheard
        else:
            self.put_off(link)
            self._leaving[link] = self._taken + len(self.inputs), unheard

    def _hear_out(self) -> None:
        """Let some of those who are gone go on, behind the others: nobody waits for that."""
        inputs, left = self.inputs, 0 if self.broker.is_behind() else LAST_BYTES
        for link, (last, unheard) in list(self._leaving.items()):
            if left > 0 and link in self.held_back and self._taken >= last:
                kept = self.held_back[link].kept
                inputs += [(link, data) for data in kept]
                self._let_act(link, self.held_back.pop(link))
                self._leaving[link] = self._taken + len(inputs), unheard
                left -= LINK_BYTES + sum(map(len, kept)) if len(inputs) < PARTINGS else left

    def _see_off(self, now: Millis) -> None:
        """Let go of those who are gone and have nothing left to be acted on."""
        left = PARTINGS
        for link, (last, unheard) in list(self._leaving.items()):
            if link.out:
                unheard = True
                self._leaving[link] = last, unheard
                link.forget_said()
            has_more = link in self._unfinished or self.has_kept(link)
            if self._taken >= last and not has_more:
                self._part(link, now, unheard=unheard)
                left -= 1
                if not left:
                    return

    def _part(self, link: Link, now: Millis, *, unheard: bool) -> None:
        if link.closed:
            return
        link.closed = True
        self.links.pop(link, None)
        self.unknown.pop(link, None)
        self._unfinished.pop(link, None)
        self.held_back.pop(link, None)
        self._leaving.pop(link, None)
        try:
            link.conversation.hang_up(now, unheard=unheard or bool(link.out))
        except Exception as error:
            self._charge(link, error)
            close_sessions(self.broker, link.conversation, now)
        link.conversation.forget_unread()
        self.deliver(now)

    def has_input(self) -> bool:
        """Whether another turn is wanted at once."""
        waits = self._leaving and not self.broker.is_behind()
        return bool(self.inputs or self._unfinished or self._wanting or waits)

    def unfinished(self) -> list[Link]:
        """Links that have sent more than their share of a turn."""
        return list(self._unfinished)

    def waits_to_act(self, link: Link) -> bool:
        """Whether a link's unread bytes may be whole messages; if not, only more bytes can help."""
        return link in self.held_back or link in self._unfinished or link.conversation.holding

    def hold_back(self, link: Link) -> None:
        """Act on nothing more of what a peer sends until it takes the answers to the rest."""
        self.put_off(link)
        link.full = True
        if link in self.held_back:
            self.held_back[link].is_deaf = True

    def put_off(self, link: Link) -> None:
        """Act on nothing more of what a peer sends until it may go on; its bytes are kept.

        It takes what is said to it, and may be told more.
        """
        if link not in self.held_back:
            self.held_back[link] = Held()

    def go_on(self, link: Link) -> None:
        """A peer is held back no more: act on what it sent meanwhile."""
        if link not in self.held_back or link in self._leaving:
            return
        held = self.held_back.pop(link)
        if held.is_deaf:
            link.full = False
        self._let_act(link, held)
        self.inputs[:0] = [(link, data) for data in held.kept]
        self._taken -= len(held.kept)

    def _let_act(self, link: Link, held: Held) -> None:
        conversation = link.conversation
        if held.unfinished or (conversation.unread() and not conversation.holding):
            self._unfinished[link] = None

    # -- the turn ---------------------------------------------------------------------------

    def turn(self, now: Millis) -> None:
        """Act on what came in, and on everything whose time has come."""
        self._parted = 0
        self._last_shares = LAST_SHARES
        if now >= self._tick_at:
            self.tick(now)
        if self._leaving:
            self._hear_out()
        if self._wanting:
            self._unfinished.update(dict.fromkeys(self._wanting))
            self._wanting.clear()
        if self._unfinished:
            self._take_unfinished(now)
        if self.inputs:
            self._take_inputs(now, self.between)
        if self._leaving:
            self._see_off(now)

    def _take_unfinished(self, now: Millis) -> None:
        """Let those go on who had more than their share, each with one share more."""
        unfinished, self._unfinished = list(self._unfinished), {}
        gone: Link | None = None
        for at, link in enumerate(unfinished, 1):
            if link in self.held_back:
                self.held_back[link].unfinished = True
            elif link in self._leaving and gone is not None:
                self._unfinished[link] = None  # those who are gone have one share together
            else:
                gone = link if link in self._leaving else gone
                self._receive(link, b"", now)
                if self.between is not None and self.between(link):
                    rest = {other: None for other in unfinished[at:] if not other.closed}
                    self._unfinished = rest | self._unfinished
                    return

    def _take_inputs(self, now: Millis, between: Callable[[Link], bool] | None = None) -> None:
        inputs, events = self.inputs, self.broker.events
        unfinished, held_back = self._unfinished, self.held_back
        while inputs:
            some = inputs[: 1 if self.careful else SLICE]
            del inputs[: len(some)]
            self._taken += len(some)
            if self.careful and self.before is not None:
                [(link, data)] = some
                self.before(link, len(data))
            for link, data in some:
                if link.closing or link.closed:
                    continue
                if link.partial_since or held_back:
                    self._receive(link, data, now)
                    continue
                try:
                    if link.conversation.receive(data, now):
                        unfinished[link] = None
                except Exception as error:
                    self._blame(link, error, now)
                if events:
                    self.deliver(now)
            if (inputs or self.careful) and between is not None and between(link):
                return

    def _receive(self, link: Link, data: bytes, now: Millis) -> None:
        if link.closing or link.closed:
            return
        if link in self.held_back:
            self.held_back[link].kept.append(data)
            return
        conversation = link.conversation
        try:
            unread = conversation.unread() + len(data)
            if conversation.receive(data, now):
                self._unfinished[link] = None
            if conversation.unread() < unread:
                link.partial_since = 0  # a message was finished: whatever is left began after it
        except Exception as error:
            self._blame(link, error, now)
        if self.broker.events:
            self.deliver(now)

    def deliver(self, now: Millis) -> None:
        """Tell each event to whoever speaks for its session, and what follows from it."""
        events = self.broker.events
        while events:
            batch = events[:]
            events.clear()
            for session, event in batch:
                conversation: Conversation = session.owner  # type: ignore[assignment]
                try:
                    held = conversation.holding
                    conversation.tell(session, event, now)
                    if held and not conversation.holding and conversation.unread():
                        self._unfinished[conversation.link] = None
                except Exception as error:
                    link: Link | None = getattr(conversation, "link", None)
                    self._blame(link, error, now, session, event)

    # -- errors -----------------------------------------------------------------------------

    def _blame(
        self,
        link: Link | None,
        error: Exception,
        now: Millis,
        session: Session | None = None,
        event: Event | None = None,
    ) -> None:
        """End the link whose conversation raised, as one whose last answers were not delivered.

        A job that it was granted by the `event` that it was just told of goes back.
        """
        if link is None:
            raise error
        self._charge(link, error)
        if session is not None and isinstance(event, Granted):
            try:
                self.broker.give_back(event.job, session.holder, now)
            except Refused:
                pass  # the conversation has settled it, or given it back
        link.forget_said()
        link.broken = link.closing = True
        self.speaking.append(link)
        self._part(link, now, unheard=True)

    def _charge(self, link: Link, error: Exception) -> None:
        """Note that a conversation raised; an error of the broker is not the link's, and raised."""
        if is_of_the_core(error, self.broker):
            raise error
        self.unhandled += 1
        self.notices.append(Notice(link, f"{type(error).__name__} in its conversation", error))

    def tick(self, now: Millis) -> None:
        """Everything whose time has come, in the broker, the services and on the links."""
        self._tick_at = now + TICK_MS
        self.broker.tick(now)
        self.deliver(now)
        for service in self.services.values():
            try:
                service.tick(now)
            except Exception as error:
                self._blame(link_in(error), error, now)
        if now - self._swept_at >= SWEEP_MS:
            self.sweep(now)
        self.deliver(now)

    def next_wake(self) -> Millis:
        """When `turn` looks at the time next: what falls due before waits for it."""
        return self._tick_at

    # -- the store --------------------------------------------------------------------------

    def supplied(self, want: Want, jobs: list[Job], now: Millis) -> None:
        """The store brought what was wanted, as it is behind everything drained so far."""
        if isinstance(want, SupplyReady):
            self.broker.supplied_ready(want, jobs, now)
        elif isinstance(want, SupplyWaiting):
            self.broker.supplied_waiting(want, jobs)
        elif isinstance(want, Recall):
            page = self.broker.page_of(want, jobs)
            try:
                if page is not None:
                    want.by.recalled(want.query, page, now)
            except Exception as error:
                self._blame(getattr(want.by, "link", None), error, now)
        self.deliver(now)

    # -- the end ----------------------------------------------------------------------------

    def stop(self, now: Millis) -> None:
        """Ask every peer to leave, as far as its protocol has words for it."""
        for service in self.services.values():
            service.stop(now)
        for link in list(self.links):
            try:
                link.conversation.stop(now)
            except Exception as error:
                self._blame(link, error, now)
        self.deliver(now)

    def consumers(self) -> int:
        """How many links of workers are still there after `stop`."""
        return sum(service.consumers() for service in self.services.values())
