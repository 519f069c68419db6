"""What the parts of a Periodic connection have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from franca.protocols.periodic.waits import Name

if TYPE_CHECKING:
    from franca.protocols.periodic.conversation import PeriodicConversation


class NotNow(Exception):
    """A message is to be acted on later: those who hear of this job have had enough for now."""

    def __init__(self, name: Name) -> None:
        super().__init__(*name)
        self.name = name


class Part:
    """The client's or the worker's part of a connection: any peer may be both."""

    def __init__(self, connection: PeriodicConversation) -> None:
        self.connection = connection
        self.link = connection.link
        self.service = connection.service
        self.broker = connection.broker
