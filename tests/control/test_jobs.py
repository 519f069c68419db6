"""What operators may do with jobs."""

import datetime
from typing import Any

import pytest

from franca.control import job_actions
from franca.control.port import BadRequest
from franca.core.errors import NotFound, StoreFull, TooMuch
from franca.core.model import State
from tests.control.kit import NOW, FakeNode


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


# -- push -------------------------------------------------------------------------------------


def test_a_pushed_job_is_ready_with_its_arguments_as_they_were_sent(node: FakeNode) -> None:
    line = b'{"op":"jobs.push","params":{"queue":"q","type":"t","args":[ 2.50, {"b":1,"a":2} ]}}'
    pushed = node.say(line)["result"]

    job = node.broker.jobs[pushed["id"]]
    assert (job.queue, job.kind, job.state) == ("q", "t", State.READY)
    assert (job.body, job.media) == (b'[2.50,{"b":1,"a":2}]', "json-args")
    assert job.name == pushed["name"] != ""
    assert job.policy.max_failures == 25


def test_a_pushed_job_is_in_the_store_before_the_answer(node: FakeNode) -> None:
    pushed = node.do("jobs.push", queue="q", type="t")
    assert pushed["id"] in node.store.held


@pytest.mark.parametrize(
    "when",
    [
        {"in_ms": 60_000},
        {"at": datetime.datetime.fromtimestamp(NOW / 1000 + 60, datetime.UTC).isoformat()},
    ],
)
def test_a_job_for_later_waits_until_then(node: FakeNode, when: dict[str, object]) -> None:
    pushed = node.do("jobs.push", queue="q", type="t", **when)

    job = node.broker.jobs[pushed["id"]]
    assert (job.state, job.run_at) == (State.WAITING, NOW + 60_000)


def test_a_push_repeated_under_its_name_makes_one_job(node: FakeNode) -> None:
    first = node.do("jobs.push", queue="q", type="t", args=[1], name="mine")
    assert node.do("jobs.push", queue="q", type="t", args=[1], name="mine") == first
    assert node.do("jobs.push", queue="q", type="t", args=[2], name="mine")["id"] != first["id"]


@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        ({"queue": "", "type": "t"}, BadRequest),
        ({"queue": "q", "type": ""}, BadRequest),
        ({"queue": "q"}, BadRequest),
        ({"queue": "q", "type": "t", "args": {"a": 1}}, BadRequest),
        ({"queue": "q", "type": "t", "retry": -1}, BadRequest),
        ({"queue": "q", "type": "t", "at": "2030-01-01T00:00:00"}, BadRequest),
        ({"queue": "q", "type": "t", "prio": 1}, BadRequest),
        ({"queue": "q" * 2000, "type": "t"}, TooMuch),
        ({"queue": "q", "type": "t", "args": ["x" * 70_000_000]}, TooMuch),
    ],
)
def test_a_bad_push_is_refused_and_makes_nothing(
    node: FakeNode, params: dict[str, Any], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        node.do("jobs.push", **params)
    assert node.broker.totals.pushed == 0


def test_a_full_disk_refuses_a_push(node: FakeNode) -> None:
    node.broker.refusing_new = True
    with pytest.raises(StoreFull):
        node.do("jobs.push", queue="q", type="t")


# -- find and show ----------------------------------------------------------------------------


def test_jobs_are_found_by_every_filter(node: FakeNode) -> None:
    node.submit("a", "x", name="one")
    node.submit("a", "y", name="two")
    node.submit("b", "x", run_at=NOW + 1000)
    node.submit_dead("b")

    def found(**params: object) -> list[int]:
        return [job["id"] for job in node.do("jobs.find", **params)["jobs"]]

    assert found() == [1, 2, 3, 4]
    assert found(newest_first=True) == [4, 3, 2, 1]
    assert found(queue="a") == [1, 2]
    assert found(type="x") == [1, 3]
    assert found(name="two") == [2]
    assert found(states=["dead", "waiting"]) == [3, 4]
    assert found(queue="a", type="y") == [2]
    assert found(queue="none") == []


def test_pages_follow_each_other(node: FakeNode) -> None:
    for _ in range(5):
        node.submit()
    first = node.do("jobs.find", limit=2)
    second = node.do("jobs.find", limit=2, after=first["after"])
    third = node.do("jobs.find", limit=2, after=second["after"])

    pages = [[job["id"] for job in page["jobs"]] for page in (first, second, third)]
    assert pages == [[1, 2], [3, 4], [5]]
    assert third["after"] is None


def test_an_unknown_state_is_refused_with_the_known_ones(node: FakeNode) -> None:
    with pytest.raises(BadRequest, match="waiting, ready, leased"):
        node.do("jobs.find", states=["running"])


def test_a_job_is_shown_whole_by_id_and_by_name(node: FakeNode) -> None:
    node.submit(name="mine")
    node.fail(node.lease(), "it broke")

    by_id = node.do("jobs.show", job=1)["jobs"]
    assert (
        by_id == node.do("jobs.show", job="1")["jobs"] == node.do("jobs.show", job="mine")["jobs"]
    )
    assert by_id[0]["state"] == "waiting"
    assert by_id[0]["error"] == "Planned: it broke"
    assert by_id[0]["body"] == [1]
    assert [(a["how"], a["text"], a["trace"]) for a in by_id[0]["story"]] == [
        ("failed", "it broke", ["line 1"])
    ]


def test_digits_mean_an_id_before_they_mean_a_name(node: FakeNode) -> None:
    node.submit(name="2")
    node.submit(name="other")
    node.submit(name="77")

    assert [job["id"] for job in node.do("jobs.show", job="2")["jobs"]] == [2]
    assert [job["id"] for job in node.do("jobs.show", job="77")["jobs"]] == [3]


def test_all_jobs_of_one_name_are_shown_newest_first(node: FakeNode) -> None:
    node.submit(name="twin")
    node.submit(name="twin")
    assert [job["id"] for job in node.do("jobs.show", job="twin")["jobs"]] == [2, 1]


def test_an_ended_job_is_still_shown(node: FakeNode) -> None:
    job = node.submit()
    node.broker.cancel(job, NOW)
    node.commit()
    assert node.do("jobs.show", job=1)["jobs"][0]["state"] == "cancelled"


def test_a_body_is_shown_in_its_most_readable_form(node: FakeNode) -> None:
    for body in (b'[ 1.50,\n "x"]', b"plain text", b"\xff\x00"):
        job = node.submit()
        job.body = body
    bodies = [node.do("jobs.show", job=number)["jobs"][0]["body"] for number in (1, 2, 3)]
    assert bodies == [[1.5, "x"], "plain text", {"base64": "/wA="}]


def test_a_body_with_line_breaks_does_not_break_the_reply_in_two(node: FakeNode) -> None:
    node.submit().body = b'{"a":\n1}'
    assert node.say(b'{"op":"jobs.show","params":{"job":1}}')["result"]["jobs"][0]["body"] == {
        "a": 1
    }


def test_no_job_is_not_found(node: FakeNode) -> None:
    with pytest.raises(NotFound):
        node.do("jobs.show", job="nobody")


# -- steer ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [
        ("jobs.retry", "dead", State.READY),
        ("jobs.retry", "waiting", State.READY),
        ("jobs.kill", "waiting", State.DEAD),
        ("jobs.kill", "ready", State.DEAD),
        ("jobs.kill", "leased", State.DEAD),
        ("jobs.cancel", "waiting", State.CANCELLED),
        ("jobs.cancel", "ready", State.CANCELLED),
        ("jobs.cancel", "leased", State.CANCELLED),
        ("jobs.delete", "waiting", State.CANCELLED),
        ("jobs.delete", "ready", State.CANCELLED),
        ("jobs.delete", "dead", State.CANCELLED),
    ],
)
@pytest.mark.parametrize("by", ["id", "name", "filter"])
def test_a_job_is_steered(node: FakeNode, op: str, before: str, after: State, by: str) -> None:
    if before == "dead":
        node.submit_dead(name="mine")
    else:
        node.submit(name="mine", run_at=NOW + 1000 if before == "waiting" else 0)
    if before == "leased":
        node.lease()
    choices: dict[str, dict[str, object]] = {
        "id": {"jobs": [1]},
        "name": {"jobs": ["mine"]},
        "filter": {"states": [before]},
    }

    result = node.do(op, **choices[by])

    assert result == {"count": 1, "missing": [], "skipped": []}
    assert node.do("jobs.show", job=1)["jobs"][0]["state"] == after.name.lower()


@pytest.mark.parametrize(
    ("op", "state"),
    [
        ("jobs.retry", "ready"),
        ("jobs.kill", "dead"),
        ("jobs.cancel", "dead"),
        ("jobs.delete", "leased"),
    ],
)
def test_a_job_in_another_state_is_left_alone_and_told_apart(
    node: FakeNode, op: str, state: str
) -> None:
    if state == "dead":
        node.submit_dead()
    else:
        node.submit()
    if state == "leased":
        node.lease()

    result = node.do(op, jobs=[1, "nobody"])

    skip = {"job": "1", "state": state, "reason": f"it is {state}"}
    assert result == {"count": 0, "missing": ["nobody"], "skipped": [skip]}
    assert node.do("jobs.show", job=1)["jobs"][0]["state"] == state


def test_jobs_in_the_tail_are_reached_by_name_and_by_filter() -> None:
    node = FakeNode(window_jobs=4, supply_jobs=2)
    for number in range(20):
        node.submit(name=f"n{number}")
    assert len(node.broker.jobs) < 20

    assert node.do("jobs.cancel", jobs=["n19", 3])["count"] == 2
    assert node.do("jobs.cancel", queue="q")["count"] == 18
    assert node.do("queues.list")["queues"][0]["ready"] == 0


def test_a_filter_spares_other_queues_types_and_states(node: FakeNode) -> None:
    node.submit_dead("a")
    node.submit_dead("b")
    node.submit("a", "other")
    assert node.do("jobs.retry", queue="a", states=["dead"])["count"] == 1
    assert node.do("jobs.cancel", type="other")["count"] == 1
    left = [job["state"] for job in node.do("jobs.find")["jobs"]]
    assert left == ["ready", "dead", "cancelled"]


@pytest.mark.parametrize(
    "params", [{}, {"jobs": [1], "queue": "q"}, {"states": ["done"]}, {"states": ["nonsense"]}]
)
def test_a_choice_that_means_nothing_is_refused(node: FakeNode, params: dict[str, object]) -> None:
    node.submit()
    with pytest.raises(BadRequest):
        node.do("jobs.cancel", **params)
    assert node.broker.jobs


def with_a_key_taken_anew(node: FakeNode) -> None:
    """Three dead jobs; another live job has the key of the second."""
    for number in range(3):
        node.submit_dead(key=f"k{number}", name=f"n{number}")
    node.submit(key="k1", name="heir")


def test_a_job_that_refuses_does_not_keep_the_others_from_it() -> None:
    reason = "another live job of queue 'q' has this key"
    for choice, job in (({"states": ["dead"]}, "2"), ({"jobs": ["n0", "n1", 3]}, "n1")):
        node = FakeNode()
        with_a_key_taken_anew(node)
        assert node.do("jobs.retry", **choice) == {
            "count": 2,
            "missing": [],
            "skipped": [{"job": job, "state": "dead", "reason": reason}],
        }
        assert [job.state for job in node.store.tail.values()] == [State.DEAD]


def test_of_many_that_refuse_some_are_told_and_the_others_counted(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_actions, "SKIPPED_MAX", 2)
    for number in range(5):
        node.submit_dead(key=f"k{number}")
        node.submit(key=f"k{number}")
    result = node.do("jobs.retry", states=["dead"])
    assert (result["count"], len(result["skipped"]), result["skipped_more"]) == (0, 2, 3)
