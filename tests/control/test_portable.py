"""What is exported is made anew byte for byte, on a server that knew nothing of it."""

import json
from typing import Any

import pytest
from msgspec.structs import asdict

from franca.control.port import BadRequest
from franca.control.portable import KeptPolicy
from franca.core.errors import StoreFull
from franca.core.model import Backoff, Job, Policy, State
from franca.core.weights import attempt_log_bytes
from franca.store.rows import row_of
from tests.control.kit import NOW, FakeNode

POLICY = Policy(3, 4, delay_ms=60_000, lease_ms=5_000, backoff=Backoff.DOUBLING, keeps_place=True)


def exported(node: FakeNode, limit: int = 500) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    after = ""
    while after is not None:
        page = node.do("store.export", after=after, limit=limit)
        assert sum(line["kind"] != "pause" for line in page["lines"]) <= limit
        lines += page["lines"]
        after = page["next"]
    return lines


def full() -> FakeNode:
    node = FakeNode()
    node.submit("w", "k", run_at=NOW + 90_000, name="w", media="json-args", policy=POLICY)
    node.submit("f", policy=POLICY, name="f", origin="faktory", key="key", extra=b"\xff\x01")
    node.fail(node.lease("f"), "no 1")
    node.submit("l", policy=POLICY, name="l", priority=-7)
    node.lease("l")
    node.submit("r", policy=POLICY, name="r", digest=99).body = b"\x00\xfe body"
    node.submit_dead("d", name="d", policy=Policy(max_failures=2, keep_dead=True))
    node.do("schedules.create", id="nightly", queue="s", type="t", cron="0 3 * * *", args=[1.50])
    node.do("schedules.pause", id="nightly")
    node.do("queues.pause", queues=["r"])
    return node


def jobs_of(node: FakeNode) -> dict[str, Job]:
    return {job.name: job for job in node.jobs()}


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_everything_that_lives_is_made_anew(limit: int) -> None:
    old, new = full(), FakeNode()
    told = new.do("store.import", lines=exported(old, limit))
    assert told == {"added": 7, "skipped": 0, "refused": []}
    before, after = jobs_of(old), jobs_of(new)
    assert before.keys() == after.keys()
    for name, job in after.items():
        for field in ("queue", "kind", "key", "media", "origin", "body", "extra", "digest"):
            assert getattr(job, field) == getattr(before[name], field), (name, field)
        for field in ("priority", "created_at", "failures", "attempts"):
            assert getattr(job, field) == getattr(before[name], field), (name, field)
        assert job.policy == before[name].policy
    assert (after["w"].state, after["w"].run_at) == (State.WAITING, NOW + 90_000)
    assert (after["f"].state, after["f"].run_at) == (State.WAITING, before["f"].run_at)
    assert after["l"].state is after["r"].state is State.READY
    assert after["d"].state is State.DEAD
    counts = new.do("counts")
    assert (counts["scheduled"], counts["retrying"], counts["ready"]) == (1, 1, 2)
    assert counts["dead"] == 1
    assert new.do("jobs.get", job="f")["error"] == "Planned: no 1"


def test_schedules_and_pauses_are_made_anew() -> None:
    old, new = full(), FakeNode()
    new.do("store.import", lines=exported(old))
    there, here = old.do("schedules.list"), new.do("schedules.list")
    assert there == here
    assert here["schedules"][0]["paused"] is True
    assert new.do("queues.show", queue="r")["paused"] is True


def test_what_is_there_already_is_not_made_twice() -> None:
    old, new = full(), FakeNode()
    lines = exported(old)
    new.do("store.import", lines=lines)
    told = new.do("store.import", lines=lines)
    # A job that has run may be another one of the same name: it comes again.
    assert (told["skipped"], told["added"]) == (5, 2)


def test_a_job_that_comes_while_it_is_exported_is_left_out() -> None:
    node = FakeNode()
    for _ in range(3):
        node.submit()
    first = node.do("store.export", limit=500)
    node.submit()
    second = node.do("store.export", after=first["next"])
    assert [line["id"] for line in second["lines"]] == [1, 2, 3]


def test_large_bodies_go_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.control.portable.PORTION_BYTES", 10_000)
    node = FakeNode()
    for _ in range(20):
        node.submit().body = b"x" * 3_000
    for job in node.broker.jobs.values():
        job.weight = len(job.body)
    pages: list[int] = []
    after = node.do("store.export")["next"]
    while after:
        page = node.do("store.export", after=after)
        pages.append(len(page["lines"]))
        after = page["next"]
    assert sum(pages) == 20
    assert max(pages) == 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"kind": "job", "queue": "", "type": "t", "policy": {}}, "needs a queue"),
        ({"kind": "job", "queue": "q" * 2_000, "type": "t", "policy": {}}, "longer than"),
        ({"kind": "job", "queue": "q", "type": "t", "policy": {"x": 1}}, "unknown field"),
        ({"kind": "job", "queue": "q", "type": "t", "policy": {}, "body": "?"}, "base64"),
        (
            {"kind": "job", "queue": "q", "type": "t", "policy": {}, "state": "retrying",
             "run_at": "soon"},
            "no moment",
        ),
        *(
            ({"kind": "job", "queue": "q", "type": "t", "policy": {}, name: number}, "Expected")
            for name in ("priority", "attempts", "failures")
            for number in (2**63, -(2**63) - 1)
        ),
        *(
            ({"kind": "job", "queue": "q", "type": "t", "policy": {}, "digest": number}, "64 bits")
            for number in (2**64, -(2**63) - 1)
        ),
        *(
            ({"kind": "job", "queue": "q", "type": "t", "policy": {name: 2**63}}, "Expected")
            for name in ("max_failures", "max_losses", "delay_ms", "lease_ms")
        ),
        *(
            ({"kind": "schedule", "id": "s", **rule,
              "job": {"kind": "job", "queue": "q", "type": "t", "policy": {}}}, said)
            for rule, said in (
                ({}, "at least 1000"), ({"every_ms": 999}, "at least 1000"),
                ({"every_ms": 2**63}, "Expected"),
                ({"every_ms": 2_000, "runs_left": 2**63}, "Expected"),
            )
        ),
        ({"kind": "thing"}, "Invalid value"),
        ({}, "required field"),
    ],
)  # fmt: skip
def test_a_wrong_line_does_not_keep_the_others_from_it(line: dict[str, Any], said: str) -> None:
    node = FakeNode()
    good = {"kind": "job", "queue": "q", "type": "t", "policy": {}}
    told = node.do("store.import", lines=[line, good])
    assert told["added"] == 1
    assert [one["place"] for one in told["refused"]] == [0]
    assert said in told["refused"][0]["error"]


def test_lines_are_taken_in_many_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.control.importing.AT_ONCE", 10)
    node = FakeNode()
    good = {"kind": "job", "queue": "q", "type": "t", "policy": {}}
    wrong = good | {"queue": ""}
    rule = {"kind": "schedule", "id": "s", "cron": "wrong", "job": good}
    asked: list[int] = []
    ask = node.ask

    async def counted(act: Any) -> Any:
        asked.append(node.broker.totals.pushed)
        return await ask(act)

    node.ask = counted  # type: ignore[method-assign]
    told = node.do("store.import", lines=[*[good] * 14, rule, wrong, *[good] * 10])
    assert (told["added"], told["skipped"]) == (24, 0)
    assert [one["place"] for one in told["refused"]] == [14, 15]
    assert asked == [0, 10, 19]


def test_a_full_disk_ends_an_import() -> None:
    node = FakeNode()
    node.broker.refusing_new = True
    with pytest.raises(StoreFull):
        node.do("store.import", lines=exported(full()))


def test_a_place_that_no_portion_names_is_refused() -> None:
    for after in ("x", "job:", "job:1", "job:1:x", f"job:{10**30}:1"):
        with pytest.raises(BadRequest):
            FakeNode().do("store.export", after=after)


@pytest.mark.parametrize("state", ["ready", "retrying", "dead"])
def test_what_is_imported_fits_into_a_store(state: str) -> None:
    numbers = {"priority": 2**62, "digest": 2**64 - 1, "attempts": 2**31 - 1, "failures": 2**31 - 1}
    policy = {
        "max_failures": 2**63 - 1,
        "max_losses": 2**63 - 1,
        "delay_ms": 2**62,
        "lease_ms": 2**62,
    }
    line = {"kind": "job", "queue": "q", "type": "t", "state": state, "policy": policy, **numbers}
    node = FakeNode()
    assert node.do("store.import", lines=[line])["added"] == 1
    if state != "dead":
        node.fail(node.lease("q"), "no")
    [job] = node.jobs()
    # As SQLite and msgpack have them.
    assert all(-(2**63) <= value < 2**63 for value in row_of(job) if isinstance(value, int))


@pytest.mark.parametrize("state", ["retrying", "dead"])
def test_of_what_is_said_of_runs_as_much_is_kept_as_of_any(state: str) -> None:
    long = "x" * 5_000
    run: dict[str, Any] = {
        "worker": long,
        "started_at": None,
        "ended_at": None,
        "outcome": "failed",
        "error": long,
    }
    run |= {"text": long, "trace": [long] * 60}
    line = {"kind": "job", "queue": "q", "type": "t", "state": state, "policy": {}, "attempts": 1}
    node = FakeNode()
    told = node.do("store.import", lines=[line | {"attempt_log": [run] * 30}])
    assert told["added"] == 1
    [job] = node.jobs()
    assert job.attempt_log
    assert len(job.attempt_log) <= node.limits.story_attempts
    assert attempt_log_bytes(job.attempt_log) < 100_000
    assert len(job.attempt_log[-1].holder + job.attempt_log[-1].error_kind) < 3_000


def test_every_choice_of_a_submitter_is_kept() -> None:
    assert asdict(KeptPolicy()) == asdict(Policy())


def test_moments_are_kept_to_the_millisecond() -> None:
    node, other = FakeNode(), FakeNode()
    node.submit(run_at=NOW + 90_007, created_at=1_234_567_890_123)
    node.submit(run_at=1 << 52)
    lines = json.loads(json.dumps(exported(node)))
    other.do("store.import", lines=lines)
    assert [job.run_at for job in other.broker.jobs.values()] == [NOW + 90_007, 1 << 52]
    assert other.broker.jobs[1].created_at == 1_234_567_890_123
