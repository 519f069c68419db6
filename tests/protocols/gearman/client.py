"""What a Gearman server says, packets and lines of text alike."""

from typing import NamedTuple

from tests.support.gearman import take_packet


class Message(NamedTuple):
    """A packet's type and body, or a line of text with type 0."""

    number: int
    body: bytes

    @property
    def arguments(self) -> list[bytes]:
        """The body cut at every NUL."""
        return self.body.split(b"\0")


def parse_response(unread: bytearray) -> Message | None:
    """Take the first packet or line off `unread`, or None until all of it is there."""
    if not unread or not unread[0]:
        packet = take_packet(unread)
        return None if packet is None else Message(*packet)
    end = unread.find(b"\n") + 1
    line = bytes(unread[:end])
    del unread[:end]
    return Message(0, line) if end else None
