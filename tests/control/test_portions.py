"""An act on very many jobs goes in portions: nobody else has to wait for all of it."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from franca.control.operations import answer
from franca.core.model import Job, JobQuery, Millis, State
from franca.engine.engine import Engine
from tests.control.kit import FakeNode

T = TypeVar("T")
MANY = 95
PORTION = 10


class Watched(FakeNode):
    """A server that notes how many jobs changed in each turn."""

    def __init__(self, **limits: int) -> None:
        super().__init__(supply_jobs=PORTION, **limits)
        self.portions: list[int] = []

    async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
        def counted(engine: Engine, now: Millis) -> T:
            result = act(engine, now)
            self.portions.append(engine.broker.pending_jobs)
            return result

        return await super().ask(counted)

    async def recall(self, query: JobQuery, act: Callable[[list[Job], Millis], T]) -> T:
        def counted(jobs: list[Job], now: Millis) -> T:
            self.portions.append(len(jobs))
            return act(jobs, now)

        return await super().recall(query, counted)


def namesakes(node: FakeNode, count: int = MANY) -> list[Job]:
    return [node.submit(name="same") for _ in range(count)]


@pytest.mark.parametrize("window", [1_000, 40, 1], ids=["in memory", "in both", "in the store"])
@pytest.mark.parametrize(
    ("op", "state"),
    [("jobs.cancel", State.CANCELLED), ("jobs.delete", State.CANCELLED), ("jobs.kill", State.DEAD)],
)
def test_all_jobs_of_one_name_are_acted_on_some_in_each_turn(
    op: str, state: State, window: int
) -> None:
    node = Watched(window_jobs=window)
    namesakes(node)
    other = node.submit(name="other")
    node.portions.clear()
    assert node.do(op, jobs=["same"]) == {"count": MANY, "missing": [], "skipped": []}
    assert max(node.portions) <= PORTION
    left = node.store.find(JobQuery(states=(State.READY,), limit=999))
    assert [job.id for job in left] == [other.id]
    assert len(node.store.find(JobQuery(states=(state,), limit=999))) == MANY


def test_jobs_that_get_the_name_meanwhile_are_left() -> None:
    class Producing(Watched):
        async def ask(self, act: Callable[[Engine, Millis], T]) -> T:
            result = await super().ask(act)
            self.submit(name="same")
            return result

    node = Producing()
    namesakes(node, 25)
    assert node.do("jobs.cancel", jobs=["same"])["count"] == 25


def test_the_state_of_many_that_cannot_be_acted_on_is_told_by_one_of_them() -> None:
    node = Watched()
    namesakes(node)
    told = node.do("jobs.retry", jobs=["same", "nobody"])
    assert told["missing"] == ["nobody"]
    assert told["skipped"] == [{"job": "same", "state": "ready", "reason": "it is ready"}]


def test_more_jobs_of_one_name_than_a_request_may_name_are_all_acted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("franca.control.jobs.NAMES_MAX", 7)
    node = Watched(window_jobs=1)
    namesakes(node, 30)
    assert node.do("jobs.cancel", jobs=["same"])["count"] == 30


@pytest.mark.parametrize(("size", "passes"), [(1_000, 1), (2_000_000, 4)])
def test_large_arguments_are_read_and_checked_in_passes(size: int, passes: int) -> None:
    node = FakeNode()
    args = b'["%b"]' % (b"x" * size)
    line = b'{"op":"jobs.push","params":{"queue":"q","type":"t","args":%b}}' % args
    pauses = list(answer(node, line).__await__())
    assert len(pauses) == passes - 1
    assert [job.body for job in node.broker.jobs.values()] == [args]
