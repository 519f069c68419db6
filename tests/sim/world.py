"""One seeded world: a server, its disk, its peers, and everything that can go wrong between them.

It is a `for` loop. Each step goes to the next moment at which anything happens, lets it happen,
perhaps breaks something, and looks whether what must hold still holds. Every choice is drawn from
one generator, so that a seed is a whole history and can be played again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from franca.core.limits import Limits
from franca.core.model import Millis
from franca.protocols.conversation import Link
from tests.prove.events import Event
from tests.sim.disk import Disk
from tests.sim.server import Server, Services

if TYPE_CHECKING:
    from tests.sim.actors import Actor

LOOK_MS = 1_000
START: Millis = 1_790_000_000_000
HOUR = 3_600_000
JUMPS = (HOUR, -HOUR, 24 * HOUR, -24 * HOUR)


class Wire:
    """A connection: bytes on their way in both directions, in order, each piece with its moment."""

    def __init__(self, world: World, peer: Actor, name: str) -> None:
        self.world = world
        self.peer = peer
        self.name = name
        self.link: Link
        self.waits_for = 0
        self.open = True
        self.hanging_up = False
        self.to_server: deque[tuple[Millis, bytes]] = deque()
        self.to_client: deque[tuple[Millis, bytes]] = deque()

    def send(self, data: bytes) -> None:
        """The server says something."""
        self.world.put(self.to_client, data)

    def say(self, data: bytes) -> None:
        """The peer says something."""
        if self.open:
            self.world.put(self.to_server, data)

    def hang_up(self) -> None:
        """The server closes it: what it said before arrives first."""
        self.hanging_up = True

    def next_at(self) -> Millis | None:
        """When the next piece arrives, either way."""
        moments = [pieces[0][0] for pieces in (self.to_server, self.to_client) if pieces]
        if self.hanging_up and not self.to_client:
            moments.append(self.world.now)
        return min(moments, default=None)


class Faults:
    """How often things break in a world: chances in each step."""

    def __init__(self, rng: Random) -> None:
        self.jump = 0.01 if rng.random() < 0.25 else 0.0
        self.crash = rng.choice((0.0, 0.002, 0.006))
        self.drop = rng.choice((0.0, 0.005, 0.02))
        self.slow_disk = rng.choice((0.0, 0.02, 0.3))
        self.cut = rng.choice((0.0, 0.3, 0.9))
        self.delay_ms = rng.choice((2, 40, 400))


@dataclass(slots=True)
class Tally:
    """What a world has lived through."""

    steps: int = 0
    crashes: int = 0
    jumps: int = 0
    jobs: int = 0
    again: bool = False  # whether requests are said again: each may have made a job
    accepted: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)

    def accept(self, jid: str, queue: str) -> None:
        """A producer was told that its job is taken."""
        self.jobs += 1
        if queue not in self.removed:
            self.accepted[jid] = queue

    def remove(self, queue: str) -> None:
        """Somebody is about to remove a queue: from now on nobody can say what is in it."""
        self.removed.add(queue)
        self.accepted = {jid: q for jid, q in self.accepted.items() if q != queue}


class World:
    """Everything there is. `now` is the true time; the server has its own, and the wall a third."""

    def __init__(self, seed: int, services: Services, limits: Limits, faults: Faults) -> None:
        self.rng = Random(seed)
        self.now: Millis = START
        self.faults = faults
        self.limits = limits
        self.disk = Disk()
        self.history: list[Event] = []
        # What the history calls the jobs whose names clients know.
        self.names: dict[str, str] = {}
        self.lasting: set[str] = set()  # the names of those among them that outlive a crash
        self.actors: list[Actor] = []
        self.wires: list[Wire] = []
        self.tally = Tally()
        self.chaos = True
        self._services = services
        self._wires = 0
        self._commit_at: Millis = 0
        self._wall_ahead = 0
        self.server = self._boot()

    # -- for peers --------------------------------------------------------------------------

    def connect(self, peer: Actor, service: str) -> Wire:
        """A new connection."""
        self._wires += 1
        wire = Wire(self, peer, f"c{self._wires}")
        wire.link = self.server.open(service, wire, self.now)
        self.wires.append(wire)
        return wire

    def put(self, pieces: deque[tuple[Millis, bytes]], data: bytes) -> None:
        """Send bytes, in one piece or cut anywhere, each piece some time after the one before."""
        rng = self.rng
        at = max(self.now, pieces[-1][0] if pieces else 0)
        while data:
            cut = len(data)
            if self.chaos and rng.random() < self.faults.cut:
                cut = rng.randrange(1, cut + 1)
            at += rng.randrange(self.faults.delay_ms) if self.chaos else 1
            pieces.append((at, data[:cut]))
            data = data[cut:]

    def wall(self) -> Millis:
        """What the wall clock shows."""
        return self.now + self._wall_ahead

    # -- steps ------------------------------------------------------------------------------

    def step(self) -> None:
        """Go to the next moment and let it happen."""
        self.tally.steps += 1
        self.now = self._next_moment()
        for wire in self.wires[:]:
            self._move(wire)
        if self.server.busy and self.now >= self._commit_at:
            self.server.committed(self.now)
            self._begin_commit()
        for actor in self.actors:
            if actor.next_at <= self.now:
                actor.act(self.now)
        if self.chaos:
            self._break_something()
        was_busy = self.server.busy
        self.server.turn(self.now)
        if not was_busy:
            self._begin_commit()

    def _next_moment(self) -> Millis:
        moments = [actor.next_at for actor in self.actors]
        moments += [at for wire in self.wires if (at := wire.next_at()) is not None]
        if self.server.busy:
            moments.append(self._commit_at)
        if self.server.engine.has_input():
            moments.append(self.now + 1)
        wake = self.server.broker.next_wake()
        if wake is not None:
            moments.append(max(wake, self.server.engine.next_wake()))
        # Services look at the time for themselves now and then, and tell nobody when.
        return max(self.now, min([*moments, self.now + LOOK_MS]))

    def _begin_commit(self) -> None:
        if self.server.busy:
            slow = self.chaos and self.rng.random() < self.faults.slow_disk
            self._commit_at = self.now + self.rng.randrange(1, 3_000 if slow else 8)

    def _move(self, wire: Wire) -> None:
        """Let arrive what is due on a wire, the server's words first."""
        while wire.open and wire.to_client and wire.to_client[0][0] <= self.now:
            wire.peer.heard(wire.to_client.popleft()[1], self.now)
        while wire.open and wire.to_server and wire.to_server[0][0] <= self.now:
            self.server.engine.inputs.append((wire.link, wire.to_server.popleft()[1]))
        if wire.open and wire.hanging_up and not wire.to_client:
            wire.to_server.clear()
            self.hang_up(wire)

    # -- what goes wrong ----------------------------------------------------------------------

    def _break_something(self) -> None:
        rng, faults = self.rng, self.faults
        if rng.random() < faults.drop and self.wires:
            self.hang_up(rng.choice(self.wires))
        if rng.random() < faults.jump:
            self.tally.jumps += 1
            self.set_wall(self._wall_ahead + rng.choice(JUMPS))
        if rng.random() < faults.crash:
            self.crash()

    def set_wall(self, ahead: int) -> None:
        """Somebody sets the machine's clock."""
        self._wall_ahead = ahead
        self.server.broker.wall_ahead_ms = ahead

    def hang_up(self, wire: Wire) -> None:
        """A connection ends: what its peer said last may still arrive, or not."""
        wire.open = False
        self.wires.remove(wire)
        if self.rng.random() < 0.5:
            for _, data in wire.to_server:
                self.server.engine.inputs.append((wire.link, data))
        wire.peer.cut_off(self.now)
        self.server.close(wire, self.now)

    def crash(self) -> None:
        """The server dies, before or after the group in flight is durable, and is born again.

        What a clock showed wrongly is set right before that: how long a lease was on while nobody
        counted is something that only the wall can tell.
        """
        self.tally.crashes += 1
        self.set_wall(0)
        if self.server.busy:
            if self.rng.random() < 0.5:
                self.disk.commit()
            else:
                self.disk.revert()
        wires, self.wires = self.wires, []
        for wire in wires:
            wire.open = False
            wire.peer.cut_off(self.now)
        before = self.now
        self.now += self.rng.randrange(1, 5_000)
        self.server = self._boot()
        self.history.append(Event("restart", t0=before / 1000, t1=self.now / 1000))

    def _boot(self) -> Server:
        seed = self.rng.getrandbits(32)
        return Server(self.disk, self._services, self.limits, seed, self.now)
