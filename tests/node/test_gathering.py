"""A group waits a moment for those who speak one after the other."""

from __future__ import annotations

import asyncio

from franca.core.model import Millis
from franca.node.clock import SystemClock
from franca.node.group import GATHERING_MS, GATHERING_PASSES, Gathering
from tests.node.stage import asynchronous, stage


class StillClock(SystemClock):
    """No time passes, however long the machine stands still."""

    def now(self) -> Millis:
        return 1_000


def test_a_group_waits_for_a_few_passes_and_not_longer() -> None:
    gathering = Gathering()
    for _ in range(2):
        assert all(gathering.goes_on(1_000) for _ in range(GATHERING_PASSES))
        assert not gathering.goes_on(1_000)
        gathering.end()


def test_a_group_waits_for_a_few_milliseconds_and_not_longer() -> None:
    gathering = Gathering()
    assert gathering.goes_on(1_000)
    assert gathering.goes_on(1_000 + GATHERING_MS)
    assert not gathering.goes_on(1_001 + GATHERING_MS)
    gathering.end()
    assert gathering.goes_on(2_000), "each group has a time of its own"


@asynchronous
async def test_those_who_speak_one_pass_after_the_other_share_a_group() -> None:
    with stage() as s:
        first, second = s.guest(), s.guest()
        s.node.clock = StillClock()
        first.says("push a")
        await asyncio.sleep(0)
        assert s.broker.totals.pushed == 1
        assert not s.node.busy
        second.says("push b")
        await s.reaches("commit")
        assert s.broker.totals.pushed == 2
        await s.ends()
        await first.hears("pushed a;")
        await second.hears("pushed b;")


@asynchronous
async def test_a_group_begins_in_the_first_pass_that_brings_nothing() -> None:
    with stage() as s:
        guest = s.guest()
        s.node.clock = StillClock()
        guest.says("push a")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert s.node.busy


@asynchronous
async def test_what_needs_no_disk_does_not_wait_for_a_group() -> None:
    with stage() as s:
        writer, other = s.guest(), s.guest()
        s.node.clock = StillClock()
        writer.says("push a")
        other.says("ping")
        await asyncio.sleep(0)
        assert not s.node.busy
        assert other.heard == "pong;"
