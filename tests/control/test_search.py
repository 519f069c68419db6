"""Pages of jobs that fit: their order, how many there are, and those that only memory has."""

import asyncio
from typing import Any

import pytest

from franca.control import job_search, query
from franca.control.port import BadRequest
from franca.core.errors import NotFound
from franca.core.model import Policy
from tests.control.kit import NOW, FakeNode

WAITED_FOR = Policy(durable=False)
RETRIED = Policy(max_failures=9, delay_ms=60_000)


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


def ids(page: Any) -> list[int]:
    return [job["id"] for job in page["jobs"]]


def finish(node: FakeNode, queue: str, at: int) -> None:
    node.now = at
    job = node.lease(queue)
    node.broker.finish(job, job.holder, b"", at)
    node.commit()


def test_ready_jobs_come_newest_first_and_pages_lead_on_and_back(node: FakeNode) -> None:
    for _ in range(5):
        node.submit()
    first = node.do("jobs.search", state="ready", limit=2)
    second = node.do("jobs.search", state="ready", limit=2, after=first["next"])
    third = node.do("jobs.search", state="ready", limit=2, after=second["next"])
    assert [ids(page) for page in (first, second, third)] == [[5, 4], [3, 2], [1]]
    assert (first["prev"], third["next"]) == (None, None)
    assert ids(node.do("jobs.search", state="ready", limit=2, before=third["prev"])) == [3, 2]
    assert ids(node.do("jobs.search", state="ready", limit=2, before=second["prev"])) == [5, 4]


def test_waiting_jobs_come_by_when_they_run_and_done_ones_by_their_end(node: FakeNode) -> None:
    for delay in (3, 1, 2):
        node.submit("later", run_at=NOW + delay * 60_000)
    assert ids(node.do("jobs.search", state="scheduled")) == [2, 3, 1]
    node.submit("b")
    node.submit("a")
    finish(node, "a", NOW + 10)
    finish(node, "b", NOW + 20)
    assert ids(node.do("jobs.search", state="done")) == [4, 5]


def test_a_job_that_failed_before_is_retrying_and_not_scheduled(node: FakeNode) -> None:
    node.submit("f", policy=RETRIED)
    node.fail(node.lease("f"), "x")
    node.submit("later", run_at=NOW + 1_000)
    assert ids(node.do("jobs.search", state="retrying")) == [1]
    assert ids(node.do("jobs.search", state="scheduled")) == [2]
    assert ids(node.do("jobs.search", state="waiting")) == [2, 1]
    row = node.do("jobs.search", state="retrying")["jobs"][0]
    assert (row["state"], row["error"], row["worker"]) == ("retrying", "Planned: x", "worker-1")
    assert (row["args"], row["via"]) == ("[1]", "")


def test_a_total_is_exact_where_counts_know_it_and_else_says_so(node: FakeNode) -> None:
    for number in range(4):
        node.submit("a", "odd" if number % 2 else "even")
    page = node.do("jobs.search", state="ready", limit=1)
    assert (page["total"], page["total_exact"]) == (4, True)
    page = node.do("jobs.search", q="type:odd", limit=1)
    assert (page["total"], page["total_exact"]) == (1, False)
    page = node.do("jobs.search", q="type:odd")
    assert (page["total"], page["total_exact"]) == (2, True)
    assert page["scanned"] <= page["of"]


def test_jobs_that_only_memory_has_are_found_too(node: FakeNode) -> None:
    node.submit("a")
    node.submit("a", policy=WAITED_FOR, origin="memodb")
    node.submit("b", policy=WAITED_FOR)
    assert ids(node.do("jobs.search")) == [3, 2, 1]
    assert ids(node.do("jobs.search", q="queue:a")) == [2, 1]
    assert ids(node.do("jobs.search", q="via:memodb")) == [2]
    assert ids(node.do("jobs.search", state="done")) == []
    assert node.do("jobs.get", job=2)["durable"] is False


def test_while_jobs_in_memory_are_looked_at_others_go_on(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_search, "LOOK_S", -1.0)
    for _ in range(10):
        node.submit(policy=WAITED_FOR)
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async def look() -> int:
        others = asyncio.ensure_future(count())
        _, looked = await job_search.held_only(node, lambda job: False)
        others.cancel()
        return looked

    assert asyncio.run(look()) == 10
    assert passes >= 10


def test_a_filter_of_many_terms_looks_into_arguments_once(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.submit(policy=WAITED_FOR)
    looked: list[bytes] = []

    def note(media: str, body: bytes) -> tuple[bytes, bool]:
        looked.append(body)
        return body, True

    monkeypatch.setattr(query, "beginning_of", note)
    q = " ".join(f"-arg:{number}x" for number in range(query.TERMS_MAX))
    assert ids(node.do("jobs.search", q=q)) == [1]
    assert len(looked) == 1


@pytest.mark.parametrize(
    "params",
    [
        {"state": "nonsense"},
        {"q": "nonsense:1"},
        {"state": "ready", "q": "state:dead"},
        {"after": "x", "before": "y"},
        {"limit": 501},
    ],
)
def test_a_search_that_means_nothing_is_refused(node: FakeNode, params: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        node.do("jobs.search", **params)


def test_one_job_is_told_whole(node: FakeNode) -> None:
    node.submit("q", name="mine", key="k", priority=3, policy=RETRIED, origin="faktory")
    node.fail(node.lease(), "no 1")
    node.now += 60_000
    node.run()
    node.lease()
    job = node.do("jobs.get", job="mine")
    told = [(run["number"], run["outcome"], run["error"]) for run in job["attempt_log"]]
    assert told == [(1, "failed", "Planned"), (2, "running", "")]
    assert job["body"] == {"media": "bytes", "text": "[1]", "bytes": 3, "cut": False}
    assert (job["state"], job["via"], job["key"], job["priority"]) == ("running", "faktory", "k", 3)
    assert job["policy"]["backoff"] == "fixed"
    assert len(job["error_class"]) == 12
    assert job["result"] is None


def test_of_a_job_it_is_told_whether_its_queue_is_paused(node: FakeNode) -> None:
    node.submit("a")
    assert node.do("jobs.get", job=1)["queue_paused"] is False
    node.do("queues.pause", queues=["a"])
    assert node.do("jobs.get", job=1)["queue_paused"] is True


def test_runs_that_are_not_remembered_are_counted() -> None:
    node = FakeNode(story_attempts=2)
    node.submit(policy=RETRIED)
    for _ in range(5):
        node.fail(node.lease(), "x")
        node.now += 60_000
        node.broker.tick(node.now)
        node.run()
    node.lease()
    told = [run["number"] for run in node.do("jobs.get", job=1)["attempt_log"]]
    assert told == [4, 5, 6]


def test_of_an_ended_job_it_is_told_what_is_not_known(node: FakeNode) -> None:
    node.submit()
    finish(node, "q", NOW + 5)
    job = node.do("jobs.get", job=1)
    assert (job["state"], job["policy"], job["retries"]) == ("done", None, None)
    assert [run["outcome"] for run in job["attempt_log"]] == ["done"]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\xff\x00", {"base64": "/wA=", "bytes": 2, "cut": False}),
        (b'{"n": 1.50}', {"text": '{"n": 1.50}', "bytes": 11, "cut": False}),
    ],
)
def test_a_body_is_told_as_it_was_sent(
    node: FakeNode, body: bytes, shown: dict[str, object]
) -> None:
    node.submit().body = body
    assert node.do("jobs.get", job=1)["body"] == {"media": "bytes"} | shown


def test_a_long_body_is_cut_between_two_characters(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("franca.control.fill.SHOWN_BYTES", 4)
    node.submit().body = "xéé€".encode()
    shown = node.do("jobs.get", job=1)["body"]
    assert shown == {"media": "bytes", "text": "xé", "bytes": 8, "cut": True}


def test_there_is_no_such_job(node: FakeNode) -> None:
    with pytest.raises(NotFound):
        node.do("jobs.get", job=7)


def test_a_page_that_has_all_counts_also_what_came_in_this_second(node: FakeNode) -> None:
    assert node.do("jobs.search")["total"] == 0
    node.submit()
    node.commit()
    page = node.do("jobs.search")
    assert (len(page["jobs"]), page["total"], page["total_exact"]) == (1, 1, True)


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("state", "q", "found"),
    [
        ("done", "ended<1h", [3]),
        ("done", "ended>1h", [2, 1]),
        ("done", "ended>=2h", [2, 1]),
        ("done", "ended>2h", [1]),
        ("done", "ended<=2h", [3, 2]),
        ("done", "ended>1h ended<3h", [2]),
        ("done", "-ended<1h", [2, 1]),
        ("done", "age<1h", []),
        ("done", "age<5h", [3, 2, 1]),
        ("", "ended<1h", [4, 3]),
        ("dead,ready", "ended<1h", [4]),
        ("ready", "ended>1h", []),
    ],
)
def test_jobs_are_found_by_how_long_ago_they_ended(
    node: FakeNode, state: str, q: str, found: list[int]
) -> None:
    for queue in "abcde":
        node.submit(queue)
    for queue, hours in (("a", 1), ("b", 2), ("c", 4)):
        finish(node, queue, NOW + hours * HOUR)
    node.broker.kill(node.broker.jobs[4], node.now)
    node.commit()
    assert ids(node.do("jobs.search", state=state, q=q)) == found


@pytest.mark.parametrize(
    ("state", "q", "since", "until"),
    [
        ("done", "ended<1h", NOW - HOUR, 0),
        ("", "ended>1h ended<2h", NOW - 2 * HOUR, NOW - HOUR + 1),
        ("dead,done", "age<1h", NOW - HOUR, 0),
        ("done,ready", "age<1h", 0, 0),
        ("", "age<1h", 0, 0),
        ("done", "-ended<1h age>1h", 0, 0),
    ],
)
def test_the_store_looks_up_when_jobs_ended(state: str, q: str, since: int, until: int) -> None:
    search = job_search.wanted_of(state, q, NOW).search()
    assert (search.since, search.until) == (since, until)
