"""Bugs of the kind that fuzzing is for, planted in this process: a number that is believed, a byte lost at a cut."""

from __future__ import annotations

from typing import Any

from franca.core.events import Granted
from franca.engine.engine import Engine
from franca.protocols.buffer import ByteBuffer
from franca.protocols.conversation import Link
from franca.protocols.gearman import worker_commands as gearman_workers
from franca.protocols.gearman.wire import PacketReader
from franca.protocols.periodic.workers import Worker
from tests.sim.planting import Mutants

PLANTED = Mutants()


@PLANTED.of(ByteBuffer, "feed")
def faktory_loses_a_byte_at_a_cut(feed: Any) -> Any:
    def lose(self: ByteBuffer, data: bytes) -> None:
        feed(self, data[1:] if len(self) > 100 and data.startswith(b"\n") else data)

    return lose


@PLANTED.of(gearman_workers, "number_in")
def gearman_believes_a_number(number_in: Any) -> Any:
    return int


@PLANTED.of(PacketReader, "_wait")
def gearman_forgets_half_a_header(wait: Any) -> Any:
    def forget(self: PacketReader, data: bytes, at: int, needed: int) -> None:
        wait(self, data, at, needed)
        if len(self._part) == 11:
            self._part.clear()

    return forget


@PLANTED.of(Worker, "on_granted")
def periodic_gives_back_what_it_has_no_more(on_granted: Any) -> Any:
    def give_back(self: Worker, event: Granted, now: int) -> None:
        if self.link.closing:
            self.broker.give_back(event.job, self.connection.session.holder, now)
        else:
            on_granted(self, event, now)

    return give_back


@PLANTED.of(Engine, "_read_on")
def periodic_reads_on_before_anybody_is_told(read_on: Any) -> Any:
    return _told_too_late(read_on, "periodic")


@PLANTED.of(Engine, "_read_on")
def eventmq_reads_on_before_anybody_is_told(read_on: Any) -> Any:
    return _told_too_late(read_on, "eventmq")


@PLANTED.of(Engine, "_read_on")
def memodb_reads_on_before_anybody_is_told(read_on: Any) -> Any:
    return _told_too_late(read_on, "memodb")


def _told_too_late(read_on: Any, protocol: str) -> Any:
    def read_on_deaf(self: Any, link: Link, *arguments: Any) -> None:
        if link.protocol != protocol:
            read_on(self, link, *arguments)
            return
        self.deliver = lambda now: None
        read_on(self, link, *arguments)
        del self.deliver
        self.deliver(arguments[0])

    return read_on_deaf
