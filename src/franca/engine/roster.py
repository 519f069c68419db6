"""Who is connected, and who is given up: strangers, and those who never finish a message."""

from __future__ import annotations

from franca.core.limits import Limits
from franca.core.model import Millis
from franca.protocols.conversation import Link

LAST_BYTES = 16 * 1024
LINK_BYTES = 128
"""What is acted on in a turn of those who are gone, each counted with so much more."""


class Held:
    """What a link that is held back will do next: read on if `unfinished`, and take these bytes.

    `is_deaf` if that is because it does not take what is said to it.
    """

    __slots__ = ("is_deaf", "kept", "unfinished")

    def __init__(self) -> None:
        self.is_deaf = False
        self.unfinished = False
        self.kept: list[bytes] = []


class Roster:
    """Every link, and what has come of each and waits for its turn.

    `unknown` are those that have not said who they are, oldest first.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.links: dict[Link, None] = {}
        self.unknown: dict[Link, None] = {}
        self.inputs: list[tuple[Link, bytes]] = []
        self.held_back: dict[Link, Held] = {}
        self._swept_at: Millis = 0

    def unheard_bytes(self) -> int:
        """What has come and waits for its turn."""
        return sum(len(data) for _, data in self.inputs)

    def kept_bytes(self) -> int:
        """What has come from those who are held back, since they are."""
        return sum(len(data) for held in self.held_back.values() for data in held.kept)

    def has_kept(self, link: Link) -> bool:
        """Whether a link that is held back has sent something."""
        held = self.held_back.get(link)
        return held is not None and bool(held.kept or link.conversation.unread())

    # -- links that are given up --------------------------------------------------------------

    def sweep(self, now: Millis) -> None:
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
            if not unread or link.conversation.holding or link in self.held_back:
                link.partial_since = 0
            elif not link.partial_since:
                link.partial_since, link.partial_bytes = now, unread
            elif link.paused:
                # It is we who do not read: that time is not the peer's.
                link.partial_since += now - self._swept_at
            elif now - link.partial_since > self.limits.frame_ms:
                self._judge_pace(link, unread, now)
        self._swept_at = now

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

    def drop_one_of_many(self, now: Millis) -> None:
        """Drop the oldest of too many strangers, unless it came just now with a herd."""
        oldest = self.oldest_stranger()
        if oldest is None or now - oldest.opened_at <= self.limits.stranger_ms:
            return
        self._forget_known()
        if len(self.unknown) > self.limits.unknown_max:
            oldest.close("too many connections have not said who they are")
            del self.unknown[oldest]
