"""Schedules that operators make: what they submit and when, and what may be changed of them."""

from typing import Any

import pytest

from franca.control.port import BadRequest
from franca.core.errors import NotFound, NotUnique, Refused
from franca.core.model import NewJob, Policy, Schedule
from tests.control.kit import NOW, FakeNode

HOURLY: dict[str, Any] = {"id": "hourly", "queue": "q", "type": "t", "every_ms": 3_600_000}


@pytest.fixture
def node() -> FakeNode:
    node = FakeNode()
    node.do("schedules.create", **HOURLY, args=[1, "é"])
    return node


def show(node: FakeNode) -> Any:
    return node.do("schedules.show", id="hourly")


def pass_hours(node: FakeNode, hours: int) -> None:
    for _ in range(hours):
        node.now += 3_600_000
        node.broker.tick(node.now)
        node.run()


def test_a_schedule_submits_its_job_again_and_again(node: FakeNode) -> None:
    pass_hours(node, 2)
    assert [(job.kind, job.body) for job in node.broker.jobs.values()] == [
        ("t", '[1,"é"]'.encode())
    ] * 2
    told = show(node)
    assert (told["args"], told["source"], told["paused"]) == ('[1,"é"]', "control", False)
    assert (told["last"]["id"], told["last"]["state"]) == (2, "ready")
    assert len(told["upcoming_at"]) == 23
    assert told["upcoming_at"][0] == told["next_at"]


def test_a_list_has_the_next_one_first_and_paused_ones_last(node: FakeNode) -> None:
    node.do("schedules.create", **HOURLY | {"id": "often", "every_ms": 60_000})
    node.do("schedules.create", **HOURLY | {"id": "off", "every_ms": 1_000})
    node.do("schedules.pause", id="off")
    listed = node.do("schedules.list")["schedules"]
    assert [one["id"] for one in listed] == ["often", "hourly", "off"]
    assert [len(one["upcoming_at"]) for one in listed] == [5, 5, 0]
    assert listed[2]["next_at"] is None


def test_a_paused_schedule_submits_only_when_it_is_told_to(node: FakeNode) -> None:
    node.do("schedules.pause", id="hourly")
    pass_hours(node, 3)
    assert not node.broker.jobs
    assert node.do("schedules.run", id="hourly") == {"id": 1, "name": "hourly", "state": "ready"}
    node.do("schedules.resume", id="hourly")
    pass_hours(node, 1)
    assert len(node.broker.jobs) == 2


def test_an_edit_changes_what_is_said_and_leaves_the_rest(node: FakeNode) -> None:
    before = show(node)
    told = node.do("schedules.edit", id="hourly", args=[2], queue="other")
    assert show(node) == before | {"args": "[2]", "queue": "other"}
    told = node.do("schedules.edit", id="hourly", cron="0 3 * * *", timezone="Europe/Berlin")
    assert (told["cron"], told["every_ms"]) == ("0 3 * * *", 0)
    assert told["timezone"] == "Europe/Berlin"
    assert told["args"] == "[2]"
    told = node.do("schedules.edit", id="hourly", every_ms=5_000, retry=3)
    assert (told["cron"], told["every_ms"]) == ("", 5_000)
    assert node.store.schedules["hourly"].job.policy.max_failures == 3


def test_it_is_in_the_store_and_gone_when_it_is_deleted(node: FakeNode) -> None:
    assert "hourly" in node.store.schedules
    assert node.do("schedules.delete", id="hourly") == {"id": "hourly"}
    assert "hourly" not in node.store.schedules
    with pytest.raises(NotFound):
        show(node)


@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        ({"every_ms": None}, BadRequest),
        ({"cron": "0 3 * * *"}, BadRequest),
        ({"every_ms": None, "cron": "every day"}, Refused),
        ({"every_ms": None, "cron": "0 3 * * *", "timezone": "Nowhere"}, Refused),
        ({"every_ms": 999}, BadRequest),
        ({"args": {"a": 1}}, BadRequest),
        ({"queue": ""}, BadRequest),
        ({"id": "hourly"}, NotUnique),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(
    node: FakeNode, params: dict[str, Any], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        node.do("schedules.create", **HOURLY | {"id": "new"} | params)
    assert list(node.broker.schedules.by_id) == ["hourly"]


@pytest.mark.parametrize("op", ["show", "edit", "run", "pause", "resume", "delete"])
def test_there_is_no_such_schedule(node: FakeNode, op: str) -> None:
    with pytest.raises(NotFound):
        node.do(f"schedules.{op}", id="none")


def test_what_a_peer_submits_is_not_changed_but_when(node: FakeNode) -> None:
    job = NewJob("q", "k", b"x", Policy(), extra=b"theirs")
    rule = Schedule("theirs", job, every_ms=60_000, source="eventmq")
    node.broker.put_schedule(rule, NOW, fire_now=False)
    with pytest.raises(BadRequest, match="eventmq"):
        node.do("schedules.edit", id="theirs", args=[1])
    assert node.do("schedules.edit", id="theirs", every_ms=30_000)["every_ms"] == 30_000
    assert node.broker.schedules.by_id["theirs"].job.extra == b"theirs"


def test_so_many_schedules_are_kept() -> None:
    node = FakeNode(rules_max=1)
    node.do("schedules.create", **HOURLY)
    with pytest.raises(Refused):
        node.do("schedules.create", **HOURLY | {"id": "more"})
