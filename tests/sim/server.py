"""The server without its sockets, threads and clock: turns, groups, and what waits for them.

It does what `franca/node/node.py` does, in the same order, on a wire of the world instead of a
socket: a group begins when the disk is free, and what was written `after_commit` is said when the
group that makes it true is durable. Everything else leaves at once, behind what waits already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, cast

from franca.core.broker import Broker
from franca.core.limits import Limits
from franca.engine.engine import Engine
from franca.protocols.conversation import Link, Peer
from franca.protocols.service import Service
from tests.sim.disk import Disk

if TYPE_CHECKING:
    from tests.sim.world import Wire

Services = Callable[[Broker, Random], Mapping[str, Service]]


class Group:
    """What is said when one commit has made it true."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.said: list[tuple[Wire, bytes]] = []


class Server:
    """One life of a server: from what the disk remembers to its crash."""

    def __init__(self, disk: Disk, services: Services, limits: Limits, seed: int, now: int) -> None:
        self.disk = disk
        self.broker = Broker(limits, Random(seed))
        self.broker.restore_at(disk.snapshot(), now)
        self.engine = Engine(self.broker, services(self.broker, Random(seed)), limits)
        self.busy = False
        self._forming = Group(1)
        self._in_flight = Group(0)
        self._boot = seed
        self._links = 0

    # -- links ------------------------------------------------------------------------------

    def open(self, service: str, wire: Wire, now: int) -> Link:
        """A peer has connected."""
        self._links += 1
        peer = Peer("127.0.0.1", local=True)
        link = self.engine.open_link(service, f"{self._boot}-{self._links}", peer, now)
        link.carrier = wire
        return link

    def close(self, wire: Wire, now: int) -> None:
        """A peer is gone."""
        self.engine.close_link(wire.link, now, undelivered=wire.waits_for != 0)

    # -- the turn ---------------------------------------------------------------------------

    def turn(self, now: int) -> None:
        """Act on what came in; write it down if the disk is free; say what may be said."""
        self.engine.turn(now)
        if not self.busy:
            self._begin_group(now)
        self._speak()

    def committed(self, now: int) -> None:
        """The group in flight is durable: everything that waited for it is true."""
        self.disk.commit()
        self._release(self._in_flight)
        self.busy = False
        self.turn(now)

    def _begin_group(self, now: int) -> None:
        broker = self.broker
        group, self._forming = self._forming, Group(self._forming.number + 1)
        if not broker.has_changes() and not broker.wants:
            self._release(group)
            return
        self._in_flight, self.busy = group, True
        changes, wants = broker.drain(), broker.take_wants()
        for want, jobs in zip(wants, self.disk.write(changes, wants), strict=True):
            self.engine.supplied(want, jobs, now)
        self._speak()

    def _speak(self) -> None:
        needed = self.needed_group()
        for link in self.engine.with_output:
            wire = cast("Wire", link.carrier)
            data = b"".join(link.out)
            link.out.clear()
            if data and link.after_commit and needed is not None:
                needed.said.append((wire, data))
                wire.waits_for = needed.number
            elif data and (group := self.group_ahead(wire)) is not None:
                group.said.append((wire, data))
            elif data:
                wire.send(data)
            link.after_commit = False
            if link.closing and not wire.waits_for:
                wire.hang_up()
        self.engine.with_output.clear()

    def needed_group(self) -> Group | None:
        """The group that makes everything done so far durable; None if all of it is."""
        if self.broker.has_changes():
            return self._forming
        return self._in_flight if self.busy else None

    def group_ahead(self, wire: Wire) -> Group | None:
        """The group behind which a peer's words queue, if any."""
        if not wire.waits_for:
            return None
        return self._in_flight if wire.waits_for == self._in_flight.number else self._forming

    def _release(self, group: Group) -> None:
        for wire, data in group.said:
            if wire.waits_for == group.number:
                wire.waits_for = 0
            wire.send(data)
            if wire.link.closing and not wire.waits_for:
                wire.hang_up()
