"""What operators are told of peers: one line each, but never so many that they fill the disk."""

from __future__ import annotations

from collections.abc import Callable

from franca.core.model import Millis
from franca.node import log
from franca.protocols.conversation import Notice

PERIOD_MS = 10_000
LINES_PER_PERIOD = 10
"""Lines about the peers of one protocol in one period; the others are counted."""


class NoticeLog:
    """Logs notices. `count` is how many there were since the start.

    What peers did that only operators should do is not logged, but told to `record`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.record: Callable[[Notice], None] = lambda notice: None
        self._begun: dict[str, Millis] = {}
        self._told: dict[str, int] = {}

    def tell(self, notices: list[Notice], now: Millis) -> None:
        """Log these, as far as their protocol has lines left in this period, and clear the list."""
        for notice in notices:
            if notice.action:
                self.record(notice)
                continue
            self.count += 1
            self._tell(notice, now)
        notices.clear()

    def _tell(self, notice: Notice, now: Millis) -> None:
        protocol = notice.link.protocol
        fields: dict[str, object] = {"protocol": protocol, "remote": notice.link.peer.address}
        told = self._told.get(protocol, 0)
        if now - self._begun.get(protocol, -PERIOD_MS) >= PERIOD_MS:
            self._begun[protocol] = now
            if told > LINES_PER_PERIOD:
                fields["not_logged"] = told - LINES_PER_PERIOD
            told = 0
        self._told[protocol] = told + 1
        if told >= LINES_PER_PERIOD:
            return
        if notice.error is not None:
            text = f"a connection was closed because of an error in the server: {notice.reason}"
            log.failure("peer-failed", text, notice.error, **fields)
        else:
            log.event("warning", "peer-refused", notice.reason, **fields)
