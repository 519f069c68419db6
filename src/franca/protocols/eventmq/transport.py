"""A conversation over ZMTP: the handshake, then messages; what they mean is for those built on it.

Nothing is said before the peer has shown that it speaks ZMTP, so a browser that strays here is
hung up on without a word.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from franca.core.errors import WireError
from franca.core.limits import Limits
from franca.core.model import Millis
from franca.protocols.conversation import Conversation, Link
from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.frames import FRAMES_MAX, Command, Frames, Message, Skipped

IDENTITY_BYTES_MAX: Final = 255


class ZmtpConversation(Conversation):
    """The dialogue with one socket. Subclasses say of which type they are and whom they accept."""

    socket_type: bytes
    accepted: frozenset[bytes]
    reader: Frames

    def __init__(
        self, link: Link, limits: Limits, name: bytes, usual: Sequence[bytes] = (b"",)
    ) -> None:
        self.link = link
        self.identity = b""
        self.peer_type = b""
        self._name = name
        self._size_max = limits.frame_bytes_max
        self.reader = Frames(self._size_max, usual, greeted=False)

    @abstractmethod
    def act(self, frames: list[bytes], now: Millis) -> None:
        """The peer sent a message."""

    def act_on_skipped(self, frames: list[bytes], skipped: list[Skipped], now: Millis) -> None:
        """The peer sent a message of which these frames were too large: they are empty in it."""

    def on_command(self, name: bytes, data: bytes) -> None:
        """The peer sent a command that the transport itself does not know."""

    def on_known(self) -> None:
        """The peer has said of which type its socket is, and how it is called."""

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: Message, now: Millis) -> None:
        """Act on a message, or on a command of the transport."""
        if isinstance(message, list):
            if not self.link.known:
                raise WireError("no-ready", "a message before READY")
            if len(message) > FRAMES_MAX:
                raise WireError("message-too-large", f"a message of {len(message)} frames")
            if self.reader.skipped:
                self._act_on_skipped(message, now)
            else:
                self.act(message, now)
        elif isinstance(message, Command):
            self._on_command(message.body)
        else:
            self.link.write(zmtp.GREETING + zmtp.ready(self.socket_type, self._name))

    def on_unreadable(self, error: WireError, now: Millis) -> None:
        """These bytes are beyond repair."""
        self.forget_unread()
        self.link.close(error.text)

    def _act_on_skipped(self, message: list[bytes], now: Millis) -> None:
        skipped = self.reader.skipped[:]
        self.reader.skipped.clear()
        sizes = ", ".join(str(frame.size) for frame in skipped)
        self.link.note(f"a message with a frame of {sizes} bytes, at most {self._size_max}")
        self.act_on_skipped(message, skipped, now)

    def forget_unread(self) -> None:
        """Let go of what waits."""
        self.reader = Frames(0)

    # -- the handshake --------------------------------------------------------------------------

    def _on_command(self, body: bytes) -> None:
        name, data = zmtp.split_command(body)
        if name == b"PING":
            if not self.link.full:
                self.link.write(zmtp.pong(data))
        elif not self.link.known:
            self._on_ready(name, data)
        elif name == b"ERROR":
            raise WireError("refused", "the peer gave up")
        else:
            self.on_command(name, data)

    def _on_ready(self, name: bytes, data: bytes) -> None:
        if name != b"READY":
            raise WireError("no-ready", "a command before READY")
        properties = zmtp.read_properties(data)
        self.peer_type = properties.get(b"socket-type", b"").upper()
        self.identity = properties.get(b"identity", b"")
        if len(self.identity) > IDENTITY_BYTES_MAX:
            raise WireError("identity", "an identity has at most 255 bytes")
        if self.peer_type not in self.accepted:
            self.link.write(zmtp.error(b"Invalid socket type"))
            raise WireError("socket-type", f"{self.peer_type[:16]!r} is not served here")
        self.link.known = True
        self.on_known()
