"""Lines of text: what operators and monitoring programs ask. Exact to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from franca.core.model import Millis
    from franca.protocols.gearman.conversation import GearmanConversation


def command(conversation: GearmanConversation, line: bytes, now: Millis) -> None:
    """Act on one line."""
    words = line.rstrip(b"\r\n").split()
    service = conversation.service
    word = words[0].lower() if words else b""
    if word == b"version":
        conversation.link.write(b"OK %b\n" % service.settings.version.encode())
    elif word == b"status":
        lines = [
            b"%b\t%d\t%d\t%d\n"
            % (
                service.names.raw(q.name),
                q.ready + q.leased + q.scheduled + q.retrying,
                q.leased,
                q.servers,
            )
            for q in service.broker.queues.values()
            if q.listed
        ]
        conversation.link.write(b"".join(lines) + b".\n")
    else:
        conversation.link.write(
            b"ERR UNKNOWN_COMMAND Unknown+server+command%b\r\n" % (words[0] if words else b"")
        )
