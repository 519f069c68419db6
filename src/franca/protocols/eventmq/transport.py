"""A conversation over ZMTP: the handshake, then messages; what they mean is for its subclasses.

Nothing is sent before the peer has shown that it speaks ZMTP, so a browser that strays here gets
no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from franca.core.errors import WireError
from franca.core.limits import Limits
from franca.core.model import Millis
from franca.protocols.conversation import Conversation, Link
from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.zmtp import Command, FrameReader, Message, Signature, Truncated

IDENTITY_BYTES_MAX: Final = 255
COPIED_BYTES: Final = 512
"""A longer message to many is there once, however many of them do not read."""


class ZmtpConversation(Conversation):
    """The dialogue with one socket. Subclasses say of which type they are and whom they accept."""

    socket_type: bytes
    accepted: frozenset[bytes]
    reader: FrameReader

    def __init__(
        self, link: Link, limits: Limits, name: bytes, usual: Sequence[bytes] = (b"",)
    ) -> None:
        super().__init__(link)
        self.identity = b""
        self.peer_type = b""
        self._name = name
        self._size_max = limits.frame_bytes_max
        self.reader = FrameReader(self._size_max, usual, greeted=False)

    def on_truncated(self, message: Truncated, now: Millis) -> None:
        """The peer sent a message with frames that were too large."""

    def on_command(self, name: bytes, data: bytes) -> None:
        """The peer sent a command that the transport itself does not know."""

    def on_handshake(self) -> None:
        """The peer has sent the type of its socket, and its identity."""

    # -- the contract -------------------------------------------------------------------------

    def on_message(self, message: Message, now: Millis) -> None:
        """Act on whatever is not a whole message of a peer that has sent READY."""
        if isinstance(message, Command):
            self._on_command(*zmtp.split_command(message.body))
        elif isinstance(message, Signature):
            self.link.write(zmtp.GREETING + zmtp.ready(self.socket_type, self._name))
        elif not self.link.known:
            raise WireError("no-ready", "a message before READY")
        else:
            assert isinstance(message, Truncated)
            sizes = ", ".join(map(str, message.sizes.values()))
            self.link.note(f"a message with a frame of {sizes} bytes, at most {self._size_max}")
            self.on_truncated(message, now)

    def forget_unread(self) -> None:
        """Let go of what waits."""
        self.reader = FrameReader(0)

    # -- messages -------------------------------------------------------------------------------

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send what many are sent, unless this peer does not even read."""
        if not self.link.full:
            self.link.write_pieces(pieces)
            if len(pieces[0]) > COPIED_BYTES:
                self.link.in_pieces = True

    # -- the handshake --------------------------------------------------------------------------

    def _on_command(self, name: bytes, data: bytes) -> None:
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
        self.on_handshake()
