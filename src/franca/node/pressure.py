"""Back-pressure: which connections are read from and acted on, and which must wait.

No connection sends more than its share of turns, lets more answers pile up than may wait for the
disk, or keeps others from being handled. While more is unsent or waits for the disk than may,
nothing is acted on of connections whose messages add to it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from franca.engine.engine import Engine
from franca.node.connection import ADDING, BURST, FLOOD, Connection, connection_of
from franca.node.output import Output
from franca.protocols.conversation import Link

PASS_S = 0.02
"""After this time a turn ends, with links that had more than their share and with new input each:
then other events are handled, answers are sent, and changes go to the disk."""
GROWTH_BYTES = 4 * 1024
"""What a share of a turn may add to what other peers have not taken, or to what waits for the disk,
while there is too much of it."""
FAR = 4
LITTLE_BYTES = 256
"""More than this that comes at once is not acted on while four times as much waits for the disk as
may. A heartbeat is shorter."""


class Pressure:
    """Connections that are held back, and why. `soon` asks for a turn, `send_output` sends answers.

    `bursting` sent much at once: others are read from first. `_adding` add to a total that is over
    its limit. `_paused` have too much unread, or wait for the disk; of those that are `_stuck` too,
    nothing more is acted on until their answers have left.
    """

    def __init__(
        self,
        engine: Engine,
        output: Output,
        soon: Callable[[], None],
        send_output: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._output = output
        self._soon = soon
        self._send_output = send_output
        self._until = 0.0
        self._pending = (0, 0)
        self._adding: dict[Connection, None] = {}
        self._paused: dict[Connection, None] = {}
        self._stuck: dict[Connection, None] = {}
        self.bursting: list[Connection] = []
        engine.before = self.before
        engine.between = self.between

    def after_turn(self) -> None:
        """Hold back connections that sent too much for now, and resume others."""
        engine = self._engine
        if engine.has_input():
            self._pause_floods()
            self._soon()
        is_behind = engine.broker.is_behind()
        if is_behind:
            self._pause_producers()
        elif self._paused:
            self._resume_quiet()
        if self.bursting:
            bursting, self.bursting = self.bursting, []
            for connection in bursting:
                connection.burst_bytes = 0
                connection.release(BURST)
        is_over = self._output.total > engine.limits.output_bytes
        if engine.one_by_one or is_behind or is_over or self._adding:
            self._look_at_amounts()
        self._until = 0.0

    def between(self, link: Link) -> bool:
        """Whether the turn has taken long enough.

        While too much is unsent, what came of the link's share is sent at once.
        """
        if self._engine.one_by_one:
            self._weigh_share(link)
        elif self._engine.broker.is_behind():
            self._choose_pace()
        now = monotonic()
        if not self._until:
            self._until = now + PASS_S
        elif now >= self._until:
            self._until = 0.0
            return True
        return False

    def before(self, link: Link, size: int) -> None:
        """Input of this size is about to be acted on: not if it is much and the disk is far behind.

        A flood alone does not bring the disk there, so that no other link waits because of one.
        """
        if size > LITTLE_BYTES and self._engine.broker.is_behind(FAR):
            self._hold_adding(link)

    def _weigh_share(self, link: Link) -> None:
        """Send what came of a link's share. If that adds much, the link must wait."""
        output, with_output, broker = self._output, self._engine.with_output, self._engine.broker
        jobs, size = self._pending
        is_much = broker.pending_bytes > size + GROWTH_BYTES and broker.is_behind()
        is_much = is_much or (broker.pending_jobs > jobs and broker.is_behind(FAR))
        if with_output:
            before = output.total
            is_for_others = len(with_output) > 1 or with_output[0] is not link
            self._send_output()
            most = 0 if output.is_full else GROWTH_BYTES
            is_much = is_much or (is_for_others and output.total - before > most)
        if is_much:
            self._hold_adding(link)
        self._choose_pace()

    def _choose_pace(self) -> None:
        """Have each piece of input weighed while too much is unsent or waits for the disk."""
        broker = self._engine.broker
        self._pending = broker.pending_jobs, broker.pending_bytes
        self._engine.one_by_one = self._output.is_over or broker.is_behind()

    @property
    def is_waited_for(self) -> bool:
        """Whether a link is held back until less is unsent, or waits for the disk."""
        return bool(self._adding)

    def after_commit(self) -> None:
        """Act again on links whose answers have left."""
        if self._stuck:
            for connection in list(self._stuck):
                if connection.link.closed or not connection.waits_for:
                    del self._stuck[connection]
                    self.go_on(connection)

    def go_on(self, connection: Connection) -> None:
        """Act on a link again, unless it is held back for another reason too."""
        is_held = connection in self._stuck or connection in self._adding
        if not connection.full and not is_held:
            self._engine.go_on(connection.link)
            self._soon()

    def pause_if_flooded(self, link: Link) -> None:
        """Stop reading from a link that has more unread than it may."""
        if link.conversation.unread() > self._engine.limits.link_input_bytes:
            self._pause(connection_of(link))

    # -- holding back ---------------------------------------------------------------------------

    def _pause(self, connection: Connection) -> None:
        self._paused[connection] = None
        connection.hold(FLOOD)

    def _pause_floods(self) -> None:
        """Stop reading from links that send faster than their share of turns.

        Nor are they acted on while too many of their answers wait for the disk, or it has enough
        to do: no group may become so large that all links wait for it.
        """
        most = self._engine.limits.output_soft_bytes
        is_enough = self._engine.broker.is_behind()
        for link in self._engine.unfinished():
            self.pause_if_flooded(link)
            connection = connection_of(link)
            if is_enough or (connection.piled_bytes > most and connection.waits_for):
                self._stuck[connection] = None
                self._pause(connection)
                self._engine.put_off(link)

    def _pause_producers(self) -> None:
        """Too much waits for the disk: stop reading from links whose answers do.

        The others go on: a heartbeat needs no disk.
        """
        for link in self._engine.links:
            connection = connection_of(link)
            if connection.waits_for and connection not in self._paused:
                self._pause(connection)

    def _hold_adding(self, link: Link) -> None:
        connection = connection_of(link)
        self._adding[connection] = None
        connection.hold(ADDING)
        self._engine.put_off(link)

    def _look_at_amounts(self) -> None:
        """While there is more than may be, act on one input at a time; then resume all held."""
        self._choose_pace()
        if self._adding and not self._engine.one_by_one:
            held, self._adding = self._adding, {}
            for connection in held:
                connection.release(ADDING)
                self.go_on(connection)

    # -- letting go on --------------------------------------------------------------------------

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
