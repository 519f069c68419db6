"""Back-pressure: who is read from and acted on, and who must wait.

Nobody sends more than its share of turns, lets more answers pile up than may wait for the disk, or
keeps others from being heard. While more is unsent or waits for the disk than may, nothing is acted
on of those whose messages add to it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import cast

from franca.engine.engine import Engine
from franca.node.connection import CROWD, FLOOD, GULP, Connection
from franca.node.outlet import Outlet
from franca.protocols.conversation import Link

PASS_S = 0.02
"""After so long a turn ends, with those who went on and with new input each: then others are heard,
what is said is sent, and what has changed goes to the disk."""
GROWTH_BYTES = 4 * 1024
"""What a share of a turn may add to what others have not taken, or to what waits for the disk,
while there is too much of it."""
FAR = 4
LITTLE_BYTES = 256
"""More than this that comes at once is not acted on while four times as much waits for the disk as
may. A heartbeat is shorter."""


class Pressure:
    """Those that are held back, and why. `soon` asks for a turn, `speak` sends what was said."""

    __slots__ = (
        "_crowding",
        "_engine",
        "_gulped",
        "_most_unsent",
        "_outlet",
        "_paused",
        "_pending",
        "_soon",
        "_speak",
        "_stuck",
        "_until",
    )

    def __init__(
        self,
        engine: Engine,
        outlet: Outlet,
        soon: Callable[[], None],
        speak: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._outlet = outlet
        self._soon = soon
        self._speak = speak
        self._until = 0.0
        self._most_unsent = engine.limits.output_bytes
        self._pending = (0, 0)
        self._crowding: dict[Connection, None] = {}
        self._paused: dict[Connection, None] = {}
        self._stuck: dict[Connection, None] = {}
        self._gulped: list[Connection] = []
        engine.before = self.before
        engine.between = self.between

    def after_turn(self) -> None:
        """Hold back those who have said too much for now; let go on who may."""
        engine = self._engine
        if engine.has_input():
            self._pause_floods()
            self._soon()
        is_behind = engine.broker.is_behind()
        if is_behind:
            self._pause_producers()
        elif self._paused:
            self._resume_quiet()
        if self._gulped:
            self._read_on()
        if engine.careful or is_behind or self._outlet.total > self._most_unsent:
            self._look_at_amounts()
        self._until = 0.0

    def between(self, link: Link) -> bool:
        """Whether the turn has taken long enough.

        While care is needed, what the link's share gave rise to is sent at once.
        """
        if self._engine.careful:
            self._weigh_share(link)
        elif self._engine.broker.is_behind():
            self._be_careful()
        now = monotonic()
        if not self._until:
            self._until = now + PASS_S
        elif now >= self._until:
            self._until = 0.0
            return True
        return False

    def before(self, link: Link, size: int) -> None:
        """So much of a link is about to be acted on: not if it is much and the disk far behind.

        A flood alone does not bring it there, so that nobody waits because of one.
        """
        if size > LITTLE_BYTES and self._engine.broker.is_behind(FAR):
            self._hold_crowder(link)

    def _weigh_share(self, link: Link) -> None:
        """Send what a link's share gave rise to. If it adds much, the link must wait."""
        outlet, speaking, broker = self._outlet, self._engine.speaking, self._engine.broker
        jobs, size = self._pending
        is_much = broker.pending_bytes > size + GROWTH_BYTES and broker.is_behind()
        is_much = is_much or (broker.pending_jobs > jobs and broker.is_behind(FAR))
        if speaking:
            before = outlet.total
            is_for_others = len(speaking) > 1 or speaking[0] is not link
            self._speak()
            most = 0 if outlet.is_full else GROWTH_BYTES
            is_much = is_much or (is_for_others and outlet.total - before > most)
        if is_much:
            self._hold_crowder(link)
        self._be_careful()

    def _be_careful(self) -> None:
        """Look at what each piece of input adds, while too much is unsent or waits for the disk."""
        broker = self._engine.broker
        self._pending = broker.pending_jobs, broker.pending_bytes
        self._engine.careful = self._outlet.is_over or broker.is_behind()

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody is held back until less is unsent, or waits for the disk."""
        return bool(self._crowding)

    def after_commit(self) -> None:
        """Act again on what those sent whose answers have left."""
        if self._stuck:
            for connection in list(self._stuck):
                if connection.link.closed or not connection.waits_for:
                    del self._stuck[connection]
                    self.go_on(connection)

    def go_on(self, connection: Connection) -> None:
        """A peer may be acted on again, unless it is held back for another reason too."""
        is_held = connection in self._stuck or connection in self._crowding
        if not connection.full and not is_held:
            self._engine.go_on(connection.link)
            self._soon()

    def let_others_speak(self, connection: Connection) -> None:
        """Read no more from a peer before everybody else has been heard."""
        self._gulped.append(connection)
        connection.hold(GULP)

    def pause_if_flooded(self, link: Link) -> None:
        """Stop reading from a peer that has more unread than it may."""
        if link.conversation.unread() > self._engine.limits.link_input_bytes:
            self._pause(cast(Connection, link.carrier))

    # -- holding back ---------------------------------------------------------------------------

    def _pause(self, connection: Connection) -> None:
        self._paused[connection] = None
        connection.hold(FLOOD)

    def _pause_floods(self) -> None:
        """Stop reading from those who send faster than their share of turns.

        Nor is more of it acted on while the disk keeps too many of their answers waiting, or has
        enough to do: one group must not become so large that everybody waits for it.
        """
        most = self._engine.limits.output_soft_bytes
        is_enough = self._engine.broker.is_behind()
        for link in self._engine.unfinished():
            self.pause_if_flooded(link)
            connection = cast(Connection, link.carrier)
            if is_enough or (connection.piled_bytes > most and connection.waits_for):
                self._stuck[connection] = None
                self._pause(connection)
                self._engine.put_off(link)

    def _pause_producers(self) -> None:
        """Too much waits for the disk: read nothing more from those whose words do.

        The others may speak: a heartbeat needs no disk.
        """
        for link in self._engine.links:
            connection = cast(Connection, link.carrier)
            if connection.waits_for and connection not in self._paused:
                self._pause(connection)

    def _hold_crowder(self, link: Link) -> None:
        connection = cast(Connection, link.carrier)
        self._crowding[connection] = None
        connection.hold(CROWD)
        self._engine.put_off(link)

    def _look_at_amounts(self) -> None:
        """Be careful while there is more than may be; after that, let everybody go on."""
        self._be_careful()
        if self._crowding and not self._engine.careful:
            crowding = list(self._crowding)
            self._crowding.clear()
            for connection in crowding:
                connection.release(CROWD)
                self.go_on(connection)

    # -- letting go on --------------------------------------------------------------------------

    def _read_on(self) -> None:
        gulped, self._gulped = self._gulped, []
        for connection in gulped:
            connection.breathe()

    def _resume_quiet(self) -> None:
        engine = self._engine
        for connection in list(self._paused):
            link = connection.link
            quiet = link.conversation.unread() <= engine.limits.link_input_bytes // 2
            # The rest of a message that has only begun must be read, however long it is.
            is_stuck = connection in self._stuck
            if link.closed or not (is_stuck or (not quiet and engine.waits_to_act(link))):
                del self._paused[connection]
                connection.release(FLOOD)
