"""A party with one connection at a time."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Generic, TypeVar

from tests.prove.fences import Worker
from tests.prove.load import Closable

C = TypeVar("C", bound=Closable)


class Connected(Worker, Generic[C]):
    """It comes back when it was hung up on; one that is `gone` hangs up while it has the job."""

    def __init__(self, port: int, *, gone: bool = False) -> None:
        self._port = port
        self._gone = gone
        self._client: C | None = None

    def beat(self) -> None:
        if self._gone:
            self.leave()

    def leave(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def connected(self) -> C:
        """The connection, or a new one where the old one is of no use any more."""
        if self._client is not None:
            with suppress(OSError):
                self.probe(self._client)
                return self._client
            self._client.close()
        self._client = self.connect()
        return self._client

    @abstractmethod
    def connect(self) -> C:
        """A new connection."""

    def probe(self, client: C) -> None:
        """Ask for an answer; `OSError` if there is none."""
