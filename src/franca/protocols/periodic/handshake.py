"""How a connection wants to be spoken to: four dialects, found out from what it sends first.

Nothing but their use tells some of the dialects apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.errors import WireError
from franca.core.model import Millis
from franca.protocols.periodic import messages
from franca.protocols.periodic.alarms import Alarm
from franca.protocols.periodic.binary import BinaryDialect, CrcDialect
from franca.protocols.periodic.jobs import Dialect
from franca.protocols.periodic.messages import Message, Opening
from franca.protocols.periodic.wire import UUID, UndecidedFrames

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation

SILENCE_MS: Final = 1_000
"""A peer that sends nothing for this long waits for an answer."""
_CRC: Final = CrcDialect()
_BINARY: Final = BinaryDialect()


class Handshake:
    """Chooses a connection's dialect, and whether a worker's messages are confirmed.

    `is_undecided` while what the peer sends and is given has yet to tell.
    """

    __slots__ = (
        "_alarm", "_connection", "_is_unwelcomed", "_listening", "_unconfirmed", "confirms",
        "is_undecided", "link",
    )  # fmt: skip

    def __init__(self, connection: PeriodicConversation) -> None:
        self.is_undecided = False
        self.confirms = False
        """Whether a worker is answered when it registers functions or reports about jobs."""
        self.link = connection.link
        self._connection = connection
        self._listening = connection.service.listening(self.link.peer.listener)
        self._unconfirmed: list[bytes] | None = None
        self._alarm: Alarm | None = None
        self._is_unwelcomed = False
        """Whether the peer is to be answered if it says nothing more."""

    def register(self, opening: Opening, now: Millis) -> None:
        """Choose the dialect of a connection with CRCs; without, perhaps only by its next frame.

        The oldest dialect must not be answered, the other two wait for an answer: whoever waits
        speaks one of these.
        """
        connection, listening = self._connection, self._listening
        service = connection.service
        if opening.checked:
            connection.is_checked = True
            self.confirms = listening.confirm == "modern"
            is_worker = opening.kind in (messages.TYPE_WORKER, messages.TYPE_NAMED_WORKER)
            connection.answers_grabs = self.is_undecided = is_worker and self.confirms
            connection.use(_CRC)
        elif listening.dialect == "crc" or service.rules is not None:
            raise WireError("no-crc", "connections without CRCs are not served here")
        elif listening.dialect == "auto":
            connection.reader.frames = UndecidedFrames(service.limits.frame_bytes_max)
            self.is_undecided = self._is_unwelcomed = True
            self._await_silence(now)
            return
        else:
            old: dict[str, Dialect] = {"doc": service.doc, "text": service.text, "bin": _BINARY}
            connection.use(old[listening.dialect])
            connection.follows_document = listening.dialect == "doc"
            if connection.follows_document:
                return
        self.link.write(connection.dialect.welcome(self._connection_id()))

    def decide(self, message: Message, now: Millis) -> None:
        """What a message tells of a connection that is not understood yet.

        npm's clients have the same ids before and after jobs became fields, and wait for nothing:
        theirs tell by the first job that they name or are given.
        """
        connection = self._connection
        frames = connection.reader.frames
        if connection.is_checked:
            self._decide_on_confirmations(message, now)
            return
        if isinstance(frames, UndecidedFrames):
            has_waited = not self._is_unwelcomed
            self._is_unwelcomed = False
            is_from_npm = UUID.fullmatch(message.id) is not None
            self.is_undecided = is_from_npm and not (frames.is_binary or has_waited)
            if frames.is_binary:
                connection.use(_BINARY)
            else:
                in_fields = has_waited or self.is_undecided
                connection.use(connection.service.text if in_fields else connection.service.doc)
        if self.is_undecided and message.command in (messages.SUBMIT_JOB, messages.REMOVE_JOB):
            self.decide_by_job(message.args[:1] == b"{")

    def decide_by_job(self, in_json: bool) -> None:
        """A job that the peer names, or is to be given, tells whether it speaks JSON."""
        self.is_undecided = False
        service = self._connection.service
        self._connection.use(service.doc if in_json else service.text)

    def _decide_on_confirmations(self, message: Message, now: Millis) -> None:
        """Whether a worker wants to be answered: npm's before 1.5 die of an answer.

        Theirs have ids of letters and digits, do not begin with a PING as later ones do, and send
        more at once. Any other has its answer at once, or after a moment of silence.
        """
        if self._unconfirmed is not None:
            self._unconfirmed.clear()
            self._connection.answers_grabs = self.confirms = False
            self._has_decided()
        elif message.command == messages.PING or not message.id.isalnum():
            self._has_decided()
        else:
            self._unconfirmed = []
            self._await_silence(now)

    def _has_decided(self) -> None:
        for msgid in self._unconfirmed or ():
            self._connection.succeed(msgid)
        self._unconfirmed = None
        self.is_undecided = False

    def confirm(self, msgid: bytes) -> None:
        """SUCCESS to a worker, where it wants that."""
        if self._unconfirmed is not None:
            self._unconfirmed.append(msgid)
        elif self.confirms:
            self.link.write_after_commit(self._connection.dialect.bare(msgid, messages.SUCCESS))

    def _await_silence(self, now: Millis) -> None:
        alarms = self._connection.service.alarms
        self._alarm = alarms.set(self.link, now + SILENCE_MS, self._on_silence)

    def _on_silence(self, now: Millis) -> None:
        """A second has passed: answer, unless the peer has sent something meanwhile."""
        connection = self._connection
        if self._unconfirmed is not None:
            if now - connection.heard_at >= SILENCE_MS:
                self._has_decided()
            else:
                self._await_silence(connection.heard_at)
        elif self._is_unwelcomed:
            if len(connection.reader):
                self._await_silence(now)  # it is sending, however slowly
            else:
                self._is_unwelcomed = False
                self.link.write(_BINARY.welcome(self._connection_id()))

    def _connection_id(self) -> bytes:
        """Four bytes that no peer takes for anything: none of them is below 2."""
        return bytes(self._connection.service.rng.randrange(2, 256) for _ in range(4))

    def leave(self) -> None:
        """The connection is gone."""
        self._connection.service.alarms.cancel(self._alarm)
