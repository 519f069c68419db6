"""What both clients and workers may say: ECHO_REQ, OPTION_REQ and SET_CLIENT_ID."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from franca.core.model import Millis
from franca.protocols.gearman.wire import (
    CLIENT_ID_BYTES_KEPT,
    HEADER,
    LONG_BYTES,
    OPTION_BYTES_MAX,
    RES,
    Packet,
    error,
    on_one_line,
    response,
)

if TYPE_CHECKING:
    from franca.protocols.gearman.conversation import GearmanConversation

_UNKNOWN_OPTION: Final = error("UNKNOWN_OPTION", "Server does not recognize given option")


def on_echo(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """ECHO_REQ: the same back."""
    link = conversation.link
    if len(body) > LONG_BYTES:
        link.write_bulk(HEADER.pack(RES, Packet.ECHO_RES, len(body)), body)
    else:
        link.write(response(Packet.ECHO_RES, body))


def on_option(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """OPTION_REQ: only `exceptions` is known; the answer is the option as it was sent."""
    if len(body) <= OPTION_BYTES_MAX and body.rstrip(b"\0").lower() == b"exceptions":
        conversation.wants_exceptions = True
        conversation.link.write(response(Packet.OPTION_RES, body))
    else:
        conversation.link.write(_UNKNOWN_OPTION)


def on_client_id(conversation: GearmanConversation, body: bytes, now: Millis) -> None:
    """SET_CLIENT_ID: what `workers` calls this connection; no answer."""
    said = body[:CLIENT_ID_BYTES_KEPT].partition(b"\0")[0]
    conversation.client_id = on_one_line(said) or b"-"
