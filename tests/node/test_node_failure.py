"""After the store has failed a node says nothing more to anybody."""

from __future__ import annotations

import asyncio

import pytest

from franca.core.model import JobQuery
from tests.node.stage import BROKEN, SlowStore, asynchronous, stage


@asynchronous
async def test_after_a_commit_that_failed_nothing_is_said_to_anybody() -> None:
    with stage() as s:
        first, second, third = await s.writer("push a", "ping"), s.guest(), s.guest()
        second.says("push b")
        await s.turns()
        await s.ends(BROKEN)
        third.says("ping")
        await s.turns()
        assert [guest.heard for guest in (first, second, third)] == ["", "", ""]
        assert {guest.wire.closed for guest in (first, second, third)} == {"aborted"}
        assert s.failures == [BROKEN]


@asynchronous
async def test_after_a_write_that_failed_nothing_is_said_to_anybody() -> None:
    with stage() as s:
        assert isinstance(s.store, SlowStore)
        s.store.write_error = BROKEN
        guest, other = s.guest(), s.guest()
        guest.says("push a")
        await s.until(lambda: bool(s.failures))
        other.says("ping")
        await s.turns()
        assert (guest.heard, other.heard, s.failures) == ("", "", [BROKEN])


@asynchronous
async def test_tidying_up_that_failed_ends_it_too() -> None:
    with stage() as s:
        assert isinstance(s.store, SlowStore)
        s.store.untidy = True
        guest, other = await s.writer("push a"), s.guest()
        await s.ends()
        await guest.hears("pushed a;")
        await s.reaches("tidy")
        other.says("push b")
        await s.turns()
        await s.ends(BROKEN)
        await s.turns()
        assert (other.heard, s.failures) == ("", [BROKEN])


@pytest.mark.parametrize("asked", ["ask", "recall"])
def test_an_operator_who_waits_for_a_commit_that_fails_is_told(asked: str) -> None:
    @asynchronous
    async def play() -> None:
        with stage() as s:
            await s.writer("push a")
            if asked == "ask":
                answer = asyncio.create_task(s.operators.ask(lambda engine, now: 7))
            else:
                answer = asyncio.create_task(s.operators.recall(JobQuery(), lambda jobs, now: 7))
            await s.turns()
            await s.ends(BROKEN)
            done, _ = await asyncio.wait([answer], timeout=1)
            assert done
            assert answer.exception() is not None

    play()
