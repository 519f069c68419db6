"""The engine: every link's conversation and the broker, driven by inputs and a time.

One turn takes what came in, lets each conversation act on its share, and delivers the events
that follow, until nothing is left to say. What came of it is for the node: links with something
to send (`with_output`), changes to commit (`broker.drain`), jobs wanted from the store, and what
operators should know of peers (`notices`).

Whatever a peer sends, at worst its own link ends. An exception that a conversation raises while it
reads, handles a message or is told an event is charged to its link (`_blame`). One that comes
out of the broker is not the peer's: a half-changed broker must not go on, so it is raised.

Whoever drives the engine is asked `between` the shares of links whether the turn should end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from franca.core.broker import Broker
from franca.core.errors import Refused, WireError
from franca.core.events import Event, Granted
from franca.core.limits import Limits
from franca.core.model import Job, Millis, Session
from franca.core.wants import SupplyReady, SupplyWaiting, Want
from franca.engine.blame import close_sessions, is_of_the_core, link_in
from franca.engine.roster import Roster
from franca.protocols.conversation import Link, Notice, Peer
from franca.protocols.service import Service

TICK_MS = 50
SWEEP_MS = 1_000
LAST_SHARES = 8
"""Turns' shares of those who are gone that are acted on at once, in one turn."""
ENDED_AT_ONCE = 256
"""How many may go in one turn; of more at once, the others are there a little longer."""
TOLD_AT_ONCE = 16
"""How many are told something in about the time that a message takes."""
COSTLY = 64
"""What a share costs, beyond its messages, whose link is costly: what it sends next waits for those
who are not, and for the others that are."""
SLICE = 32
"""How many pieces of input, or messages of one, are acted on before it is asked whether the turn
should end."""


class Engine(Roster):
    """Links, services and one broker. Every method is a step; none waits.

    `unhandled` counts the exceptions for which a link had to end.
    `between` is asked now and then, with the link that was heard last, whether the turn should end;
    if `one_by_one`, after every piece of input. `before` is then shown each, before it is acted on.
    """

    def __init__(self, broker: Broker, services: Mapping[str, Service], limits: Limits) -> None:
        super().__init__(limits)
        self.broker = broker
        self.services = services
        self.before: Callable[[Link, int], None] | None = None
        self.between: Callable[[Link], bool] | None = None
        self.one_by_one = False
        self.with_output: list[Link] = []
        self.notices: list[Notice] = []
        self.unhandled = 0
        self._wanting: list[Link] = []
        self._ended = 0
        self._last_shares = LAST_SHARES
        self._share = limits.turn_messages
        self._work = 0
        self._delivering = False
        self._tick_at: Millis = 0

    # -- links ------------------------------------------------------------------------------

    def open_link(self, service_name: str, link_id: str, peer: Peer, now: Millis) -> Link:
        """A peer has connected; its greeting may already be written."""
        calls = self.with_output, self._wanting, self.notices
        link = Link(link_id, peer, *calls, now, service_name, self.limits.output_soft_bytes)
        self.links[link] = None
        self.unknown[link] = None
        if len(self.unknown) > self.limits.unknown_max:
            self.drop_one_of_many(now)
        link.conversation = self.services[service_name].open(link, now)
        return link

    def close_link(self, link: Link, now: Millis, *, undelivered: bool) -> None:
        """A peer is gone. Whole messages that came before are acted on first.

        The few that most have at once, a flood turn by turn; nothing of one that took no answers.
        """
        takes_nothing = link.full and not link.conversation.drops
        is_done = link.closing or takes_nothing
        waits = not is_done and (link in self.held_back or self.broker.is_behind())
        self._ended += 1
        if waits or self._ended > ENDED_AT_ONCE or len(self.inputs) > SLICE:
            self.leave(link, undelivered, is_done=is_done)
            return
        self._take_inputs(now)
        if link.closing or takes_nothing:
            self.held_back.pop(link, None)
            self._unfinished.pop(link, None)  # nothing more of it is acted on
        while self._last_shares and link in self._unfinished:
            self._last_shares -= 1
            del self._unfinished[link]
            self._serve(link, now)
            undelivered = True
        if link in self._unfinished:
            self._leaving[link] = 0, True
        else:
            self._end_link(link, now, undelivered=undelivered)

    def _end_link(self, link: Link, now: Millis, *, undelivered: bool) -> None:
        if link.closed:
            return
        link.closed = True
        link.ready = False
        for kept in (self.links, self.unknown, self._unfinished, self.held_back, self._leaving):
            kept.pop(link, None)
        try:
            link.conversation.hang_up(now, undelivered=undelivered or bool(link.out))
        except Exception as error:
            self._charge(link, error)
            close_sessions(self.broker, link.conversation, now)
        link.conversation.forget_unread()
        self.deliver(now)

    def has_input(self) -> bool:
        """Whether another turn is wanted at once."""
        waits = self._leaving and not self.broker.is_behind()
        return bool(self.inputs or self._unfinished or self._wanting or waits)

    # -- the turn ---------------------------------------------------------------------------

    def turn(self, now: Millis) -> None:
        """Act on what came in, and on everything whose time has come."""
        self._ended = 0
        self._last_shares = LAST_SHARES
        if now >= self._tick_at:
            self.tick(now)
        if self._leaving and not self.broker.is_behind():
            self.resume_leaving()
        if self._wanting:
            self._unfinished.update(dict.fromkeys(self._wanting))
            self._wanting.clear()
        if self._unfinished:
            self._take_unfinished(now)
        if self.inputs:
            self._take_inputs(now, self.between)
        if self._leaving:
            for link, undelivered in self.done_leaving(ENDED_AT_ONCE):
                self._end_link(link, now, undelivered=undelivered)

    def _take_unfinished(self, now: Millis) -> None:
        """Let those go on who had more than their share, each with one share more."""
        unfinished, self._unfinished = list(self._unfinished), {}
        gone: Link | None = None
        for at, link in enumerate(unfinished, 1):
            if link in self.held_back:
                continue
            if link in self._leaving and gone is not None:
                self._unfinished[link] = None  # those who are gone have one share together
            else:
                gone = link if link in self._leaving else gone
                self._serve(link, now)
                if self.between is not None and self.between(link):
                    rest = {other: None for other in unfinished[at:] if not other.closed}
                    self._unfinished = rest | self._unfinished
                    return

    def _take_inputs(self, now: Millis, between: Callable[[Link], bool] | None = None) -> None:
        inputs, events = self.inputs, self.broker.events
        while inputs:
            some = inputs[: 1 if self.one_by_one else SLICE]
            del inputs[: len(some)]
            self._taken += len(some)
            if self.one_by_one and self.before is not None:
                [(link, data)] = some
                self.before(link, len(data))
            self._work = 0
            rest = iter(some)
            for link, data in rest:
                conversation = link.conversation
                if not link.ready or conversation.holding or not data:
                    self._keep(link, data, now)
                    continue
                # As `_read_on`, for a message that comes alone, as nearly always.
                reader = conversation.reader
                try:
                    message = reader.next_message(data)
                    if message is None:
                        conversation.on_partial(now)
                    else:
                        conversation.on_message(message, now)
                except Exception as error:
                    self._on_error(link, error, now)
                if events:
                    if len(events) >= TOLD_AT_ONCE:
                        conversation.spent += len(events) // TOLD_AT_ONCE
                    self.deliver(now)
                if reader.has_input or conversation.spent:
                    self._read_on(link, now, 1)
                    if self._work > SLICE:
                        left = list(rest)
                        inputs[:0] = left
                        self._taken -= len(left)
                        break
            if (inputs or self.one_by_one) and between is not None and between(link):
                return

    def _keep(self, link: Link, data: bytes, now: Millis) -> None:
        """Take bytes of a link that is held back, or holds, or is costly; none are its end."""
        if link.closing or link.closed:
            return
        if data:
            link.conversation.reader.feed(data)
        elif link not in self._leaving:
            link.input_ended = True
        if link in self.held_back:
            return
        if link.costly or link.input_ended:
            self._unfinished[link] = None
        else:
            self._read_on(link, now)

    def _serve(self, link: Link, now: Millis) -> None:
        """Let a link go on though nothing came from it."""
        if link.closing or link.closed:
            return
        try:
            link.conversation.on_turn(now)
        except Exception as error:
            self._on_error(link, error, now)
        if self.broker.events:
            self.deliver(now)
        self._read_on(link, now)

    def _read_on(self, link: Link, now: Millis, read: int = 0) -> None:
        """Act on the messages that are there, at most a turn's share of them.

        So many were `read` of this share already.
        """
        conversation = link.conversation
        reader = conversation.reader
        events = self.broker.events
        share = self._share
        cost = conversation.spent  # of what was read already, beyond most messages
        conversation.spent = 0
        try:
            while reader.has_input and not conversation.holding and not link.closing:
                if read + cost >= share or (link.in_pieces and link.is_full()):
                    self._unfinished[link] = None
                    break
                message = reader.next_message()
                if message is None:
                    conversation.on_partial(now)
                    break
                conversation.on_message(message, now)
                read += 1
                if events:
                    if len(events) >= TOLD_AT_ONCE:
                        cost += len(events) // TOLD_AT_ONCE
                    self.deliver(now)
                if conversation.spent:
                    cost += conversation.spent
                    conversation.spent = 0
            if conversation.has_follow_up and not link.closing:
                conversation.follow_up(now)
            if conversation.busy:
                self._unfinished[link] = None
        except Exception as error:
            self._on_error(link, error, now)
        if read:
            link.partial_since = 0  # a message was finished: whatever is left began after it
        self._work += read + cost
        link.costly = cost > COSTLY
        is_apart = link.costly or link.partial_since or link in self.held_back
        link.ready = not (is_apart or link.closing or link.closed)
        if events:
            self.deliver(now)

    def _on_error(self, link: Link, error: Exception, now: Millis) -> None:
        """A conversation raised: its peer sent what is no message, or the mistake is its own."""
        if isinstance(error, WireError):
            try:
                if link.conversation.has_follow_up:
                    # What was asked for before these bytes is given, however they were cut.
                    link.conversation.follow_up(now)
                    self.deliver(now)
                link.conversation.on_unreadable(error, now)
                return
            except Exception as failure:
                error = failure
        self._blame(link, error, now)

    def deliver(self, now: Millis) -> None:
        """Tell each event to whoever speaks for its session, and what follows from it."""
        if self._delivering:
            return  # what follows is added to the events that are being told
        self._delivering = True
        events = self.broker.events
        try:
            for session, event in events:
                sink = session.owner
                if sink is None:
                    continue
                try:
                    sink.on_event(session, event, now)
                except Exception as error:
                    link: Link | None = getattr(sink, "link", None)
                    self._blame(link, error, now, session, event)
        finally:
            events.clear()
            self._delivering = False

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
        link.ready = False
        self.with_output.append(link)
        self._end_link(link, now, undelivered=True)

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
        elif (page := self.broker.page_of(want, jobs)) is not None:
            try:
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
