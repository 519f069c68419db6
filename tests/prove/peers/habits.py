"""What producers and consumers of several protocols do alike: offer as the backlog allows, wait for one job."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from random import Random
from time import sleep
from typing import Any, Generic, Protocol, TypeVar

from tests.prove import bodies
from tests.prove.events import Event
from tests.prove.load import KNOCK_S, Actor, Closable, Load

NAP_S = 1.0
"""How long a worker waits for a job before it looks up."""
PATIENCE_S = 30.0
"""How long a client waits for a result before it complains."""
CHANCE_OF_TROUBLE = 0.01


class Patient(Closable, Protocol):
    """A connection that waits as long as it is told."""

    def set_timeout(self, seconds: float) -> None: ...


C = TypeVar("C", bound=Closable)
P = TypeVar("P", bound=Patient)
J = TypeVar("J")


class Offering(Actor[C], Generic[C, J]):
    """Submits jobs in its own style as long as the backlog is small; some again."""

    def __init__(self, load: Load, name: str, rng: Random, style: Callable[[Any, C], None]) -> None:
        super().__init__(load, name, rng)
        self.style = style
        self.offered: dict[str, J] = {}
        self._made = 0
        self._unknown: list[tuple[str, J]] = []

    def step(self, client: C) -> bool:
        if self.load.draining.is_set():
            return False
        if self.load.has_enough(self.done):
            sleep(KNOCK_S)
        else:
            self.style(self, client)
        return True

    def lost(self, event: Event) -> None:
        # Some clients say it again, some give up; those who waited had better not.
        job = self.offered.pop(event.jid, None)
        if job is not None and not event.waits and self.rng.random() < 0.3:
            self._unknown.append((event.jid, job))

    def next_job(self) -> tuple[str, J]:
        """One that may not have come before, or a new one, and what it is called."""
        if self._unknown:
            return self._unknown.pop()
        self._made += 1
        jid = bodies.name_of(self.name, self._made)
        return jid, self.job_of(jid)

    @abstractmethod
    def job_of(self, jid: str) -> J:
        """A new job of that name."""


class OneByOne(Actor[P], Generic[P, J]):
    """Asks for a job, waits for it, and finishes it; sometimes it fails it, or dies with it."""

    def __init__(self, load: Load, name: str, rng: Random) -> None:
        super().__init__(load, name, rng)
        self._asking: Event | None = None

    def greet(self, client: P) -> None:
        self._asking = None

    def step(self, client: P) -> bool:
        if self.load.stopping.is_set():
            return False
        if self._asking is None:
            self._asking = self.begin("fetch", queue=self.load.plan.queue)
            self.ask(client)
        client.set_timeout(NAP_S)
        try:
            job = self.hear(client)
        except TimeoutError:
            return True
        finally:
            client.set_timeout(self.load.plan.timeout_s)
        event, self._asking = self._asking, None
        self.note(event, job)
        self.end(event)
        if self._has_trouble():
            return False  # dies with it
        self.toil()
        fails = self._has_trouble()
        report = self.begin("fail" if fails else "ack", event.jid)
        self.report(client, job, event, fails=fails)
        self.end(report)
        self.done += not fails
        return True

    def _has_trouble(self) -> bool:
        return self.load.is_rough and self.rng.random() < CHANCE_OF_TROUBLE

    @abstractmethod
    def ask(self, client: P) -> None:
        """Ask for a job."""

    @abstractmethod
    def hear(self, client: P) -> J:
        """The job; `TimeoutError` if it does not come for a while."""

    @abstractmethod
    def note(self, event: Event, job: J) -> None:
        """Write down what was given."""

    @abstractmethod
    def report(self, client: P, job: J, fetched: Event, *, fails: bool) -> None:
        """Say what came of it, and wait until that was heard."""
