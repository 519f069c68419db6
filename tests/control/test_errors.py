"""Error classes: which errors are the same, how often each came, and which jobs they hold."""

import asyncio
from typing import Any

import pytest

from franca.control import error_classes
from franca.control.error_classes import DAY_MS, HOUR_MS, ErrorClasses
from franca.control.grouping import class_id, common_text
from franca.core.model import Attempt, Outcome, Policy
from tests.control.kit import NOW, FakeNode

RETRIED = Policy(max_failures=99, delay_ms=3_600_000)
HOURS = 24


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no user 17", "no user 4711"),
        ("after 30.5 s", "after 1.25 s"),
        ('no file "a b"', 'no file "c"'),
        ("no key 'x'", "no key 'y y'"),
        ("at 0x7f3a", "at 0xDEADBEEF"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id 123e4567-e89b-12d3-a456-426614174000"),
        ("a\nsecond line", "a\nanother line"),
        ("x  y", "x y"),
        ("10.0.0.1:80", "10.0.0.2:8080"),
    ],
)
def test_what_differs_each_time_is_left_out(one: str, other: str) -> None:
    assert common_text(one) == common_text(other)
    assert class_id("E", one) == class_id("E", other) != class_id("F", one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no user", "no mail"),
        ("don't go: I can't", "don't stay: I can't"),
        ("facade", "decade"),
        ("", "x"),
    ],
)
def test_other_errors_are_others(one: str, other: str) -> None:
    assert class_id("E", one) != class_id("E", other)


def test_no_text_takes_long() -> None:
    for text in ('"' * 10**6, "0" * 10**6, "a-" * 10**6, "'" * 10**6, "1." * 10**6, "ab12" * 10**5):
        assert len(common_text(text)) <= error_classes.CLASSES_MAX


def failed(node: FakeNode, queue: str, text: str, kind: str = "k") -> None:
    node.submit(queue, kind, policy=RETRIED)
    node.fail(node.lease(queue), text)


def listed(node: FakeNode) -> Any:
    asyncio.run(node.observer.look(node))
    return node.do("errors.list")


def test_dead_and_retrying_jobs_are_grouped_by_what_stopped_them() -> None:
    node = FakeNode()
    for number in range(3):
        failed(node, "a", f"no user {number}")
    failed(node, "b", "no user 77", "other")
    failed(node, "b", "disk full")
    node.broker.kill(node.broker.jobs[1], node.now)
    node.commit()
    told = listed(node)
    assert (told["looked_at"], told["of"]) == (5, 5)
    first, second = told["classes"]
    assert (first["error"], first["text"]) == ("Planned", "no user …")
    assert (first["retrying"], first["dead"]) == (3, 1)
    assert (first["queues"], first["types"]) == (["a", "b"], ["k", "other"]) or first["where"]
    assert (second["text"], second["retrying"], second["where"]) == ("disk full", 1, "line 1")
    assert first["hours"] == [0] * 23 + [4]
    assert len(first["samples"]) == 3
    assert first["samples"][0]["error"].startswith("Planned: no user")


def test_jobs_that_are_retried_are_not_in_it_any_more() -> None:
    node = FakeNode()
    failed(node, "a", "x")
    assert len(listed(node)["classes"]) == 1
    node.do("jobs.retry", jobs=[1])
    node.now += 60_000
    assert listed(node) == {"classes": [], "looked_at": 0, "of": 0}


def test_jobs_are_looked_at_again_only_if_there_may_be_others() -> None:
    node = FakeNode()
    failed(node, "a", "x")
    searches = 0
    search = node.search

    async def counted(asked: Any) -> Any:
        nonlocal searches
        searches += 1
        return await search(asked)

    node.search = counted  # type: ignore[method-assign,assignment]
    for _ in range(5):
        node.now += 60_000
        listed(node)
    assert searches == 2


def test_it_says_how_many_it_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.control.observer.LOOKED_AT_MAX", 8)
    monkeypatch.setattr("franca.control.observer.JOBS_AT_ONCE", 2)
    node = FakeNode()
    for number in range(9):
        failed(node, "a", f"x {number}")
    told = listed(node)
    assert (told["looked_at"], told["of"]) == (4, 9)
    assert [one["retrying"] for one in told["classes"]] == [4]


def note(classes: ErrorClasses, at: int, text: str = "x") -> None:
    classes.note(Attempt("w", at, at, Outcome.FAILED, "E", text))


def test_hours_move_on_and_old_ones_go() -> None:
    classes = ErrorClasses()
    for hour, count in ((0, 2), (1, 1), (23, 3)):
        for _ in range(count):
            note(classes, NOW + hour * HOUR_MS)
    [seen] = classes.seen.values()
    assert seen.hours == [2, 1, *[0] * 21, 3]
    seen.turn_to(NOW + 24 * HOUR_MS)
    assert seen.hours == [1, *[0] * 21, 3, 0]
    note(classes, NOW + 100 * HOUR_MS)
    assert seen.hours == [0] * 23 + [1]


def test_an_error_is_new_if_none_like_it_came_in_the_day_before() -> None:
    classes = ErrorClasses()
    note(classes, NOW)
    note(classes, NOW + DAY_MS)
    [seen] = classes.seen.values()
    assert (seen.first_at, seen.new_at) == (NOW, NOW)
    note(classes, NOW + 2 * DAY_MS + 1)
    assert seen.new_at == NOW + 2 * DAY_MS + 1


def test_so_many_classes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_classes, "CLASSES_MAX", 3)
    classes = ErrorClasses()
    for text in ("a", "b", "c", "a", "d"):
        note(classes, NOW, text)
    assert list(classes.seen) == [class_id("E", text) for text in "cad"]


def test_failures_before_the_start_are_known_of_jobs_that_are_still_there() -> None:
    node = FakeNode()
    failed(node, "a", "x")
    node.broker.runs_over.clear()
    node.observer.errors.since = node.now + 1
    node.now += 2 * HOUR_MS
    [found] = node.do("errors.list")["classes"]
    assert found["hours"] == [0] * 21 + [1, 0, 0]
    assert found["first_at"] == found["last_at"]


@pytest.mark.parametrize(("bury", "dead"), [(True, 1), (False, 0)])
def test_what_is_told_of_dead_jobs_agrees_wherever_it_is_told(bury: bool, dead: int) -> None:
    node = FakeNode()
    node.submit("q", "k", policy=Policy(max_failures=0, bury=bury))
    node.fail(node.lease("q"), "x")
    node.now += 60_000
    listed = node.do("errors.list")["classes"]
    assert [(one["dead"], one["hours"][-1]) for one in listed] == [(1, 1)] * dead
    assert node.do("counts")["dead"] == node.do("queues.list")["queues"][0]["dead"] == dead
    assert node.do("jobs.search", state="dead")["total"] == dead
    [kind] = node.do("types.list")["types"]
    assert (kind["dead"], kind["failed"]) == (dead, 1)
