"""How one Periodic connection is spoken to: its dialect, found out from what it says first.

Four dialects have been spoken over the years, and nothing but their use tells some of them apart.
What is read and done in them is built on this, in `talk.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from franca.core.errors import WireError
from franca.core.model import NEVER, Millis
from franca.protocols.conversation import Conversation, Link
from franca.protocols.periodic.binary import BinarySpeech, CrcSpeech
from franca.protocols.periodic.shared import SHARED_BYTES, Shared
from franca.protocols.periodic.speech import Speech
from franca.protocols.periodic.wire import Frames, UndecidedFrames, is_uuid
from franca.protocols.periodic.words import (
    PING,
    REMOVE_JOB,
    SUBMIT_JOB,
    SUCCESS,
    TYPE_NAMED_WORKER,
    TYPE_WORKER,
)

if TYPE_CHECKING:
    from franca.protocols.periodic.service import PeriodicService

SILENCE_MS: Final = 1_000
"""A peer that says nothing for this long waits for an answer."""

CRC: Final = CrcSpeech()
_BINARY: Final = BinarySpeech()


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


class Spoken(Conversation):
    """A connection's dialect, its words to the peer, and its alarm.

    `role` is the number it registered as. Until its dialect is known it has no `speech`.
    """

    def __init__(self, service: PeriodicService, link: Link, now: Millis) -> None:
        self.link = link
        self.service = service
        self.broker = service.broker
        self.speech: Speech = service.doc
        self.role = 0
        self.heard_at = now
        self.listening = service.listening(link.peer.listener)
        self.is_checked = False
        """Whether its frames carry CRCs."""
        self.answers_grabs = False
        self.confirms = False
        """Whether a worker is answered when it registers functions or settles jobs."""
        self.follows_document = False
        self.is_undecided = False
        """Whether what it says and is given has yet to tell how it wants to be spoken to."""
        self._is_quick = False
        self._unconfirmed: list[bytes] | None = None
        self._frames: Frames | None = None
        self._verbs: Verbs = {}
        self._pending = bytearray()
        self._welcome_at: Millis = NEVER
        self._alarm_at: Millis = NEVER
        self._alarm_bucket = -1

    # -- registration -----------------------------------------------------------------------------

    def _register_today(self) -> None:
        """A connection with CRCs: a worker's first word tells whether it wants confirmations."""
        self._use(CRC)
        self.is_checked = True
        self.confirms = self.listening.confirm == "modern"
        is_worker = self.role in (TYPE_WORKER, TYPE_NAMED_WORKER)
        self.answers_grabs = self.is_undecided = is_worker and self.confirms
        self._is_quick = not self.is_undecided
        self.link.write(CRC.welcome(self._connection_id()))

    def _register_plainly(self, now: Millis) -> None:
        """A connection without CRCs: which of three dialects it speaks its next frame will tell.

        The oldest must not be answered, the other two wait for an answer: whoever waits is one of
        these.
        """
        dialect = self.listening.dialect
        service = self.service
        if dialect == "crc" or service.rules is not None:
            raise WireError("no-crc", "connections without CRCs are not served here")
        if dialect == "auto":
            self._frames = UndecidedFrames(service.limits.frame_bytes_max)
            self.is_undecided = True
            self._welcome_at = now + SILENCE_MS
            self.arm(self._welcome_at)
            return
        self._use({"doc": service.doc, "text": service.text, "bin": _BINARY}[dialect])
        self.follows_document = dialect == "doc"
        if dialect != "doc":
            self.link.write(self.speech.welcome(self._connection_id()))

    def _decide(self, msgid: bytes, command: int, args: bytes, now: Millis) -> None:
        """What a message tells of a connection that is not understood yet.

        npm's clients have the same ids before and after jobs became fields, and wait for nothing:
        theirs tell by the first job that they name or are given.
        """
        frames = self._frames
        if self.is_checked:
            self._decide_on_confirmations(msgid, command, now)
        elif isinstance(frames, UndecidedFrames):
            has_waited = not self._welcome_at
            self._welcome_at = NEVER
            self.is_undecided = not (frames.is_binary or has_waited) and is_uuid(msgid)
            if frames.is_binary:
                self._use(_BINARY)
            else:
                in_fields = has_waited or self.is_undecided
                self._use(self.service.text if in_fields else self.service.doc)
        if self.is_undecided and command in (SUBMIT_JOB, REMOVE_JOB) and not self.is_checked:
            self.decide_by_job(args[:1] == b"{")

    def decide_by_job(self, in_json: bool) -> None:
        """A job that the peer names, or is to be given, tells whether it speaks JSON."""
        self.is_undecided = False
        self._use(self.service.doc if in_json else self.service.text)

    def _decide_on_confirmations(self, msgid: bytes, command: int, now: Millis) -> None:
        """Whether a worker wants to be answered: npm's before 1.5 die of an answer.

        Theirs have ids of letters and digits, do not begin with a PING as later ones do, and speak
        on at once. Any other has its answer at once, or after a moment of silence.
        """
        if self._unconfirmed is None:
            if command == PING or not msgid.isalnum():
                self._has_decided()
            else:
                self._unconfirmed = []
                self.arm(now + SILENCE_MS)
        else:
            self._unconfirmed.clear()
            self.answers_grabs = self.confirms = False
            self._has_decided()

    def _has_decided(self) -> None:
        """It is known whether a worker is to be confirmed; what was held back is said."""
        for msgid in self._unconfirmed or ():
            self.succeed(msgid)
        self._unconfirmed = None
        self.is_undecided = False
        self._is_quick = True

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

    # -- saying -----------------------------------------------------------------------------------

    def say(self, frame: bytes) -> None:
        """Answer with what no disk can make untrue."""
        self.link.write(frame)

    def say_after_commit(self, frame: bytes) -> None:
        """Answer with what must be durable first."""
        self.link.write_after_commit(frame)

    def say_data(self, msgid: bytes, data: bytes, *, after_commit: bool = False) -> None:
        """Answer with data, of which all who are told it share one copy unless it is short."""
        link = self.link
        shared: Shared | None = None
        if len(data) >= SHARED_BYTES:
            shared = self.service.share(data)
            shared = shared if shared.is_for_many() else None
        if shared is None:
            front = self.speech.data(msgid, data)
        else:
            front = self.speech.data_front(msgid, shared)
        if after_commit:
            link.write_after_commit(front)
        else:
            link.write(front)
        if shared is not None:
            link.write_bulk(data)

    def succeed(self, msgid: bytes) -> None:
        """SUCCESS, once it is durable."""
        self.link.write_after_commit(self.speech.word(msgid, SUCCESS))

    def confirm(self, msgid: bytes) -> None:
        """SUCCESS to a worker, where it wants that."""
        if self._unconfirmed is not None:
            self._unconfirmed.append(msgid)
        elif self.confirms:
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

    def ring(self, now: Millis, most: int) -> int:
        """A moment has come that was armed for. Tells up to `most`; returns how many it told."""
        self._alarm_at = NEVER
        if self.link.closing or self.link.closed:
            return 1
        if self._unconfirmed is not None:
            if now - self.heard_at >= SILENCE_MS:
                self._has_decided()
            else:
                self.arm(self.heard_at + SILENCE_MS)
        if self._welcome_at:
            self._welcome_late(now)
            if self._welcome_at:
                self.arm(self._welcome_at)
        return 1
