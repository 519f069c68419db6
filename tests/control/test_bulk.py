"""Actions on jobs by ids, and in the background on all that a filter fits."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from franca.control import bulk
from franca.control.operations import perform
from franca.control.port import BadRequest
from franca.core.errors import NotFound, TooMuch
from franca.core.model import Policy, State
from tests.control.kit import NOW, FakeNode

OLD: tuple[str, dict[str, object]] = ("jobs.act", {"action": "cancel", "q": "queue:old"})


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def states(node: FakeNode) -> list[str]:
    return [job["state"] for job in node.do("jobs.find", limit=1_000)["jobs"]]


def test_jobs_that_are_named_are_acted_on_at_once(node: FakeNode) -> None:
    node.submit_dead(name="a")
    node.submit(name="b")
    done = node.do("jobs.act", action="retry", ids=[1, "b", "nobody"])
    assert done == {"changed": 1, "skipped": 2, "operation": None}
    assert states(node) == ["ready", "ready"]


@pytest.mark.parametrize("window", [1_000, 3], ids=["in memory", "in the store"])
def test_all_that_fit_are_acted_on_behind_the_answer(window: int) -> None:
    node = FakeNode(window_jobs=window, supply_jobs=2)
    for number in range(12):
        node.submit("old" if number % 3 else "new", policy=Policy(durable=number != 4))
    [begun] = node.do_all(OLD)
    assert begun["changed"] == begun["skipped"] == 0
    told = node.do("operations.show", id=begun["operation"])
    assert (told["done"], told["failed"], told["total"]) == (8, 0, 8)
    assert told["ended_at"] is not None
    left = node.do("jobs.search", state="ready")["jobs"]
    assert [job["queue"] for job in left] == ["new"] * 4


def test_an_action_is_for_the_states_in_which_it_can_be_done(node: FakeNode) -> None:
    node.submit_dead("old")
    node.submit("old")
    node.do_all(OLD)
    assert states(node) == ["dead", "cancelled"]
    for state in ("done", "dead"):
        with pytest.raises(BadRequest, match="this can be done to jobs that are"):
            node.do("jobs.act", action="cancel", state=state)
    for params in ({}, {"ids": [1], "q": "queue:a"}, {"q": ""}):
        with pytest.raises(BadRequest):
            node.do("jobs.act", action="retry", **params)


def test_a_job_that_ran_since_is_not_acted_on_again(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retried jobs that fail at once would be retried for ever."""
    monkeypatch.setattr(bulk, "PAGE_JOBS", 1)
    for _ in range(3):
        node.submit("q", policy=Policy(max_failures=99, delay_ms=60_000))
        node.fail(node.lease(), "x")
    search = node.search
    searches = 0

    async def failing(asked: Any) -> Any:
        nonlocal searches
        searches += 1
        assert searches < 20
        node.now += 1
        node.submit("q", policy=Policy(max_failures=99, delay_ms=60_000))
        while node.broker.queues["q"].ready:
            node.fail(node.lease(), "again")
        return await search(asked)

    monkeypatch.setattr(node, "search", failing)
    [begun] = node.do_all(("jobs.act", {"action": "retry", "q": "state:retrying"}))
    told = node.do("operations.show", id=begun["operation"])
    assert (told["done"], told["failed"]) == (3, 0)


def test_jobs_that_come_while_it_goes_on_are_left(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PAGE_JOBS", 1)
    for minute in (1, 2, 3):
        node.submit(run_at=NOW + minute * 60_000)
    search = node.search

    async def producing(asked: Any) -> Any:
        assert len(node.broker.jobs) < 20
        node.submit(run_at=NOW + 3_600_000)
        return await search(asked)

    monkeypatch.setattr(node, "search", producing)
    node.do_all(("jobs.act", {"action": "cancel", "state": "scheduled"}))
    assert node.do("operations.show", id="op-1")["done"] == 3


def test_a_job_that_has_changed_since_it_was_found_must_still_fit(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.submit()
    node.submit()
    search = node.search

    async def leasing(asked: Any) -> Any:
        found = await search(asked)
        node.lease()
        return found

    monkeypatch.setattr(node, "search", leasing)
    node.do_all(("jobs.act", {"action": "cancel", "q": "tries<1"}))
    assert states(node) == ["leased", "cancelled"]


def test_it_can_be_stopped_and_what_is_done_stays_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "PAGE_JOBS", 4)
    node = FakeNode(supply_jobs=2)
    for _ in range(20):
        node.submit("old")
    asked = searches = 0
    recall, search = node.recall, node.search

    async def stopping(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 3:
            await perform(node, "operations.stop", Raw(b'{"id":"op-1"}'))
        return await recall(*args)

    async def counted(query: Any) -> Any:
        nonlocal searches
        searches += 1
        return await search(query)

    monkeypatch.setattr(node, "recall", stopping)
    monkeypatch.setattr(node, "search", counted)
    node.do_all(OLD)
    told = node.do("operations.show", id="op-1")
    assert 0 < told["done"] < 20
    assert told["ended_at"] is not None
    assert states(node).count("cancelled") == told["done"]
    assert searches == 2


def test_so_many_are_under_way_and_so_many_remembered(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "REMEMBERED", 3)
    for _ in range(6):
        node.do_all(OLD)
    listed = node.do("operations.list")["operations"]
    assert [one["id"] for one in listed] == ["op-6", "op-5", "op-4", "op-3"][: len(listed)]
    assert len(listed) <= 4
    with pytest.raises(NotFound):
        node.do("operations.show", id="op-1")
    with pytest.raises(TooMuch):
        node.do_all(*[OLD] * (bulk.RUNNING_MAX + 1))


def test_what_is_refused_is_counted_apart(node: FakeNode) -> None:
    node.submit_dead(key="k")
    node.submit_dead()
    node.submit(key="k")
    node.do_all(("jobs.act", {"action": "retry", "state": "dead"}))
    told = node.do("operations.show", id="op-1")
    assert (told["done"], told["failed"], told["total"]) == (1, 1, 2)
    assert states(node).count("dead") == 1


def test_jobs_of_an_error_class_are_meant_by_its_id(node: FakeNode) -> None:
    node.submit("a")
    node.fail(node.lease("a"), "no 1")
    node.submit("b")
    node.fail(node.lease("b"), "quite another thing")
    [found] = [one for one in node.do("errors.list")["classes"] if one["queues"] == ["a"]]
    node.do_all(("jobs.act", {"action": "retry", "q": f"class:{found['id']}"}))
    assert states(node) == ["ready", "waiting"]


def test_jobs_submitted_together_are_taken_in_or_refused_each_by_itself(node: FakeNode) -> None:
    jobs = [
        {"queue": "a", "type": "t", "args": [1], "priority": -3, "via": "rest"},
        {"queue": "a"},
        {"queue": "a", "type": "t", "in_ms": 5_000, "name": "n"},
    ]
    told = node.do("jobs.submit", jobs=jobs)["jobs"]
    assert [one.get("state") for one in told] == ["ready", None, "scheduled"]
    assert "type" in told[1]["error"]
    assert (node.broker.jobs[1].priority, node.broker.jobs[1].origin) == (-3, "rest")
    assert node.broker.jobs[2].run_at == NOW + 5_000


def test_a_submit_goes_some_in_each_turn(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.control.submit.AT_ONCE", 3)
    most = 0
    ask = node.ask

    async def counted(act: Any) -> Any:
        nonlocal most
        before = node.broker.totals.pushed
        result = await ask(act)
        most = max(most, node.broker.totals.pushed - before)
        return result

    node.ask = counted  # type: ignore[method-assign]
    told = node.do("jobs.submit", jobs=[{"queue": "a", "type": "t"}] * 10)
    assert [one["id"] for one in told["jobs"]] == list(range(1, 11))
    assert most == 3
    assert all(job.state is State.READY for job in node.broker.jobs.values())


def test_requests_are_bounded(node: FakeNode) -> None:
    params = msgspec.json.encode({"jobs": [{"queue": "a", "type": "t"}] * 1_001})
    with pytest.raises(BadRequest):
        asyncio.run(perform(node, "jobs.submit", Raw(params)))
