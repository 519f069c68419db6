"""A connection of which only bytes are known."""

from collections.abc import Iterable
from contextlib import suppress

from tests.support.connection import Connection

PATIENCE_S = 60.0
_LOOKED_AT = 1 << 17  # more than is read at once


class Raw(Connection[bytes]):
    """All that was heard stays in `unread`."""

    def pour(self, pieces: Iterable[bytes]) -> None:
        """Send all of them, or as many as the server takes."""
        with suppress(ConnectionError):
            for data in pieces:
                self.send_bytes(data)

    def read_until(self, last: bytes) -> None:
        """Until this was said; other words may already follow it."""
        while self.unread.find(last, max(0, len(self.unread) - _LOOKED_AT)) < 0:
            self.fill()
