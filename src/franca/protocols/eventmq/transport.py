"""A conversation over ZMTP: the handshake, then messages; what they mean is for those built on it.

Nothing is said before the peer has shown that it speaks ZMTP, so a browser that strays here is
hung up on without a word.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, Protocol

from franca.core.errors import WireError
from franca.core.limits import Limits
from franca.core.model import Millis
from franca.protocols.conversation import Conversation, Link
from franca.protocols.eventmq import zmtp
from franca.protocols.eventmq.frames import FRAMES_MAX, Frames, Skipped
from franca.protocols.eventmq.zmtp import Greeted

IDENTITY_BYTES_MAX: Final = 255
USUAL_COMMANDS: Final = 4
"""With more of them before a message, the two are more work than a message usually is."""


class Task(Protocol):
    """Something that a peer has asked for and that takes more than one turn."""

    def step(self, now: Millis) -> bool:
        """Do some more of it; True once it is done."""

    def __len__(self) -> int:
        """How many bytes of the peer's it keeps until then."""


class ZmtpConversation(Conversation):
    """The dialogue with one socket. Subclasses say of which type they are and whom they accept."""

    socket_type: bytes
    accepted: frozenset[bytes]

    def __init__(
        self, link: Link, limits: Limits, name: bytes, usual: Sequence[bytes] = (b"",)
    ) -> None:
        self.link = link
        self.identity = b""
        self.peer_type = b""
        self._name = name
        self._share = limits.turn_messages
        self._greeted: Greeted | None = Greeted()
        self._greets = False
        self._size_max = limits.frame_bytes_max
        self._frames = Frames(self._size_max, usual)
        self.has_had_its_share = False
        """What was just done was more work than a message usually is."""
        self.task: Task | None = None
        """What is under way: nothing more is acted on before it is done."""

    @abstractmethod
    def act(self, frames: list[bytes], now: Millis) -> None:
        """The peer sent a message."""

    def act_on_rest(self, frames: list[bytes], skipped: list[Skipped], now: Millis) -> None:
        """The peer sent a message of which these frames were too large: they are empty in it."""

    def on_command(self, name: bytes, data: bytes) -> None:
        """The peer sent a command that the transport itself does not know."""

    def on_known(self) -> None:
        """The peer has said of which type its socket is, and how it is called."""

    def on_turn(self, now: Millis) -> None:
        """Nothing came, but this conversation wanted its turn."""

    def on_progress(self, now: Millis) -> None:
        """More of a large message has come."""

    # -- the contract -------------------------------------------------------------------------

    def receive(self, data: bytes, now: Millis) -> bool:
        """Act on the whole messages among `data`, at most a turn's share of them."""
        if not data:
            self.on_turn(now)
        if self.holding:
            self._frames.feed(data)
            return False
        try:
            if self._greeted is not None:
                return self._is_greeted(data) and self._read(b"", now)
            return self._read(data, now)
        except WireError as error:
            self._give_up(error.text)
            return False

    def _read(self, data: bytes, now: Millis) -> bool:
        frames = self._frames
        if data:
            frames.feed(data)
        if self.task is not None:
            if not self.task.step(now):
                return True
            self.task = None
        link = self.link
        act = self.act
        left = self._share
        while left:
            left -= 1
            message = frames.next_message()
            if frames.commands:
                self._take_commands()
            if message is None:
                if frames.large is not None:
                    self.on_progress(now)
                return frames.is_behind  # behind many commands
            if not link.known:
                raise WireError("no-ready", "a message before READY")
            if len(message) > FRAMES_MAX:
                raise WireError("message-too-large", f"a message of {len(message)} frames")
            if frames.skipped:
                self._act_on_rest(message, now)
            else:
                act(message, now)
            is_behind = frames.data  # as `is_behind` of Frames, right behind a message
            if is_behind:
                # A worker that is given a job asks for the next: told only behind all that
                # follows, it would be given another.
                link.deliver(now)
            if self.holding or link.closing:
                return False
            if not is_behind:
                self.has_had_its_share = False
                return self.task is not None
            if self.has_had_its_share:
                self.has_had_its_share = False
                break
        return frames.is_behind or self.task is not None

    def _act_on_rest(self, message: list[bytes], now: Millis) -> None:
        skipped = self._frames.skipped[:]
        self._frames.skipped.clear()
        sizes = ", ".join(str(frame.size) for frame in skipped)
        self.link.note(f"a message with a frame of {sizes} bytes, at most {self._size_max}")
        self.act_on_rest(message, skipped, now)

    def unread(self) -> int:
        """How many bytes wait, parts of the greeting too."""
        if self._greeted is not None:
            return len(self._greeted)
        return len(self._frames) + (len(self.task) if self.task is not None else 0)

    def forget_unread(self) -> None:
        """Let go of what waits."""
        self._greeted = None
        self._frames = Frames(0)

    # -- the handshake --------------------------------------------------------------------------

    def _is_greeted(self, data: bytes) -> bool:
        """Read the greeting; True once it is whole."""
        greeted = self._greeted
        assert greeted is not None
        whole = greeted.feed(data)
        if whole:
            self._greeted = None
            self._frames.feed(greeted.rest)
        if not self._greets and (whole or greeted.is_signed):
            # libzmq waits for our signature before it says more than its own.
            self._greets = True
            self.link.write(zmtp.GREETING + zmtp.ready(self.socket_type, self._name))
        return whole

    def _take_commands(self) -> None:
        commands = self._frames.commands[:]
        self._frames.commands.clear()
        if len(commands) > USUAL_COMMANDS:
            self.has_had_its_share = True
        for body in commands:
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

    def _give_up(self, reason: str) -> None:
        """These bytes are beyond repair: forget what is left of them, and hang up."""
        self._greeted = None
        self._frames = Frames(0)
        self.link.close(reason)
