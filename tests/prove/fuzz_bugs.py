"""Bugs of the kind that fuzzing is for, planted in this process: a number that is believed, a byte lost at a cut."""

from __future__ import annotations

from typing import Any

from franca.core.events import Granted
from franca.engine.engine import Engine
from franca.protocols.buffer import ByteBuffer
from franca.protocols.conversation import Link
from franca.protocols.gearman import workers as gearman_workers
from franca.protocols.gearman.conversation import GearmanConversation
from franca.protocols.periodic.working import Working
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


@PLANTED.of(GearmanConversation, "receive")
def gearman_forgets_half_a_header(receive: Any) -> Any:
    def forget(self: GearmanConversation, data: bytes, now: int) -> bool:
        left: bool = receive(self, data, now)
        if len(self._unread) == 11:
            self._unread.clear()
        return left

    return forget


@PLANTED.of(Working, "say_granted")
def periodic_gives_back_what_it_has_no_more(say_granted: Any) -> Any:
    def give_back(self: Working, event: Granted, now: int) -> None:
        if self.link.closing:
            self.broker.give_back(event.job, self.session.holder, now)
        else:
            say_granted(self, event, now)

    return give_back


@PLANTED.of(Engine, "open_link")
def periodic_reads_on_before_anybody_is_told(open_link: Any) -> Any:
    return _told_too_late(open_link)


@PLANTED.of(Engine, "open_link")
def eventmq_reads_on_before_anybody_is_told(open_link: Any) -> Any:
    return _told_too_late(open_link)


@PLANTED.of(Engine, "open_link")
def memodb_reads_on_before_anybody_is_told(open_link: Any) -> Any:
    return _told_too_late(open_link)


def _told_too_late(open_link: Any) -> Any:
    def open_deaf(self: Engine, *arguments: Any) -> Link:
        link: Link = open_link(self, *arguments)
        link.deliver = lambda now: None
        return link

    return open_deaf
