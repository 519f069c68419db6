"""One Periodic connection from its first byte: registration, messages, the answers' bytes.

Messages are many on one connection and carry ids, so that answers come in any order. Only what
takes many turns (a LOAD, a DUMP, a DROP_FUNC) holds up what lies behind it. What clients and
workers may say is built on this, in `asking.py` and `working.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from franca.core.errors import Refused, WireError
from franca.core.model import NEVER, Millis, OnHangUp, Session
from franca.protocols.conversation import Conversation, Link
from franca.protocols.periodic.auth import ADMIN, Forbidden, Rule, rule_of
from franca.protocols.periodic.binary import BinarySpeech, CrcSpeech
from franca.protocols.periodic.speech import Speech
from franca.protocols.periodic.text import DocSpeech, TextSpeech
from franca.protocols.periodic.wire import (
    Frames,
    Opening,
    UndecidedFrames,
    read_opening,
    sole_payload,
)
from franca.protocols.periodic.words import (
    NO_WORKER,
    STATUS,
    SUCCESS,
    TYPE_NAMED_WORKER,
    TYPE_WORKER,
    UNKNOWN,
)

if TYPE_CHECKING:
    from franca.protocols.periodic.service import PeriodicService

SILENCE_MS: Final = 1_000
"""A peer of an old dialect that says nothing for this long waits to be answered first."""

CRC: Final = CrcSpeech()
_BINARY: Final = BinarySpeech()
_DOC: Final = DocSpeech()
_TEXT: Final = TextSpeech()


Verbs = Mapping[int, Callable[[Any, bytes, bytes, Millis], None]]
"""By command: the connection, an id, arguments, the time."""


class Listening(Struct, frozen=True):
    """What may be chosen for each listener.

    `dialect` says how connections without CRCs are read: `auto` finds out, `doc` follows the
    document to the letter, `text` and `bin` are what came between it and today's; with `crc` there
    are none. `confirm` is `old` where workers must not be answered when they register or settle.
    """

    dialect: str = "auto"
    confirm: str = "modern"


class Talk(Conversation):
    """The part of a connection that clients and workers have in common.

    `role` is the number it registered as. Until its dialect is known it has no `speech`.
    """

    session: Session

    def __init__(self, service: PeriodicService, link: Link, now: Millis) -> None:
        self.link = link
        self.service = service
        self.broker = service.broker
        self.speech: Speech = _DOC
        self.role = 0
        self.heard_at = now
        self.listening = service.listening(link.peer.listener)
        self.is_checked = False
        """Whether its frames carry CRCs."""
        self.answers_grabs = False
        self.follows_document = False
        self._is_undecided = False
        self._frames: Frames | None = None
        self._verbs: Verbs = {}
        self._share = service.limits.turn_messages
        self._pending = bytearray()
        self._need = 1
        self._welcome_at: Millis = NEVER
        self._identity: tuple[bytes, bytes] | None = None
        self._alarm_at: Millis = NEVER
        self._alarm_bucket = -1

    # -- reading ----------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole messages among `data`, at most a turn's share of them."""
        self.heard_at = now
        pending = self._pending
        if not pending and not self.holding and self.is_checked:
            payload = sole_payload(data)
            if payload is not None:
                # One whole message of today's dialect, as nearly always.
                self.service.commands += 1
                self._act(payload[:4], payload[4], payload[5:], now)
                return self.holding and self._is_working()
        if pending or self.holding:
            pending += data
            if self.holding:
                self._work_on(now)
                if self.holding:
                    return self._is_working()
            if len(pending) < self._need:
                return False
            data = bytes(pending)
            pending.clear()
        return self._take(data, now)

    def _take(self, data: bytes, now: Millis) -> bool:
        start = acted = 0
        left = self._share
        size = len(data)
        self._need = 1
        link = self.link
        has_more = False
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
                if self._is_undecided:
                    self._decide()
                self._act(msgid, command, args, now)
                if events and start < size:
                    # One that is given a job asks for more: told only behind what follows, a
                    # SUBMIT_JOB's job would go to a GRAB_JOB behind it.
                    link.deliver(now)
            else:
                if start < size and not link.closing:
                    self._pending += data[start:]
                    has_more = not self.holding
        except WireError:
            self.service.unreadable += 1
            self.drop(now)
        self.service.commands += acted
        return has_more or (self.holding and self._is_working())

    def _act(self, msgid: bytes, command: int, args: bytes, now: Millis) -> None:
        """What cannot be done is not understood; what may not be done has no worker."""
        verb = self._verbs.get(command)
        try:
            if verb is None:
                self.say(self.speech.word(msgid, UNKNOWN))
            else:
                verb(self, msgid, args, now)
        except Forbidden:
            self.say(self.speech.word(msgid, NO_WORKER))
        except Refused:
            self.service.refused += 1
            self.say(self.speech.word(msgid, UNKNOWN))

    def unread(self) -> int:
        """How many bytes wait to be acted on."""
        return len(self._pending)

    def _work_on(self, now: Millis) -> None:
        """Go on with what takes many turns."""

    def _is_working(self) -> bool:
        """Whether something takes many turns and needs nothing but them."""
        return False

    def go_on(self, now: Millis) -> None:
        """What held the rest up is done, outside of a turn's share: read on, next turn."""
        self.holding = False
        if self._pending:
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
            self._use(CRC)
            self.is_checked = True
            is_worker = self.role in (TYPE_WORKER, TYPE_NAMED_WORKER)
            self.answers_grabs = is_worker and self.listening.confirm == "modern"
            self.link.write(CRC.welcome(self._connection_id()))
        else:
            self._register_plainly(now)
        if self.service.rules is not None:
            self._identify(opening)
        self.session = self.broker.open_session(f"periodic {self.link.id}", OnHangUp.RETURN, self)
        self.link.known = True
        self.service.join(self)
        return opening.end

    def _register_plainly(self, now: Millis) -> None:
        """A connection without CRCs: which of three dialects it speaks its next frame will tell.

        The oldest must not be answered, the other two wait for an answer: whoever waits is one of
        these.
        """
        dialect = self.listening.dialect
        if dialect == "crc" or self.service.rules is not None:
            raise WireError("no-crc", "connections without CRCs are not served here")
        if dialect == "auto":
            self._frames = UndecidedFrames(self.service.limits.frame_bytes_max)
            self._is_undecided = True
            self._welcome_at = now + SILENCE_MS
            self.arm(self._welcome_at)
            return
        self._use({"doc": _DOC, "text": _TEXT, "bin": _BINARY}[dialect])
        self.follows_document = dialect == "doc"
        if dialect != "doc":
            self.link.write(self.speech.welcome(self._connection_id()))

    def _decide(self) -> None:
        """The first message of a connection whose dialect was not plain."""
        self._is_undecided = False
        frames = self._frames
        assert isinstance(frames, UndecidedFrames)
        if frames.is_binary:
            self._use(_BINARY)
        else:
            self._use(_DOC if self._welcome_at else _TEXT)
        self._welcome_at = NEVER

    def _use(self, speech: Speech) -> None:
        self.speech = speech
        self._verbs = self._verbs_of(speech)
        self._frames = speech.frames(self.service.limits.frame_bytes_max)

    @abstractmethod
    def _verbs_of(self, speech: Speech) -> Verbs:
        """What may be said in a dialect."""

    @property
    def binary(self) -> CrcSpeech:
        """The speech of a connection that says what only binary dialects can say."""
        assert isinstance(self.speech, CrcSpeech)
        return self.speech

    def _welcome_late(self, now: Millis) -> None:
        if self._pending:
            # It speaks on, however slowly.
            self._welcome_at = now + SILENCE_MS
        elif self._welcome_at and now >= self._welcome_at:
            self._welcome_at = NEVER
            self.link.write(_BINARY.welcome(self._connection_id()))

    def _connection_id(self) -> bytes:
        """Four bytes that no peer takes for anything: none of them is below 2."""
        return bytes(self.service.rng.randrange(2, 256) for _ in range(4))

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

    def check_admin(self) -> None:
        """`Forbidden` unless the peer may steer the whole server."""
        if self.service.rules is not None:
            rule = self._rule()
            if rule is None or rule.role != ADMIN:
                raise Forbidden("for admins only")

    # -- saying -----------------------------------------------------------------------------------

    def say(self, frame: bytes) -> None:
        """Answer with what no disk can make untrue."""
        self.link.write(frame)

    def say_after_commit(self, frame: bytes) -> None:
        """Answer with what must be durable first."""
        self.link.write_after_commit(frame)

    def succeed(self, msgid: bytes) -> None:
        """SUCCESS, once it is durable."""
        self.link.write_after_commit(self.speech.word(msgid, SUCCESS))

    def confirm(self, msgid: bytes) -> None:
        """SUCCESS to a worker, where its dialect has that."""
        if self.speech.confirms and self.listening.confirm == "modern":
            self.link.write_after_commit(self.speech.word(msgid, SUCCESS))

    # -- time -------------------------------------------------------------------------------------

    def arm(self, at: Millis) -> None:
        """Be rung at this moment, or earlier if that was asked for before."""
        if not self._alarm_at or at < self._alarm_at:
            alarms = self.service.alarms
            if self._alarm_at:
                alarms.discard(self, self._alarm_bucket)
            self._alarm_at = at
            self._alarm_bucket = alarms.add(self, at)

    def ring(self, now: Millis) -> None:
        """A moment has come that was armed for."""
        self._alarm_at = NEVER
        if self._welcome_at and not self.link.closing:
            self._welcome_late(now)
            if self._welcome_at:
                self.arm(self._welcome_at)

    # -- the end ----------------------------------------------------------------------------------

    def drop(self, now: Millis) -> None:
        """Hang up; no job may reach a connection that is being closed."""
        self._part(now)
        self.link.close()

    def hang_up(self, now: Millis, *, unheard: bool) -> None:
        """The peer is gone: what it held is run again, what it waited for is not told."""
        self._part(now)

    def _part(self, now: Millis) -> None:
        self._pending.clear()
        if self._alarm_at:
            self.service.alarms.discard(self, self._alarm_bucket)
            self._alarm_at = NEVER
        if self.link.known:
            self.service.leave(self)
            self.broker.close_session(self.session, now)
