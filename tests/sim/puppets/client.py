"""What every puppet is: one connection after another, and a diary of what was asked and answered on it.

Nothing here knows the broker: a puppet believes only what it is told, and writes down `maybe` where it
was told nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from franca.core.model import Millis
from tests.prove.events import Event, Out
from tests.sim.world import Wire, World

NEVER: Millis = 1 << 60

T = TypeVar("T")


class Client(ABC):
    """One peer; what it says is its protocol's business."""

    protocol: str
    service = ""  # where it connects, if that is not called as its protocol

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = Random(world.rng.getrandbits(32))
        self.next_at: Millis = world.now + self.rng.randrange(1_000)
        self.worker = ""  # the name under which it holds jobs, where they outlive the connection
        self.ready = False
        self.retiring = False
        self.wire: Wire | None = None
        self._under_way: dict[int, Event] = {}

    # -- the world's side ---------------------------------------------------------------------

    def act(self, now: Millis) -> None:
        """Connect, or do what one came for."""
        if self.wire is None:
            self.ready = False
            self.wire = self.world.connect(self, self.service or self.protocol)
            self.next_at = NEVER
            self.connected()
        elif self.ready:
            self.work(now)
        else:
            self.next_at = NEVER

    @abstractmethod
    def heard(self, data: bytes, now: Millis) -> None:
        """Bytes from the server."""

    def cut_off(self, now: Millis) -> None:
        """What was asked and not answered may have happened or not."""
        assert self.wire is not None
        under_way, self._under_way = self._under_way, {}
        for event in under_way.values():
            event.t1, event.out = now / 1000, "maybe"
            self.world.history.append(event)
            self.unanswered(event)
        closed = Event("close", self.protocol, self.wire.name, t0=now / 1000, t1=now / 1000)
        self.world.history.append(closed)
        self.wire, self.ready = None, False
        self.next_at = now + self.rng.randrange(1, 2_000)
        self.gone(now)

    def go_home(self) -> None:
        """No more faults of its own."""
        self.retiring = True

    def claim(self, now: Millis) -> tuple[str, str] | None:
        """The name of a job that this peer surely holds, and as whom; None if it may hold none."""
        return None

    def is_content(self) -> bool:
        """Nothing that was promised to it is still to come."""
        return True

    # -- the diary ------------------------------------------------------------------------------

    def begin(self, event: Event) -> Event:
        """This is about to be said."""
        assert self.wire is not None
        event.proto, event.conn, event.t0 = self.protocol, self.wire.name, self.world.now / 1000
        event.worker = self.worker
        self._under_way[id(event)] = event
        return event

    def end(self, event: Event, out: Out = "ok") -> None:
        """And this came of it."""
        del self._under_way[id(event)]
        event.t1, event.out = self.world.now / 1000, out
        self.world.history.append(event)

    def forget(self, event: Event) -> None:
        """What came of it is no news."""
        del self._under_way[id(event)]

    # -- for those who are built on it ------------------------------------------------------------

    @abstractmethod
    def connected(self) -> None:
        """There is a new connection: say who one is, and be `ready` some time."""

    @abstractmethod
    def work(self, now: Millis) -> None:
        """Do one thing."""

    def unanswered(self, event: Event) -> None:
        """What was asked with this was never answered."""

    def gone(self, now: Millis) -> None:
        """The connection was lost."""

    def after(self, least: int, most: int) -> None:
        """Be asked again after so many milliseconds."""
        self.next_at = self.world.now + self.rng.randrange(least, most)

    def offer_some(
        self,
        doubtful: list[T],
        new: Callable[[], T],
        submit: Callable[[T], None],
        most_ms: int = 1_500,
    ) -> None:
        """Submit what may not have come before, or one or a few more; and again after a while."""
        if doubtful and self.rng.random() < 0.5:
            submit(doubtful.pop())
        else:
            for _ in range(self.rng.choice((1, 1, 1, 4))):
                submit(new())
        self.after(1, 20_000 if self.rng.random() < 0.2 else most_ms)

    def waits_no_more(self) -> bool:
        """Whether it goes home, or hangs up on a whim: then it asks for nothing more now."""
        if self.retiring:
            self.next_at = NEVER
            return True
        if self.rng.random() < 0.1 and self.wire is not None:
            self.world.hang_up(self.wire)
            return True
        return False

    def run_time(self, spans: Sequence[tuple[int, int]], weights: Sequence[int]) -> Millis:
        """How long a run takes; now and then longer than it may."""
        if self.retiring:
            return 1
        least, most = self.rng.choices(spans, weights)[0]
        return self.rng.randrange(least, most)

    def last_word(self, words: Sequence[str], weights: Sequence[int]) -> str:
        """How a run ends: with the first of these words if no more may go wrong."""
        return words[0] if self.retiring else self.rng.choices(words, weights)[0]
