"""Every operation, asked of a server with a job in each state: its result is what it says it is."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from franca.control.operations import OPERATIONS, perform
from franca.core.model import Policy
from tests.control.kit import NOW, FakeNode

RETRIED = Policy(max_failures=5, delay_ms=60_000)
PARAMS: dict[str, Any] = {
    "jobs.push": {"queue": "a", "type": "t"},
    "jobs.submit": {"jobs": [{"queue": "a", "type": "t"}, {"queue": ""}]},
    "jobs.show": {"job": 1},
    "jobs.get": {"job": 1},
    "jobs.retry": {"jobs": [5]},
    "jobs.kill": {"jobs": [1]},
    "jobs.cancel": {"jobs": [1]},
    "jobs.delete": {"jobs": [1]},
    "jobs.act": {"action": "retry", "ids": [5]},
    "operations.show": {"id": "op-1"},
    "operations.stop": {"id": "op-1"},
    "queues.show": {"queue": "a"},
    "queues.pause": {"queues": ["a"]},
    "queues.resume": {"queues": ["a"]},
    "queues.purge": {"queues": ["a"]},
    "workers.quiet": {"workers": ["anna"]},
    "workers.stop": {"all": True},
    "schedules.show": {"id": "nightly"},
    "schedules.create": {"id": "hourly", "queue": "a", "type": "t", "every_ms": 3_600_000},
    "schedules.edit": {"id": "nightly", "args": [2]},
    "schedules.run": {"id": "nightly"},
    "schedules.pause": {"id": "nightly"},
    "schedules.resume": {"id": "nightly"},
    "schedules.delete": {"id": "nightly"},
    "store.import": {"lines": []},
    "queues.list": {"recent": True},
    "work.lease": {"queues": ["a"]},
}
FAILS = ("server.backup",)


def full_node() -> FakeNode:
    """One job in each state, a schedule, an action that is over, and some samples."""
    node = FakeNode()
    asyncio.run(node.observer.look(node))
    node.submit("a", run_at=NOW + 90_000)
    node.submit("r", policy=RETRIED)
    node.fail(node.lease("r"), "no 17")
    node.submit("l")
    node.lease("l")
    done = node.submit("d")
    node.lease("d")
    node.broker.finish(done, done.holder, b"[true]", NOW + 1)
    node.submit_dead("a", name="gone")
    node.broker.cancel(node.submit("a"), NOW)
    node.submit("a")
    node.commit()
    node.do("schedules.create", id="nightly", queue="a", type="t", cron="0 3 * * *")
    for _ in range(3):
        node.now += 15_000
        asyncio.run(node.observer.look(node))
    node.do_all(("jobs.act", {"action": "cancel", "q": "queue:none"}))
    return node


def params_of(name: str, node: FakeNode) -> Any:
    if name.startswith("work.") and name not in PARAMS:
        leased = node.do("work.lease", queues=["a"])
        return {"job": leased["job"]["id"], "token": leased["token"]}
    return PARAMS.get(name, {})


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in FAILS])
def test_its_result_is_what_it_says_it_is(name: str) -> None:
    node = full_node()
    params = Raw(msgspec.json.encode(params_of(name, node)))
    result = msgspec.json.encode(asyncio.run(perform(node, name, params)))
    msgspec.json.decode(result, type=OPERATIONS[name].result, strict=True)
    assert b"into" not in result


def test_counts_are_those_of_the_states() -> None:
    assert full_node().do("counts") == {
        "scheduled": 1, "retrying": 1, "ready": 1, "running": 1, "done": 1, "dead": 1,
        "cancelled": 1,
    }  # fmt: skip
