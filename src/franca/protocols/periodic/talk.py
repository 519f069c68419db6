"""One Periodic connection from its first byte: registration, messages, rights.

Messages are many on one connection and carry ids, so that answers come in any order. Only what
takes many turns (a LOAD, a DUMP, a DROP_FUNC) holds up what lies behind it. What clients and
workers may say is built on this, in `asking.py` and `working.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import Refused, TooMuch, WireError
from franca.core.model import NEVER, Millis, OnHangUp, Session
from franca.protocols.conversation import Link
from franca.protocols.periodic.auth import ADMIN, Forbidden, Rule, rule_of
from franca.protocols.periodic.dialect import Spoken
from franca.protocols.periodic.waits import Name
from franca.protocols.periodic.wire import Frames, Opening, read_opening, sole_payload
from franca.protocols.periodic.words import BROADCAST, CAN_DO, CANT_DO, NO_WORKER, STATUS, UNKNOWN

if TYPE_CHECKING:
    from franca.protocols.periodic.service import PeriodicService

LARGE_BYTES: Final = 1024 * 1024
"""A message so large that it is copied as little as can be."""
TOLD_AT_ONCE: Final = 16
"""How many are told something in about the time that any other message takes."""
LEARNING: Final = frozenset({CAN_DO, CANT_DO, BROADCAST})
"""What changes a worker's functions: its demand is made anew once behind all of these."""
LAST_SHARES: Final = 8
"""Turns' shares of a peer that is gone that are acted on, if it was kept waiting."""


class NotNow(Exception):
    """A message is to be acted on later: those who hear of this job have had enough for now."""

    def __init__(self, name: Name) -> None:
        super().__init__(*name)
        self.name = name


class Talk(Spoken):
    """The part of a connection that clients and workers have in common."""

    session: Session

    def __init__(self, service: PeriodicService, link: Link, now: Millis) -> None:
        super().__init__(service, link, now)
        self._share = service.limits.turn_messages
        self._need = 1
        self._put_off: tuple[bytes, int, bytes] | None = None
        self._is_gone = False
        self.spent = 0
        """What the message that is acted on costs beside what any message does, in messages."""
        self.unasked = False
        """Whether it should ask for other jobs than before, or for more."""
        self.asks_later = False
        """And whether that has to wait for the next turn."""
        self._identity: tuple[bytes, bytes] | None = None

    # -- reading ----------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole messages among `data`, at most a turn's share of them."""
        self.heard_at = now
        pending = self._pending
        if self.unasked and not self.holding:
            self.asks_later = False
            self._catch_up(now)
        if self._is_quick and not pending and not self.holding:
            payload = sole_payload(data)
            if payload is not None:
                # One whole message of today's dialect, as nearly always.
                self.service.commands += 1
                self._act(payload[:4], payload[4], payload[5:], now)
                self.spent = 0
                if self.unasked and not self.asks_later:
                    self._catch_up(now)
                return self.holding and self._is_working()
        if pending or self.holding:
            pending += data
            if self.holding:
                self._work_on(now)
                if self.holding:
                    return self._is_working()
            if len(pending) < self._need:
                return False
            if self._need >= LARGE_BYTES and self._frames is not None:
                return self._take_large(self._frames, now)
            data = bytes(pending)
            pending.clear()
        return self._take(data, now)

    def _take_large(self, frames: Frames, now: Millis) -> bool:
        """Act on the large message that lies in front: that is all that one gets of this turn."""
        pending = self._pending
        self._need = 1
        try:
            message = frames.cut_first(pending)
        except WireError as error:
            self._give_up(error, now)
            return False
        if message is None:
            self._need = frames.need
            return False
        msgid, command, args, end = message
        del pending[:end]
        self.service.commands += 1
        if self.is_undecided:
            self._decide(msgid, command, args, now)
        self._act(msgid, command, args, now)
        self.spent = 0
        if self.holding:
            return self._is_working()
        return bool(pending) and not self.link.closing

    def _take(self, data: bytes, now: Millis) -> bool:
        start = acted = 0
        left = self._share
        size = len(data)
        self._need = 1
        link = self.link
        has_more = False
        service = self.service
        events = self.broker.events
        try:
            if self._frames is None:
                start = self._register(data, now)
            while start < size and left > 0 and not self.holding and not link.closing:
                frames = self._frames
                assert frames is not None
                message = frames.cut(data, start)
                if message is None:
                    self._need = frames.need
                    self._pending += data[start:]
                    break
                msgid, command, args, start = message
                acted += 1
                # A list may be long: it is all that one gets of this turn.
                left = 0 if command == STATUS else left - 1
                if self.is_undecided:
                    self._decide(msgid, command, args, now)
                told = service.told
                if self.unasked and not self.asks_later and command not in LEARNING:
                    self._catch_up(now)
                self._act(msgid, command, args, now)
                if events and start < size:
                    # One that is given a job asks for more: told only behind what follows, a
                    # SUBMIT_JOB's job would go to a GRAB_JOB behind it.
                    link.deliver(now)
                if self.spent or service.told != told:
                    left -= self.spent + (service.told - told) // TOLD_AT_ONCE
                    self.spent = 0
                if link.bulky and link.is_full():
                    left = 0
            else:
                if start < size and not link.closing:
                    self._pending += data[start:]
                    has_more = not self.holding
        except WireError as error:
            self._give_up(error, now)
        service.commands += acted
        if self.unasked and not (self.asks_later or link.closing):
            self._catch_up(now)
        return has_more or (self.holding and self._is_working())

    def _give_up(self, error: WireError, now: Millis) -> None:
        """These bytes cannot be read. What was asked for before them is given first.

        Else it would depend on whether they came in one piece.
        """
        if self.unasked and not self.asks_later:
            self._catch_up(now)
            self.link.deliver(now)
        self.service.unreadable += 1
        self.drop(now, str(error))

    def _act(self, msgid: bytes, command: int, args: bytes, now: Millis) -> None:
        """What cannot be done is not understood; what may not be done has no worker."""
        verb = self._verbs.get(command)
        try:
            if verb is None:
                self.say(self.speech.word(msgid, UNKNOWN))
            else:
                verb(self, msgid, args, now)
        except NotNow as reason:
            self._put_off = (msgid, command, args)
            self.holding = True
            self.service.put_off[self] = reason.name
        except Forbidden:
            self.say(self.speech.word(msgid, NO_WORKER))
        except Refused as refusal:
            self.service.refused += 1
            if isinstance(refusal, TooMuch):
                self.link.note(str(refusal))
            self.say(self.speech.word(msgid, UNKNOWN))

    def unread(self) -> int:
        """How many bytes wait to be acted on."""
        return len(self._pending) + (len(self._put_off[2]) if self._put_off else 0)

    def forget_unread(self) -> None:
        """Let go of these bytes."""
        self._pending.clear()
        self._put_off = None
        self.service.put_off.pop(self, None)

    def retry(self, now: Millis) -> None:
        """Act on the message that was put off, and then on what lies behind it."""
        message, self._put_off = self._put_off, None
        self.holding = False
        if message is not None:
            self._act(*message, now)
            self.spent = 0
        if not self.holding:
            self.go_on(now)

    def _catch_up(self, now: Millis) -> None:
        """Do once what several messages gave rise to."""
        self.unasked = False

    def _work_on(self, now: Millis) -> None:
        """Go on with what takes many turns."""

    def _is_working(self) -> bool:
        """Whether something takes many turns and needs nothing but them."""
        return False

    def go_on(self, now: Millis) -> None:
        """What held the rest up is done, outside of a turn's share: read on, next turn."""
        self.holding = False
        if self._pending or self.unasked:
            self.link.again()

    # -- registration -----------------------------------------------------------------------------

    def _register(self, data: bytes, now: Millis) -> int:
        """Take the first frame; returns where the next begins, or the end if it is not whole."""
        opening = read_opening(data)
        if opening is None:
            self._pending += data
            return len(data)
        self.role = opening.kind
        if opening.checked:
            self._register_today()
        else:
            self._register_plainly(now)
        if self.service.rules is not None:
            self._identify(opening)
        self.session = self.broker.open_session(f"periodic {self.link.id}", OnHangUp.RETURN, self)
        self.link.known = True
        self.service.join(self)
        return opening.end

    # -- rights -----------------------------------------------------------------------------------

    def _identify(self, opening: Opening) -> None:
        """Where there is an auth file, only those it names may do anything."""
        self._identity = (opening.name, opening.token)

    def _rule(self) -> Rule | None:
        """What the peer may do now; None where nobody is asked. `Forbidden` if it may nothing."""
        rules = self.service.rules
        if rules is None:
            return None
        name, token = self._identity or (b"", b"")
        rule = rule_of(rules, name, token)
        if rule is None:
            raise Forbidden("unknown name or wrong token")
        return rule

    def check_may(self, role: str, func: str) -> None:
        """`Forbidden` unless the peer may act in this role, on this function."""
        if self.service.rules is not None:
            rule = self._rule()
            assert rule is not None
            if rule.role not in (role, ADMIN) or not rule.allows(func):
                raise Forbidden("not among its functions")

    def may(self, role: str, func: str) -> bool:
        """Whether the peer may act in this role, on this function."""
        try:
            self.check_may(role, func)
        except Forbidden:
            return False
        return True

    def follow_rules(self, now: Millis) -> None:
        """Rights have changed: let go of what the peer may not have any more."""

    def check_admin(self) -> None:
        """`Forbidden` unless the peer may steer the whole server."""
        if self.service.rules is not None:
            rule = self._rule()
            if rule is None or rule.role != ADMIN:
                raise Forbidden("for admins only")

    # -- the end ----------------------------------------------------------------------------------

    def drop(self, now: Millis, reason: str = "") -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._part(now)
        self.link.close(reason)

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone: what it held is run again, what it waited for is not told.

        What it said of its jobs counts, though it was kept waiting.
        """
        if self._put_off is not None:
            self._is_gone = True
            self.holding = False
            self._put_off = None
            for _ in range(LAST_SHARES):
                if self._pending and not self.holding:
                    data = bytes(self._pending)
                    self._pending.clear()
                    self._take(data, now)
        self._part(now)

    def _part(self, now: Millis) -> None:
        self.forget_unread()
        self.unasked = False
        if self._alarm_at:
            self.service.alarms.discard(self, self._alarm_bucket)
            self._alarm_at = NEVER
        if self.link.known:
            self.service.leave(self)
            self.broker.close_session(self.session, now)
