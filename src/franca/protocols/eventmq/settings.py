"""What an operator may choose about EventMQ: nothing that is not chosen for the whole server."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from franca.protocols.declaration import Declaration


class EventmqSettings(Struct, frozen=True):
    """What an operator may choose."""

    remote_shutdown: str = "loopback"
    """From whom an administrator's DISCONNECT is taken: `loopback`, `all` or `never`."""
    timezone: str = "UTC"
    """Where cron lines are that name no time zone. The original knows only this one."""


DECLARATION: Final = Declaration(
    name="eventmq",
    listeners={
        "eventmq": ("127.0.0.1:47290", "127.0.0.1:47291", "127.0.0.1:47293"),
        "eventmq_publish": ("127.0.0.1:47298",),
        "eventmq_subscribe": ("127.0.0.1:47299",),
    },
    client_line="export EMQ_BROKER_ADDR=tcp://{host}:{port}",
)
