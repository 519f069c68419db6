"""Sockets whose peers have not received the last output are kept, but few of them and not for long."""

import asyncio
from collections.abc import Callable
from typing import cast

from franca.node.sockets import CHECK_S, LINGER_S, LINGERING_MAX, Lingering
from tests.node.fixtures import Wire


class Timers:
    """The time, and what is to be called later; stands in for the event loop."""

    def __init__(self) -> None:
        self.now = 1.0
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> None:
        self._calls.append((self.now + delay, call))

    def pass_s(self, seconds: float) -> None:
        """Call in order what is due until then."""
        end = self.now + seconds
        while self._calls and self._calls[0][0] <= end:
            self.now, call = self._calls.pop(0)
            call()
        self.now = end


def lingering(timers: Timers, *unsent: bytes) -> tuple[Lingering, list[Wire]]:
    """Sockets that were added in this order, each with so much that has not arrived."""
    sockets = Lingering(cast(asyncio.AbstractEventLoop, timers))
    wires = [Wire() for _ in unsent]
    for wire, data in zip(wires, unsent, strict=True):
        wire.unsent = data
        sockets.add(wire)
    return sockets, wires


def test_a_socket_is_closed_when_its_output_has_arrived() -> None:
    timers = Timers()
    _, [slow, quick] = lingering(timers, b"x", b"x")
    timers.pass_s(LINGER_S / 2)
    assert (slow.closed, quick.closed) == ("", "")
    quick.unsent = b""
    timers.pass_s(2 * CHECK_S)
    assert (slow.closed, quick.closed) == ("", "aborted")


def test_a_socket_whose_peer_receives_nothing_is_closed_after_a_while() -> None:
    timers = Timers()
    _, [stuck, slow] = lingering(timers, b"x", b"x" * 9)
    for _ in range(4):
        timers.pass_s(LINGER_S / 2)
        slow.unsent = slow.unsent[1:]
    assert (stuck.closed, slow.closed) == ("aborted", "")


def test_of_too_many_the_oldest_is_closed() -> None:
    sockets, wires = lingering(Timers(), *[b"x"] * LINGERING_MAX)
    late = Wire()
    sockets.add(late)
    assert [wire.closed for wire in (*wires[:2], late)] == ["aborted", "", ""]
