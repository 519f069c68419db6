"""The engine: every link's conversation and the broker, driven by inputs and a time.

One turn takes what came in, lets each conversation act on its share, and delivers the events
that follow, until nothing is left to say. What came of it is for the node: links with something
to say (`speaking`), changes to commit (`broker.drain`), jobs wanted from the store, and what
operators should know of peers (`notices`).

Whatever a peer sends, at worst its own link ends. An exception that a conversation raises while it
reads, handles a message or is told an event is charged to its link (`_blame`). One that comes
out of the broker is not the peer's: a half-changed broker must not go on, so it is raised.
"""

from __future__ import annotations

from collections.abc import Mapping

from franca.core.broker import Broker
from franca.core.errors import Refused
from franca.core.events import Event, Granted
from franca.core.limits import Limits
from franca.core.model import Job, Millis, Session
from franca.core.tail import Recall, SupplyReady, SupplyWaiting, Want
from franca.protocols.conversation import Conversation, Link, Notice, Peer, Service

TICK_MS = 50
SWEEP_MS = 1_000
LAST_SHARES = 8
"""Turns' shares of a peer that is gone that are acted on at once."""


class Engine:
    """Links, services and one broker. Every method is a step; none waits.

    `unhandled` counts the exceptions for which a link had to end.
    """

    def __init__(self, broker: Broker, services: Mapping[str, Service], limits: Limits) -> None:
        self.broker = broker
        self.services = services
        self.limits = limits
        self.links: dict[Link, None] = {}
        self.unknown: dict[Link, None] = {}
        self.speaking: list[Link] = []
        self.inputs: list[tuple[Link, bytes]] = []
        self.notices: list[Notice] = []
        self.unhandled = 0
        self._wanting: list[Link] = []
        self._unfinished: dict[Link, None] = {}
        self._held_back: dict[Link, bool] = {}
        self._leaving: dict[Link, None] = {}
        self._tick_at: Millis = 0
        self._swept_at: Millis = 0

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
        )
        self.links[link] = None
        self.unknown[link] = None
        if len(self.unknown) > self.limits.unknown_max:
            self._drop_one_of_many(now)
        link.conversation = self.services[service_name].open(link, now)
        return link

    def received(self, link: Link, data: bytes) -> None:
        """Bytes came from a peer; they are acted on in the next turn. (`inputs`, once more.)"""
        self.inputs.append((link, data))

    def close_link(self, link: Link, now: Millis, *, unheard: bool) -> None:
        """A peer is gone. Whole messages that came before are acted on first.

        The few that most have at once, a flood turn by turn; but nothing of a peer that did not
        take the answers to the rest.
        """
        self._take_inputs(now)
        if link in self._held_back:
            del self._held_back[link]
            self._unfinished.pop(link, None)
        if link.closing:
            self._unfinished.pop(link, None)  # nothing more of it is acted on
        for _ in range(LAST_SHARES):
            if link in self._unfinished:
                del self._unfinished[link]
                self._receive(link, b"", now)
                unheard = True
        if link in self._unfinished:
            self._leaving[link] = None
        else:
            self._part(link, now, unheard=unheard)

    def _see_off(self, now: Millis) -> None:
        """Let go of those who are gone and have nothing left to be acted on."""
        for link in [link for link in self._leaving if link not in self._unfinished]:
            del self._leaving[link]
            self._part(link, now, unheard=True)

    def _part(self, link: Link, now: Millis, *, unheard: bool) -> None:
        if link.closed:
            return
        link.closed = True
        self.links.pop(link, None)
        self.unknown.pop(link, None)
        self._unfinished.pop(link, None)
        self._held_back.pop(link, None)
        link.conversation.hang_up(now, unheard=unheard or bool(link.out))
        link.conversation.forget_unread()
        self.deliver(now)

    def has_input(self) -> bool:
        """Whether another turn is wanted at once."""
        return bool(self.inputs or self._unfinished or self._wanting)

    def unfinished(self) -> list[Link]:
        """Links that have sent more than their share of a turn."""
        return list(self._unfinished)

    def waits_to_act(self, link: Link) -> bool:
        """Whether a link's unread bytes may be whole messages; if not, only more bytes can help."""
        held_back = link in self._held_back
        return held_back or link in self._unfinished or link.conversation.holding

    def hold_back(self, link: Link) -> None:
        """Act on nothing more of what a peer sent until it takes the answers to the rest."""
        self._held_back.setdefault(link, False)
        link.full = True

    def go_on(self, link: Link) -> None:
        """A peer takes its answers again: act on what it sent meanwhile."""
        unfinished = self._held_back.pop(link, False)
        link.full = False
        conversation = link.conversation
        if unfinished or (conversation.unread() and not conversation.holding):
            self._unfinished[link] = None

    # -- the turn ---------------------------------------------------------------------------

    def turn(self, now: Millis) -> None:
        """Act on everything that came in, and on everything whose time has come."""
        if now >= self._tick_at:
            self.tick(now)
        if self._wanting:
            self._unfinished.update(dict.fromkeys(self._wanting))
            self._wanting.clear()
        if self._unfinished:
            unfinished, self._unfinished = self._unfinished, {}
            gone: Link | None = None
            for link in unfinished:
                if link in self._held_back:
                    self._held_back[link] = True
                elif link in self._leaving and gone is not None:
                    self._unfinished[link] = None  # those who are gone have one share together
                else:
                    gone = link if link in self._leaving else gone
                    self._receive(link, b"", now)
            if self._leaving:
                self._see_off(now)
        self._take_inputs(now)

    def _take_inputs(self, now: Millis) -> None:
        if not self.inputs:
            return
        inputs = self.inputs[:]
        self.inputs.clear()
        events = self.broker.events
        unfinished = self._unfinished
        for link, data in inputs:
            if link.closing or link.closed:
                continue
            if link.partial_since:
                self._receive(link, data, now)
                continue
            try:
                if link.conversation.receive(data, now):
                    unfinished[link] = None
            except Exception as error:
                self._blame(link, error, now)
            if events:
                self.deliver(now)

    def _receive(self, link: Link, data: bytes, now: Millis) -> None:
        if link.closing or link.closed:
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
        if link is None or is_of_the_core(error, self.broker):
            raise error
        self.unhandled += 1
        self.notices.append(Notice(link, f"{type(error).__name__} in its conversation", error))
        if session is not None and isinstance(event, Granted):
            try:
                self.broker.give_back(event.job, session.holder, now)
            except Refused:
                pass  # the conversation has settled it, or given it back
        link.out.clear()
        link.after_commit = False
        link.broken = link.closing = True
        self.speaking.append(link)
        self._part(link, now, unheard=True)

    def tick(self, now: Millis) -> None:
        """Everything whose time has come, in the broker, the services and on the links."""
        self._tick_at = now + TICK_MS
        self.broker.tick(now)
        self.deliver(now)
        for service in self.services.values():
            service.tick(now)
        if now - self._swept_at >= SWEEP_MS:
            self._sweep(now)
            self._swept_at = now
        self.deliver(now)

    # -- links that are given up --------------------------------------------------------------

    def _sweep(self, now: Millis) -> None:
        """Hang up on those who never said who they are, or never finish a message."""
        self._forget_known()
        surplus = len(self.unknown) - self.limits.unknown_max
        for link in self.unknown:
            late = now - link.opened_at > self.limits.handshake_ms
            if late and (surplus > 0 or not link.conversation.silent_ok):
                link.close(f"it did not say who it is within {self.limits.handshake_ms} ms")
                surplus -= 1
        for link in self.links:
            unread = link.conversation.unread()
            if not unread or link.conversation.holding or link in self._held_back:
                link.partial_since = 0
            elif not link.partial_since:
                link.partial_since, link.partial_bytes = now, unread
            elif link.paused:
                # It is we who do not read: that time is not the peer's.
                link.partial_since += now - self._swept_at
            elif now - link.partial_since > self.limits.frame_ms:
                self._judge_pace(link, unread, now)

    def _judge_pace(self, link: Link, unread: int, now: Millis) -> None:
        """A message takes long: that is in order as long as it comes at a fair pace."""
        limits = self.limits
        came = unread - link.partial_bytes
        if came * 1_000 >= limits.frame_bytes_per_s * limits.frame_ms:
            link.partial_since, link.partial_bytes = now, unread
        else:
            link.close(f"{came} bytes of a message in {limits.frame_ms} ms are too few")

    def _forget_known(self) -> None:
        for link in [link for link in self.unknown if link.known or link.closing]:
            del self.unknown[link]

    def oldest_stranger(self) -> Link | None:
        """Whoever is there longest without having said who it is."""
        unknown = self.unknown
        while unknown:
            oldest = next(iter(unknown))
            if not (oldest.known or oldest.closing):
                return oldest
            del unknown[oldest]
        return None

    def _drop_one_of_many(self, now: Millis) -> None:
        """Drop the oldest of too many strangers, unless it came just now with a herd."""
        oldest = self.oldest_stranger()
        if oldest is None or now - oldest.opened_at <= self.limits.stranger_ms:
            return
        self._forget_known()
        if len(self.unknown) > self.limits.unknown_max:
            oldest.close("too many connections have not said who they are")
            del self.unknown[oldest]

    def next_wake(self) -> Millis:
        """The moment by which `turn` should be called again even if nothing comes in.

        What falls due before it waits for it: a turn looks at the time once a tick.
        """
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
            link.conversation.stop(now)
        self.deliver(now)

    def consumers(self) -> int:
        """How many links of workers are still there after `stop`."""
        return sum(service.consumers() for service in self.services.values())


def is_of_the_core(error: BaseException, broker: Broker) -> bool:
    """Whether an exception came out of a verb of the broker, and is not a refusal."""
    if isinstance(error, Refused):
        return False
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_locals.get("self") is broker:
            return True
        trace = trace.tb_next
    return False
