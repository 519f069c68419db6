"""The overview: what it tells, what needs somebody, and that a crowd that looks at it costs little."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from franca.control.operations import perform
from franca.control.port import BadRequest
from franca.control.rates import SAMPLE_MS
from franca.control.series import RANGES
from franca.core.model import Policy
from tests.control.kit import NOW, FakeNode

KEPT = Policy(max_failures=0)


def pass_samples(node: FakeNode, count: int) -> None:
    for _ in range(count):
        node.now += SAMPLE_MS
        node.broker.tick(node.now)
        node.run()
        asyncio.run(node.observer.look(node))


@pytest.fixture
def node() -> FakeNode:
    node = FakeNode()
    asyncio.run(node.observer.look(node))
    return node


def work(node: FakeNode, queue: str, count: int) -> None:
    for _ in range(count):
        node.submit(queue)
        job = node.lease(queue)
        node.broker.finish(job, job.holder, b"", node.now)
    node.commit()


def notices(node: FakeNode) -> dict[str, Any]:
    return {one["what"]: one for one in node.do("overview")["notices"]}


def test_it_tells_rates_counts_and_the_oldest(node: FakeNode) -> None:
    node.submit("slow")
    for _ in range(4):
        work(node, "fast", 30)
        pass_samples(node, 1)
    told = node.do("overview")
    assert told["rates"] == {"pushed": 2.017, "done": 2.0, "failed": 0.0}
    assert (told["oldest_ms"], told["oldest_queue"]) == (60_000, "slow")
    assert (told["counts"]["ready"], told["counts"]["done"]) == (1, 120)
    assert told["workers"] == {"all": 2, "busy": 0}
    assert told["series"]["done"] == [2.0] * 4
    assert told["series"]["ready"] == [1] * 4
    rows = {row["queue"]: row for row in told["queues"]}
    assert (rows["fast"]["in"], rows["fast"]["out"]) == (2.0, 2.0)
    assert rows["fast"]["recent"]["out"] == [2.0] * 4
    assert [row["queue"] for row in told["queues"]] == ["slow", "fast"]


@pytest.mark.parametrize("range_", RANGES)
def test_every_range_has_at_most_240_points(node: FakeNode, range_: str) -> None:
    work(node, "q", 3)
    node.submit("q", run_at=NOW + 86_400_000)
    pass_samples(node, 300)
    for series in (
        node.do("overview", range=range_)["series"],
        node.do("queues.show", queue="q", range=range_)["series"],
    ):
        lengths = {len(column) for column in series.values()}
        assert len(lengths) == 1
        assert 0 < lengths.pop() <= 241


def test_a_queue_falls_behind_if_more_comes_than_goes_and_its_jobs_wait(node: FakeNode) -> None:
    for _ in range(8):
        node.submit("late")
        work(node, "quick", 1)
        pass_samples(node, 1)
    found = notices(node)
    assert list(found) == ["behind"]
    assert found["behind"]["queue"] == "late"
    facts = found["behind"]["facts"]
    assert facts["ready"] == 8
    assert facts["in"] > facts.get("out", 0.0)
    node.do("queues.pause", queues=["late"])
    pass_samples(node, 1)
    assert list(notices(node)) == ["paused"]


def test_an_error_that_was_not_there_before_is_told_for_an_hour(node: FakeNode) -> None:
    node.submit("a", policy=KEPT)
    node.fail(node.lease("a"), "no 1")
    pass_samples(node, 1)
    found = notices(node)["errors"]
    assert (found["level"], found["queue"], found["facts"]["dead"]) == ("bad", "a", 1)
    assert found["error_class"] == node.do("errors.list")["classes"][0]["id"]
    node.now += 3_600_000
    assert "errors" not in notices(node)


def test_a_new_error_of_several_queues_is_not_said_to_be_in_one_of_them(node: FakeNode) -> None:
    for queue in ("a", "b"):
        node.submit(queue, policy=KEPT)
        node.fail(node.lease(queue), "no 1")
    pass_samples(node, 1)
    found = notices(node)["errors"]
    assert (found.get("queue", ""), found["facts"]["dead"]) == ("", 2)


def test_a_worker_that_runs_nothing_while_its_jobs_wait_takes_no_jobs(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = node.two.workers

    def alive(now: int = 0) -> Any:
        anna, bert = workers(now)
        anna.queues, anna.seen_at, anna.fetched_at = ["a"], node.now, NOW
        bert.queues, bert.seen_at, bert.fetched_at = ["a"], node.now, node.now
        return iter([anna, bert])

    monkeypatch.setattr(node.two, "workers", alive)
    node.submit("a")
    pass_samples(node, 4)
    assert "stalled" not in notices(node)
    pass_samples(node, 1)
    assert notices(node)["stalled"]["worker"] == "anna"
    states = {one["name"]: one["state"] for one in node.do("workers.find")["workers"]}
    assert states == {"anna": "stalled", "bert": "idle"}


def test_a_schedule_that_failed_twice_in_a_row_is_told(node: FakeNode) -> None:
    node.do("schedules.create", id="s", queue="s", type="t", every_ms=36_000_000, retry=0)
    for times in (1, 2, 3):
        node.do("schedules.run", id="s")
        node.fail(node.lease("s"), "no")
        pass_samples(node, 2)
        found = notices(node).get("schedule")
        assert (found and found["facts"]["failed"]) == (times if times > 1 else None)
    node.do("schedules.run", id="s")
    job = node.lease("s")
    node.broker.finish(job, job.holder, b"", node.now)
    node.commit()
    pass_samples(node, 1)
    assert "schedule" not in notices(node)


def test_a_pause_may_end_by_itself(node: FakeNode) -> None:
    node.submit("a")
    node.do("queues.pause", queues=["a"], until="2030-03-17T17:56:40Z")
    facts = notices(node)["paused"]["facts"]
    assert facts["until"] == "2030-03-17T17:56:40.000Z"
    pass_samples(node, 42)
    assert "paused" not in notices(node)
    with pytest.raises(BadRequest, match="future"):
        node.do("queues.pause", queues=["a"], until="2030-03-17T17:56:40Z")


def test_a_crowd_is_given_the_same_answer(node: FakeNode) -> None:
    work(node, "q", 5)
    made = 0
    rates = node.rates

    async def counted(query: Any) -> Any:
        nonlocal made
        made += 1
        return await rates(query)

    node.rates = counted  # type: ignore[method-assign]

    async def ask_all() -> list[object]:
        asks = [perform(node, "overview", Raw(b"{}")) for _ in range(50)]
        return list(await asyncio.gather(*asks))

    answers = asyncio.run(ask_all())
    assert len({bytes(answer) for answer in answers if isinstance(answer, Raw)}) == 1
    assert made <= 2


def test_types_are_told_with_their_share(node: FakeNode) -> None:
    for kind, count in (("often", 3), ("seldom", 1)):
        for _ in range(count):
            node.submit("q", kind)
            job = node.lease("q")
            node.now += 100
            node.broker.finish(job, job.holder, b"", node.now)
    node.commit()
    first, second = node.do("types.list")["types"]
    assert (first["type"], first["done"], first["share"]) == ("often", 3, 0.75)
    assert (second["type"], second["queues"]) == ("seldom", ["q"])
    assert 80 <= first["ran_p50_ms"] <= 130
    assert sum(first["recent"]["done"]) == 3
    node.now += 1_800_000
    assert node.do("queues.show", queue="q", range="15m")["types"] == []
    types = node.do("queues.show", queue="q")["types"]
    assert [(one["type"], one["share"], one["p50_ms"]) for one in types] == [
        ("often", 0.75, 100),
        ("seldom", 0.25, 100),
    ]


def test_what_a_filter_may_say_is_known(node: FakeNode) -> None:
    node.submit("a")
    pass_samples(node, 1)
    known = node.do("known")
    assert [one["value"] for one in known["queue"]] == ["a"]
    assert [one["value"] for one in known["worker"]] == ["anna", "bert"]
    assert {"some", "control", "rest"} == {one["value"] for one in known["via"]}


def test_what_the_first_jobs_say_is_known_within_two_seconds() -> None:
    node = FakeNode()
    asyncio.run(node.observer.look(node))
    known = node.do("known")
    assert (known["queue"], known["type"]) == ([], [])
    node.submit("waits", "Waits")
    node.submit("ends", "Ends")
    job = node.lease("ends")
    node.broker.finish(job, job.holder, b"", node.now)
    node.commit()
    node.now += 2_000
    known = node.do("known")
    assert {one["value"] for one in known["queue"]} == {"waits", "ends"}
    assert {one["value"] for one in known["type"]} == {"Waits", "Ends"}
    for number in range(600):
        node.submit(f"q{number}", f"T{number}")
    node.now += 2_000
    known = node.do("known")
    assert (len(known["queue"]), len(known["type"])) == (500, 500)


def test_the_history_tells_its_bounds(node: FakeNode) -> None:
    work(node, "q", 4)
    told = node.do("history")
    assert told["jobs"] == 4
    assert told["bounds"]["jobs"] == node.limits.ended_jobs
    assert told["oldest_at"].startswith("2030")
    assert NOW > 0


def test_a_damaged_store_ends_nothing_but_questions_about_it(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def damaged(*asked: object) -> Any:
        raise ValueError("damaged")

    for read in ("past", "rates", "search", "find"):
        monkeypatch.setattr(node, read, damaged)
    work(node, "q", 3)
    pass_samples(node, 5)
    assert node.observer.rates.number == 6
    with pytest.raises(ValueError, match="damaged"):
        node.do("counts")


def test_the_size_of_the_store_and_the_room_on_its_disk_are_told(node: FakeNode) -> None:
    told = node.do("health")
    assert told["store"]["bytes"] == 4_096
    assert (told["disk"]["total"], told["disk"]["free"]) == (1_000, 500)
