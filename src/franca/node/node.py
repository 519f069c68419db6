"""The node's turn: gather what came in, let the engine act, commit, then speak.

Nothing that depends on a commit leaves before it. While one group is on its way to the disk the
next one forms: turns go on, and replies that need no disk leave at once. A commit that fails
ends the process; what was not committed was never said.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar, cast

from franca.core.model import Job, JobQuery, Millis
from franca.core.tail import Recall
from franca.engine.engine import Engine
from franca.node.clock import SystemClock
from franca.node.gauges import Gauges
from franca.node.listener import Connection
from franca.protocols.conversation import Link
from franca.store.port import Store

T = TypeVar("T")
Waiter = Callable[[BaseException | None], None]

TICK_S = 0.05
SAMPLE_S = 0.01
PATIENCE_S = 0.005
SLOW_S = 0.010
"""After a commit that took longer than this the writer thread does the waiting, for so many
times as long: a disk that is slow for a moment is soon trusted again, one that is slow is not."""
SLOW_TIMES = 20
URGENT_MS = 1_000
"""For so long after the last job that needs no disk, the next one is expected."""
REST_S = 0.001
SMALL_GROUP = 8
"""While such jobs are expected, a group of more than so many answers is followed by a rest, so that
groups are few and large: each takes time that others then do not have to wait for."""
COMMIT = "commit"
TIDY = "tidy"
INSTANT_EVERY_MS = 20
"""A store that makes nothing durable is told what changed now and then; nobody waits for it."""


class Group:
    """What is said when one commit has made it true."""

    __slots__ = ("number", "released", "said", "waiters")

    def __init__(self, number: int) -> None:
        self.number = number
        self.released = False
        self.said: list[tuple[Connection, bytes | tuple[bytes, ...]]] = []
        self.waiters: list[Waiter] = []


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
        self.turn_set = False
        self.busy = False
        self.hurried = False
        self._gathered: list[tuple[Connection, bytes]] = []
        self._later: asyncio.TimerHandle | None = None
        self._instant = store.instant
        self._tell_at: Millis = 0
        self._failed = False
        self._forming = Group(1)
        self._in_flight = Group(0)
        self._paused: dict[Connection, None] = {}
        self._stuck: dict[Connection, None] = {}
        self._gulped: list[Connection] = []
        self._pending_bytes_max = engine.limits.pending_bytes
        self._hand_over_until: Millis = 0
        self._commits: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_forever, name="writer", daemon=True)
        if not store.instant:
            self._writer.start()
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        self._sampler = self._loop.call_later(SAMPLE_S, self._sample)

    def next_link_id(self) -> str:
        """A name for a link that no other link has, in this run or another."""
        self._links += 1
        return f"{self._boot}-{self._links}"

    # -- turns ------------------------------------------------------------------------------

    def soon(self) -> None:
        """Ask for a turn in this pass of the event loop; one serves all who ask."""
        if not self.turn_set:
            self.turn_set = True
            self._loop.call_soon(self._turn)

    def later(self) -> None:
        """Ask for a turn when the disk is done, and soon in any case."""
        if self._later is None:
            self._later = self._loop.call_later(PATIENCE_S, self._lose_patience)

    def _turn(self) -> None:
        self.turn_set = False
        if self._later is not None and not self._gathered:
            self._later.cancel()
            self._later = None
        if self._failed:
            return
        now = self.clock.now()
        engine = self.engine
        if self.hurried:
            self._hurried_turn(now)
        else:
            engine.turn(now)
            # The group begins before the replies are looked at: the disk is already at work.
            if not self.busy and (not self._instant or now >= self._tell_at or engine.broker.wants):
                self._begin_group(now)
            if engine.speaking:
                self._speak()
        if engine.has_input():
            self._pause_floods()
            self.soon()
        if engine.broker.pending_bytes > self._pending_bytes_max:
            self._pause_producers()
        if self._paused:
            self._resume_quiet()
        if self._gulped:
            self._read_on()

    def _hurried_turn(self, now: Millis) -> None:
        """A turn while somebody waits for jobs that need no disk: these come first.

        Those who wait for the disk anyway are heard when it is free, and the next group begins in
        the pass after that: what is urgent may pass between any two of these steps.
        """
        engine = self.engine
        engine.turn(now)
        if engine.speaking:
            self._speak()
        if self.busy:
            return
        if self._gathered:
            self.take_gathered()
            engine.turn(now)
            if engine.speaking:
                self._speak()
            self.soon()
        else:
            self._begin_group(now)

    def gather(self, connection: Connection, data: bytes) -> None:
        """Keep what a patient peer says until the disk is free."""
        self._gathered.append((connection, data))

    def take_gathered(self) -> None:
        """Act in the next turn on what patient peers have said."""
        inputs = self.engine.inputs
        for connection, data in self._gathered:
            connection.gathers = False
            inputs.append((connection.link, data))
        self._gathered.clear()

    def _lose_patience(self) -> None:
        self._later = None
        self.take_gathered()
        self._turn()

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        self.engine.broker.wall_ahead_ms = self.clock.wall_ahead_ms()
        self.soon()

    def _sample(self) -> None:
        self._sampler = self._loop.call_later(SAMPLE_S, self._sample)
        self.gauges.sample(time.monotonic(), SAMPLE_S)

    # -- speaking -----------------------------------------------------------------------------

    def _speak(self) -> None:
        """Send what needs no disk, and keep the rest for the commit that it needs."""
        speaking = self.engine.speaking
        needed = self._needed_group()
        for link in speaking:
            out = link.out
            connection: Connection = link.carrier  # type: ignore[assignment]
            if out:
                data: bytes | tuple[bytes, ...]
                if len(out) == 1:
                    data = out[0]
                elif link.bulky:
                    data = tuple(out)
                    connection.piled_bytes += sum(map(len, out))
                    link.bulky = False
                else:
                    data = b"".join(out)
                    connection.piled_bytes += len(data)
                out.clear()
                if link.after_commit:
                    link.after_commit = False
                    if needed is not None:
                        needed.said.append((connection, data))
                        connection.waits_for = needed.number
                        connection.patient = True
                        continue
                connection.patient = False
                if connection.waits_for:
                    self._waiting_group(connection).said.append((connection, data))
                else:
                    connection.send(data)
            if link.closing:
                connection.hang_up()
        speaking.clear()

    def _needed_group(self) -> Group | None:
        """The group that makes everything done so far durable; None if all of it is."""
        if self._instant:
            return None
        if self.engine.broker.has_changes():
            return self._forming
        if self.busy and not self._in_flight.released:
            return self._in_flight
        return None

    def _waiting_group(self, connection: Connection) -> Group:
        """The group behind which a connection's words queue."""
        return self._in_flight if connection.waits_for == self._in_flight.number else self._forming

    def _release(self, group: Group) -> None:
        """Everything that waited for this group is true now."""
        group.released = True
        number = group.number
        for connection, data in group.said:
            if connection.waits_for == number:
                connection.waits_for = 0
                connection.piled_bytes = 0
            connection.send(data)
            if connection.link.closing:
                connection.hang_up()
        for waiter in group.waiters:
            waiter(None)
        if self._stuck:
            self._free_stuck()

    # -- committing -----------------------------------------------------------------------------

    def _begin_group(self, now: Millis) -> None:
        """Hand over what has changed; with an instant store, until nothing changes any more."""
        broker = self.engine.broker
        self._tell_at = now + INSTANT_EVERY_MS
        while True:
            if not broker.has_changes() and not broker.wants:
                if self._forming.said or self._forming.waiters:
                    group, self._forming = self._forming, Group(self._forming.number + 1)
                    self._release(group)
                return
            self._in_flight, self._forming = self._forming, Group(self._forming.number + 1)
            self.busy = True
            try:
                self._write(now)
            except Exception as error:
                self._fail(error)
                return
            if not self._instant and self._hands_over(now):
                self._commits.put(COMMIT)
                return
            if not self._commit_here(now):
                return

    def _hands_over(self, now: Millis) -> bool:
        """Whether the disk is slow, or somebody waits for jobs that need no disk."""
        self.hurried = now - self.engine.broker.fleeting_at < URGENT_MS
        return self.hurried or not self.store.quick or now < self._hand_over_until

    def _commit_here(self, now: Millis) -> bool:
        """Wait for the disk on this thread; False if the store is not free again after it.

        A good disk answers in less time than two threads need to hand over to each other and
        to share the interpreter; what comes in meanwhile is read in one go. One slow answer,
        and for a while the writer thread does the waiting.
        """
        began = time.monotonic()
        try:
            self.store.commit()
        except Exception as error:
            self._fail(error)
            return False
        self._judge(time.monotonic() - began)
        self.gauges.commits += 1
        self._release(self._in_flight)
        if self.store.wants_tidying():
            self._commits.put(TIDY)
            return False
        self.busy = False
        return True

    def _judge(self, took_s: float) -> None:
        if took_s > SLOW_S:
            self._hand_over_until = self.clock.now() + int(took_s * 1000) * SLOW_TIMES

    def _write(self, now: Millis) -> None:
        broker = self.engine.broker
        changes = broker.drain()
        wants = broker.take_wants()
        supplied = self.store.write(changes, wants)
        for want, jobs in zip(wants, supplied, strict=True):
            self.engine.supplied(want, jobs, now)
        if self.engine.speaking:
            self._speak()

    def _write_forever(self) -> None:
        """The writer thread: waits for the disk so that nobody else has to."""
        while task := self._commits.get():
            error: BaseException | None = None
            tidy = task == TIDY
            if task == COMMIT:
                began = time.monotonic()
                try:
                    self.store.commit()
                    tidy = self.store.wants_tidying()
                except BaseException as failure:
                    error = failure
                self._call(self._committed, error, tidy, time.monotonic() - began)
            if tidy:
                try:
                    self.store.tidy()
                except BaseException as failure:
                    error = failure
                self._call(self._tidied, error)

    def _call(self, act: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(act, *arguments)
        except RuntimeError:
            return  # the loop is closed: nobody is left to be told

    def _committed(self, error: BaseException | None, tidying: bool, took_s: float) -> None:
        if error is not None:
            self._fail(error)
            return
        self._judge(took_s)
        self.gauges.commits += 1
        self._release(self._in_flight)
        if not tidying:
            self._tidied(None)

    def _tidied(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
            return
        if not self.hurried:
            self.busy = False
            self._turn()
        elif len(self._in_flight.said) > SMALL_GROUP:
            self._loop.call_later(REST_S, self._rested)
        else:
            self._rested()

    def _rested(self) -> None:
        self.busy = False
        self.soon()

    def _fail(self, error: BaseException) -> None:
        """The store failed: say nothing more to anybody."""
        if not self._failed:
            self._failed = True
            for link in list(self.engine.links):
                cast(Connection, link.carrier).abort()
            for group in (self._in_flight, self._forming):
                for waiter in group.waiters:
                    waiter(error)
            for want in self.engine.broker.wants:
                if isinstance(want, Recall) and isinstance(want.by, _Recaller):
                    want.by.fail(error)
            self._on_failure(error)

    # -- for operators --------------------------------------------------------------------------

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        """Run `act` between two turns; its result comes when what it changed is durable."""
        future: asyncio.Future[T] = self._loop.create_future()
        now = self.clock.now()
        result = act(self.engine, now)
        self.engine.deliver(now)
        self._settle(future, result)
        self.soon()
        return await future

    async def recall(self, query: JobQuery, act: Callable[[list[Job], Millis], T]) -> T:
        """Have jobs brought from wherever they lie, act on them, and make that durable."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(jobs: list[Job], now: Millis) -> None:
            self._settle(future, act(jobs, now))

        self.engine.broker.recall(query, _Recaller(settle, future.set_exception))
        self.soon()
        return await future

    def _settle(self, future: asyncio.Future[T], result: T) -> None:
        def settle(error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self._forming.waiters.append(settle)
        self._tell_at = 0

    async def find(self, query: JobQuery) -> list[Job]:
        """Search the store on another thread; only what is committed is found."""
        if self._instant:
            self._begin_group(self.clock.now())
        return await self._loop.run_in_executor(None, self.store.find, query)

    # -- back-pressure ----------------------------------------------------------------------------

    def _pause_floods(self) -> None:
        """Stop reading from those who send faster than their share of turns.

        Nor is more of it acted on while the disk keeps too many of their answers waiting.
        """
        most = self.engine.limits.output_soft_bytes
        for link in self.engine.unfinished():
            self.pause_if_flooded(link)
            connection = cast(Connection, link.carrier)
            if connection.piled_bytes > most and connection.waits_for:
                self._stuck[connection] = None
                self._pause(connection)
                self.engine.hold_back(link)

    def _free_stuck(self) -> None:
        """Act again on what those sent whose answers have left."""
        for connection in list(self._stuck):
            if connection.link.closed or not connection.waits_for:
                del self._stuck[connection]
                self.go_on(connection)

    def go_on(self, connection: Connection) -> None:
        """A peer may be acted on again, unless it is held back for the other reason too."""
        if not connection.full and connection not in self._stuck:
            self.engine.go_on(connection.link)
            self.soon()

    def _pause_producers(self) -> None:
        """Too much waits for the disk: read nothing more from those whose words do.

        The others may speak: a heartbeat needs no disk.
        """
        for link in self.engine.links:
            connection = cast(Connection, link.carrier)
            if connection.waits_for and connection not in self._paused:
                self._pause(connection)

    def let_others_speak(self, connection: Connection) -> None:
        """Read no more from a peer before everybody else has been heard."""
        self._gulped.append(connection)
        connection.pause_reading()

    def _read_on(self) -> None:
        gulped, self._gulped = self._gulped, []
        for connection in gulped:
            connection.breathe()
            if connection not in self._paused:
                connection.resume_reading()

    def pause_if_flooded(self, link: Link) -> None:
        """Stop reading from a peer that has more unread than it may."""
        conversation = link.conversation
        if conversation.unread() > self.engine.limits.link_input_bytes:
            self._pause(cast(Connection, link.carrier))

    def _pause(self, connection: Connection) -> None:
        self._paused[connection] = None
        connection.pause_reading()

    def _resume_quiet(self) -> None:
        limits = self.engine.limits
        if self.engine.broker.pending_bytes > limits.pending_bytes:
            return
        for connection in list(self._paused):
            link = connection.link
            quiet = link.conversation.unread() <= limits.link_input_bytes // 2
            # The rest of a message that has only begun must be read, however long it is.
            if link.closed or quiet or not self.engine.waits_to_act(link):
                del self._paused[connection]
                connection.resume_reading()

    # -- the end ----------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until everything said so far is durable and sent."""
        await self.ask(lambda engine, now: None)

    def close(self) -> None:
        """Stop turning. The store is the caller's to close, after this."""
        self._ticker.cancel()
        self._sampler.cancel()
        self._failed = True
        if self._writer.is_alive():
            self._commits.put("")
            self._writer.join(timeout=30)


class _Recaller:
    """Takes recalled jobs for an operator."""

    def __init__(
        self, act: Callable[[list[Job], Millis], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._act = act
        self.fail = fail

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        """Act on the jobs; a mistake in the asking reaches whoever asked."""
        try:
            self._act(jobs, now)
        except Exception as error:
            self.fail(error)
