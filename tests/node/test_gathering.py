"""A group waits a moment for those who speak one after the other; a long one has a thread."""

import asyncio

import pytest

from franca.core.changes import Changes
from franca.core.model import Job, JobQuery, Millis
from franca.node.clock import SystemClock
from franca.node.group import GATHERING_MS, GATHERING_PASSES, LONG_GROUP_BYTES, Gathering
from tests.node.fixtures import NodeFixture


class StillClock(SystemClock):
    """No time passes, however long the machine stands still."""

    def now(self) -> Millis:
        return 1_000


class Answered:
    """Whoever asks the store for jobs, and notes that it was answered."""

    def __init__(self, answers: list[object]) -> None:
        self._answers = answers

    def recalled(self, query: JobQuery, jobs: list[Job], now: Millis) -> None:
        self._answers.append(query)


def test_a_group_waits_for_a_few_passes_and_not_longer() -> None:
    gathering = Gathering()
    for _ in range(2):
        assert all(gathering.goes_on(1_000) for _ in range(GATHERING_PASSES))
        assert not gathering.goes_on(1_000)
        gathering.end()


def test_a_group_waits_for_a_few_milliseconds_and_not_longer() -> None:
    gathering = Gathering()
    assert (gathering.goes_on(1_000), gathering.goes_on(1_000 + GATHERING_MS)) == (True, True)
    assert not gathering.goes_on(1_001 + GATHERING_MS)
    gathering.end()
    assert gathering.goes_on(2_000), "each group has a time of its own"


async def test_those_who_speak_one_pass_after_the_other_share_a_group(s: NodeFixture) -> None:
    first, second = s.guest(), s.guest()
    s.node.clock = StillClock()
    first.says("push a")
    await asyncio.sleep(0)
    assert (s.broker.totals.pushed, s.node.busy) == (1, False)
    second.says("push b")
    await s.reaches("commit")
    assert s.broker.totals.pushed == 2
    await s.ends()
    await first.hears("pushed a;")
    await second.hears("pushed b;")


async def test_a_group_begins_in_the_first_pass_that_brings_nothing(s: NodeFixture) -> None:
    guest = s.guest()
    s.node.clock = StillClock()
    guest.says("push a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert s.node.busy


async def test_what_needs_no_disk_does_not_wait_for_a_group(s: NodeFixture) -> None:
    writer, other = s.guest(), s.guest()
    s.node.clock = StillClock()
    writer.says("push a")
    other.says("ping")
    await asyncio.sleep(0)
    assert (s.node.busy, other.heard) == (False, "pong;")


async def test_a_long_group_is_written_where_nobody_waits_for_it() -> None:
    with NodeFixture(quick=True) as s, pytest.MonkeyPatch.context() as patch:
        prepared: list[int] = []
        patch.setattr(s.store, "prepare", lambda changes: prepared.append(len(changes.added)))
        patch.setattr(s.store, "write", lambda changes, wants: pytest.fail("on this thread"))
        writer, other = s.guest(), s.guest()
        writer.says("push " + "x" * (LONG_GROUP_BYTES + 1))
        await s.reaches("commit")
        assert prepared == [1]
        await other.asks("ping", hears="pong;")
        assert writer.heard == ""
        await s.ends()
        await s.until(lambda: writer.heard.startswith("pushed x"))
        assert not s.node.disk.is_slow(s.node.clock.now()), "it is the group that was long"


async def test_what_is_wanted_is_read_behind_the_group_after_a_long_one() -> None:
    with NodeFixture(quick=True) as s:
        writer = s.guest()
        answered: list[object] = []
        s.node.clock = StillClock()
        writer.says("push " + "x" * (LONG_GROUP_BYTES + 1))
        s.broker.recall(JobQuery(names=("nobody",)), Answered(answered))
        await s.reaches("commit")
        assert answered == []
        await s.ends()
        await s.commits()
        await s.until(lambda: bool(answered))


async def test_and_that_group_is_not_put_off_however_long_it_is() -> None:
    with NodeFixture(quick=True) as s, pytest.MonkeyPatch.context() as patch:
        writers = [s.guest() for _ in range(2)]
        answered: list[object] = []
        prepared: list[Changes] = []
        patch.setattr(s.store, "prepare", prepared.append)
        writers[0].says("push " + "x" * (LONG_GROUP_BYTES + 1))
        s.broker.recall(JobQuery(names=("nobody",)), Answered(answered))
        await s.reaches("commit")
        writers[1].says("push " + "x" * (LONG_GROUP_BYTES + 1))
        await s.turns()
        assert s.broker.pending_bytes > LONG_GROUP_BYTES
        await s.ends()
        await s.reaches("commit")
        assert len(prepared) == 1
        assert answered
