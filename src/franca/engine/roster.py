"""Who is connected, and who is given up: strangers, and those who never finish a message."""

from __future__ import annotations

from franca.core.limits import Limits
from franca.core.model import Millis
from franca.protocols.conversation import Link

LAST_BYTES = 16 * 1024
LINK_BYTES = 128
"""What is acted on in a turn of those who are gone, each counted with so much more."""


class Roster:
    """Every link, and what has come of each and waits for its turn.

    `unknown` are those that have not said who they are, oldest first. `held_back` are those of
    which nothing is acted on: True where that is because they take no answers. `_unfinished` are
    those to be called in the next turn though nothing came from them, `_leaving` those that are
    gone, each until so many pieces of input were taken, of which `_taken` is the count.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.links: dict[Link, None] = {}
        self.unknown: dict[Link, None] = {}
        self.inputs: list[tuple[Link, bytes]] = []
        self.held_back: dict[Link, bool] = {}
        self._unfinished: dict[Link, None] = {}
        self._leaving: dict[Link, tuple[int, bool]] = {}
        self._taken = 0
        self._swept_at: Millis = 0

    def waiting_bytes(self) -> int:
        """What has come and waits for its turn."""
        return sum(len(data) for _, data in self.inputs)

    def kept_bytes(self) -> int:
        """What has come from those who are held back, and was not acted on."""
        return sum(link.conversation.unread() for link in self.held_back)

    # -- links that must wait -----------------------------------------------------------------

    def unfinished(self) -> list[Link]:
        """Links that have sent more than their share of a turn."""
        return list(self._unfinished)

    def waits_to_act(self, link: Link) -> bool:
        """Whether a link's unread bytes may be whole messages; if not, only more bytes can help."""
        return link in self.held_back or link in self._unfinished or link.conversation.holding

    def hold_back(self, link: Link) -> None:
        """Act on nothing more of what a peer sends until it takes the answers to the rest."""
        self.put_off(link)
        link.full = self.held_back[link] = True

    def put_off(self, link: Link) -> None:
        """Act on nothing more of what a peer sends until it may go on; its bytes are kept.

        It takes what is said to it, and may be told more.
        """
        link.ready = False
        self.held_back.setdefault(link, False)
        self._unfinished.pop(link, None)

    def go_on(self, link: Link) -> None:
        """A peer is held back no more: act on what it sent meanwhile."""
        if link in self.held_back and link not in self._leaving:
            if self.held_back.pop(link):
                link.full = False
            self._unfinished[link] = None

    # -- links that are gone ------------------------------------------------------------------

    def leave(self, link: Link, undelivered: bool, *, is_done: bool) -> None:
        """Have a link end after everything that came so far was acted on, if not `is_done`."""
        undelivered = undelivered or bool(link.out)
        link.with_output = []  # what is written from now on is sent to nobody
        if is_done:
            self.held_back.pop(link, None)
            self._unfinished.pop(link, None)
            self._leaving[link] = 0, undelivered
        else:
            self.put_off(link)
            self._leaving[link] = self._taken + len(self.inputs), undelivered

    def resume_leaving(self) -> None:
        """Let some of those who are gone go on, behind the others: nobody waits for that."""
        inputs, left = self.inputs, LAST_BYTES
        for link, (last, undelivered) in list(self._leaving.items()):
            if left > 0 and link in self.held_back and self._taken >= last:
                left -= LINK_BYTES + link.conversation.unread()
                del self.held_back[link]
                inputs.append((link, b""))
                self._leaving[link] = self._taken + len(inputs), undelivered

    def done_leaving(self, most: int) -> list[tuple[Link, bool]]:
        """Some of those who are gone and have nothing left to be acted on.

        Each with whether something was said that it will not hear.
        """
        gone: list[tuple[Link, bool]] = []
        for link, (last, undelivered) in list(self._leaving.items()):
            if link.out:
                undelivered = True
                self._leaving[link] = last, undelivered
                link.forget_said()
            is_kept = link in self.held_back and link.conversation.unread() > 0
            if self._taken >= last and not (is_kept or link in self._unfinished):
                gone.append((link, undelivered))
                if len(gone) == most:
                    break
        return gone

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
                link.ready = False
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
