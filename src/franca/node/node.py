"""The node's turn: gather what came in, let the engine act, commit, then speak.

Nothing that depends on a commit leaves before it. While one group is on its way to the disk the
next one forms, and replies that need no disk leave at once. A commit that fails ends the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from franca.core.model import Millis
from franca.core.wants import Recall
from franca.engine.engine import Engine
from franca.node.clock import SystemClock
from franca.node.connection import Connection, connection_of
from franca.node.gauges import TICK_S, Gauges, Ticker
from franca.node.group import LONG_GROUP_BYTES, URGENT_MS, Gathering, Group, Recaller, Waiter
from franca.node.input import Input
from franca.node.notices import NoticeLog
from franca.node.output import Output, joined, size_of
from franca.node.pressure import Pressure
from franca.node.sockets import Lingering
from franca.node.writer import Disk, Writer
from franca.store.port import Store

IDLE_S = 0.5
"""The longest sleep of a server that has no peers and nothing to do. A clock that is set, so that
jobs are due, is noticed after it."""
GATHER_S = 0.005
INSTANT_EVERY_MS = 20  # a store that makes nothing durable is told now and then what changed
REST_S = 0.001
SMALL_GROUP = 8
"""While such jobs are expected, a group of more than so many answers is followed by a rest, so that
groups are few and large: each takes time that others then do not have to wait for."""


class Node:
    """One engine, one store, and the connections between them and the world."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        clock: SystemClock,
        *,
        boot: str,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.engine = engine
        self.store = store
        self.clock = clock
        self.gauges = Gauges()
        self._boot = boot
        self._links = 0
        self._loop = asyncio.get_running_loop()
        self._on_failure = on_failure
        self.turn_set = self.busy = self.is_urgent = self._is_idle = False
        self.gathered: list[tuple[Connection, bytes]] = []
        self._later: asyncio.TimerHandle | None = None
        self._instant = store.instant
        self._tell_at: Millis = 0
        self._gathering = Gathering()
        self._wants_waited = self._failed = False
        self._forming = Group(1)
        self._in_flight = Group(0)
        self.output = Output(engine.limits, clock.now, self._loop.call_soon)
        self.pressure = Pressure(engine, self.output, self.soon, self._send_output)
        self.input = Input(engine, self.output, self._gathered_bytes)
        self.notices = NoticeLog()
        self.disk = Disk()
        self._writer = None if store.instant else Writer(store, self, self._loop)
        self.lingering = Lingering(self._loop)
        self._ticker = Ticker(self._loop, self._tick, self.gauges)

    def next_link_id(self) -> str:
        """A name for a link that no other link has, in this run or another."""
        self._links += 1
        return f"{self._boot}-{self._links}"

    # -- turns ------------------------------------------------------------------------------

    def soon(self) -> None:
        """Ask for a turn in this pass of the event loop; one serves all who ask."""
        if not self.turn_set:
            self.turn_set = True
            self._is_idle = False
            self._ticker.wake()
            self._loop.call_soon(self._turn)

    def later(self) -> None:
        """Ask for a turn when the disk is done, and soon in any case."""
        if self._later is None:
            self._later = self._loop.call_later(GATHER_S, self._take_gathered_now)

    def _turn_now(self) -> None:
        """Take a turn, unless one is about to begin: a second would ask for others without end."""
        if not self.turn_set:
            self._turn()

    def _turn(self) -> None:
        self.turn_set = False
        if self._later is not None and not self.gathered:
            self._later.cancel()
            self._later = None
        if self._failed:
            return
        now = self.clock.now()
        engine = self.engine
        if self.is_urgent:
            self._urgent_turn(now)
        else:
            is_heard = bool(engine.inputs)
            engine.turn(now)
            if not self.busy:
                self._begin_or_gather(now, is_heard)
            if engine.with_output:
                self._send_output()
        self.pressure.after_turn()
        if self.busy and self._writer is not None:
            self._writer.give_way()
        if self.input.room < 0:
            self.input.look(now)
        if engine.notices:
            self.notices.tell(engine.notices, now)

    def _urgent_turn(self, now: Millis) -> None:
        """A turn while somebody waits for jobs that need no disk: these come first.

        Those who wait for the disk anyway are heard when it is free, and the next group begins in
        the pass after that: what is urgent may pass between any two of these steps.
        """
        engine = self.engine
        engine.turn(now)
        if engine.with_output:
            self._send_output()
        if self.busy:
            return
        if self.gathered:
            self.take_gathered()
            engine.turn(now)
            if engine.with_output:
                self._send_output()
            self.soon()
        else:
            self._begin_group(now)

    def _gathered_bytes(self) -> int:
        return self.engine.waiting_bytes() + sum(len(data) for _, data in self.gathered)

    def take_gathered(self) -> None:
        """Act in the next turn on what peers have said that wait for the disk."""
        inputs = self.engine.inputs
        for connection, data in self.gathered:
            connection.is_gathering = False
            inputs.append((connection.link, data))
        self.gathered.clear()

    def _take_gathered_now(self) -> None:
        self._later = None
        self.take_gathered()
        self._turn_now()

    def _tick(self) -> float:
        """Look at the time; returns when to look next. A server with nothing to do sleeps."""
        was_idle, self._is_idle = self._is_idle, True
        commits = self.gauges.commits
        self.engine.broker.wall_ahead_ms = self.clock.wall_ahead_ms()
        self.output.look(self.input.is_waited_for or self.pressure.is_waited_for)
        self.input.tick()
        self._tidy_leftovers()
        self._turn_now()
        is_at_work = self.engine.links or self.busy or self.output.total
        if is_at_work or self.gauges.commits > commits or not (was_idle and self._is_idle):
            return TICK_S
        due_at = self.engine.broker.next_wake()
        if due_at is None:
            return IDLE_S
        wake_s = (max(due_at, self.engine.next_wake()) - self.clock.now()) / 1000
        return min(max(wake_s, TICK_S), IDLE_S)

    # -- output ---------------------------------------------------------------------------

    def _send_output(self) -> None:
        """Send what needs no disk, and keep the rest for the commit that it needs."""
        needed = self._needed_group()
        number, wait = (0, None) if needed is None else (needed.number, needed.output.append)
        waits = 0
        for link in self.engine.with_output:
            out = link.out
            connection: Connection = link.carrier
            if out:
                data: bytes | tuple[bytes, ...] = out[0]
                if len(out) > 1:
                    data = joined(out, link.in_pieces)
                    link.in_pieces = False
                    link.counted = 0
                out.clear()
                if link.after_commit:
                    link.after_commit = False
                    if wait is not None:
                        wait((connection, data))
                        size = len(data) if data.__class__ is bytes else size_of(data)
                        waits += size
                        connection.piled_bytes += size
                        connection.waits_for = number
                        connection.needs_disk = True
                        continue
                connection.needs_disk = False
                if connection.waits_for:
                    in_flight = connection.waits_for == self._in_flight.number
                    (self._in_flight if in_flight else self._forming).put(connection, data)
                    self.output.total += size_of(data)
                else:
                    connection.send(data)
            if link.closing:
                if link.broken:
                    connection.abort()
                else:
                    connection.hang_up()
        self.engine.with_output.clear()
        if waits and needed is not None:
            needed.size += waits
            self.output.total += waits

    def _needed_group(self) -> Group | None:
        """The group that makes everything done so far durable; None if all of it is."""
        if self._instant:
            return None
        if self.engine.broker.has_changes():
            return self._forming
        if self.busy and not self._in_flight.released:
            return self._in_flight
        return None

    def _release(self, group: Group) -> None:
        """Everything that waited for this group is true now."""
        self.output.total -= group.size
        group.release()
        self.pressure.after_commit()

    # -- committing -----------------------------------------------------------------------------

    def _begin_or_gather(self, now: Millis, is_heard: bool) -> None:
        """Begin a group before the replies are looked at: the disk is at work while they are."""
        broker = self.engine.broker
        if self._instant:
            if now >= self._tell_at or broker.has_wants():
                self._begin_group(now)
        elif is_heard and broker.has_changes() and self._gathering.goes_on(now):
            self.soon()
        else:
            self._begin_group(now)

    def _begin_group(self, now: Millis) -> None:
        """Hand over what has changed. What follows from it is for the next pass of the loop."""
        broker = self.engine.broker
        self._gathering.end()
        self._tell_at = now + INSTANT_EVERY_MS
        broker.backlog.wants.hold_supplies = self.output.is_over
        if not broker.has_changes() and not broker.has_wants():
            if self._forming.output or self._forming.waiters:
                group, self._forming = self._forming, Group(self._forming.number + 1)
                self._release(group)
            return
        self._in_flight, self._forming = self._forming, Group(self._forming.number + 1)
        self.busy = True
        try:
            self._write(now)
        except Exception as error:
            self.fail(error)
            return
        if self._writer is not None and (self._hands_over(now) or self._in_flight.is_long):
            self._writer.commit()
        elif self._commit_here(now):
            forming = self._forming
            if forming.output or forming.waiters or broker.has_changes() or broker.has_wants():
                self.soon()

    def _tidy_leftovers(self) -> None:
        if self._writer is not None and not self.busy:
            try:
                self.busy = self.store.has_leftovers()
            except Exception as error:
                self.fail(error)
            if self.busy:
                self._writer.tidy()

    def _hands_over(self, now: Millis) -> bool:
        """Whether the disk is slow, or somebody waits for jobs that need no disk."""
        self.is_urgent = now - self.engine.broker.volatile.last_at < URGENT_MS
        return self.is_urgent or not self.store.quick or self.disk.is_slow(now)

    def _commit_here(self, now: Millis) -> bool:
        """Wait for the disk on this thread; False if the store is not free again after it.

        A good disk answers in less time than two threads need to hand over to each other and
        to share the interpreter; what comes in meanwhile is read in one go. One slow answer,
        and for a while the writer thread does the waiting.
        """
        began = time.monotonic()
        try:
            self.store.commit()
            ended = time.monotonic()
            self.disk.judge(ended - began, now)
            untidy = self.store.wants_tidying()
        except Exception as error:
            self.fail(error)
            return False
        self.gauges.committed(ended - began, ended)
        self._release(self._in_flight)
        if self._writer is not None and untidy:
            self._writer.tidy()
            return False
        self.busy = False
        return True

    def _write(self, now: Millis) -> None:
        broker = self.engine.broker
        self._in_flight.is_long = broker.pending_bytes > LONG_GROUP_BYTES
        self.gauges.group_jobs.add(broker.pending_jobs)
        changes = broker.drain()
        if self._in_flight.is_long and self._writer is not None and not self._wants_waited:
            self._wants_waited = broker.has_wants()  # they are read behind the next group
            self.store.prepare(changes)
            return
        self._wants_waited = False
        wants = broker.take_wants()
        supplied = self.store.write(changes, wants)
        for want, jobs in zip(wants, supplied, strict=False):
            self.engine.supplied(want, jobs, now)
        if len(supplied) < len(wants):
            broker.want_again(wants[len(supplied) :])
        if self.engine.with_output:
            self._send_output()

    def committed(self, error: BaseException | None, tidying: bool, took_s: float) -> None:
        """The writer is done with a group."""
        if error is not None:
            self.fail(error)
            return
        if not self._in_flight.is_long:
            self.disk.judge(took_s, self.clock.now())
        self.gauges.committed(took_s, time.monotonic())
        self._release(self._in_flight)
        if not tidying:
            self.tidied(None)

    def tidied(self, error: BaseException | None) -> None:
        """The store is free for the next group."""
        if error is not None:
            self.fail(error)
            return
        if not self.is_urgent:
            self.busy = False
            self._turn_now()
        elif len(self._in_flight.output) > SMALL_GROUP:
            self._loop.call_later(REST_S, self._rested)
        else:
            self._rested()

    def _rested(self) -> None:
        self.busy = False
        self.soon()

    def fail(self, error: BaseException) -> None:
        """The store failed, or something that nobody expected: say nothing more to anybody."""
        if not self._failed:
            self._failed = True
            for link in list(self.engine.links):
                connection_of(link).abort()
            for group in (self._in_flight, self._forming):
                for waiter in group.waiters:
                    waiter(error)
            for want in self.engine.broker.wants:
                if isinstance(want, Recall) and isinstance(want.by, Recaller):
                    want.by.fail(error)
            self._on_failure(error)

    def when_durable(self, waiter: Waiter) -> None:
        """Tell `waiter` when all that has happened so far is durable, or that it never will be."""
        self._forming.waiters.append(waiter)
        self._tell_at = 0
        self.soon()

    def write_now(self) -> None:
        """Hand over what has changed to a store that makes nothing durable."""
        if self._instant:
            self._begin_group(self.clock.now())

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop turning. The store is the caller's to close, after this."""
        self._ticker.cancel()
        self._failed = True
        if self._writer is not None:
            self._writer.close()
