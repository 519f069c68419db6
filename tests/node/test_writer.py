"""The event loop lets the writer's thread have the interpreter, however busy it is."""

import asyncio
from types import SimpleNamespace

import pytest

from franca.node import writer
from franca.node.writer import GIVE_WAY_EVERY_S, GIVE_WAY_S, Writer
from tests.node.fixtures import NodeFixture, SlowStore


class Time:
    """A clock that tests set, and how long was slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        fake = SimpleNamespace(monotonic=lambda: self.now, sleep=self.slept.append)
        monkeypatch.setattr(writer, "time", fake)


async def test_the_loop_gives_way_during_a_long_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(monkeypatch)
    with NodeFixture() as s:
        disk = Writer(SlowStore(), s.node, asyncio.get_running_loop())
        disk.commit()
        disk.give_way()
        assert time.slept == [], "a commit that is quick needs nobody to wait for it"
        time.now += GIVE_WAY_EVERY_S
        disk.give_way()
        disk.give_way()
        assert time.slept == [GIVE_WAY_S]
        time.now += GIVE_WAY_EVERY_S
        disk.give_way()
        assert time.slept == [GIVE_WAY_S, GIVE_WAY_S]


async def test_turns_give_way_while_the_writer_works(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[None] = []
    monkeypatch.setattr(Writer, "give_way", lambda self: given.append(None))
    with NodeFixture() as s:
        other = s.guest()
        await other.asks("ping", hears="pong;")
        assert not given
        await s.writer("push a")
        before = len(given)
        await other.asks("ping", hears="pong;pong;")
        assert len(given) > before
        await s.ends()
