"""The table of operations, and those about the server, its queues and its workers."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from franca.control import workers as control_workers
from franca.control.operations import OPERATIONS, perform
from franca.control.port import BadRequest
from franca.control.views import worker_view
from franca.core.errors import NotFound
from franca.core.model import NEVER, Millis
from franca.protocols.service import RunView, WorkerView
from tests.control.kit import NOW, FakeNode


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        (b"nonsense", "bad-request", "not a request"),
        (b"", "bad-request", "not a request"),
        (b"[]", "bad-request", "not a request"),
        (b"\xff\xfe", "bad-request", "not a request"),
        (b"[" * 100_000, "bad-request", "not a request"),
        (b'{"op":"jobs.finds"}', "bad-request", "did you mean jobs.find?"),
        (b'{"op":"jobs.find","extra":1}', "bad-request", "not a request"),
        (b'{"op":"jobs.find","params":{"limit":0}}', "bad-request", "jobs.find: "),
        (b'{"op":"jobs.find","params":[]}', "bad-request", "jobs.find: "),
        (b'{"op":"jobs.find","params":{"quue":"q"}}', "bad-request", "quue"),
        (b'{"op":"jobs.show","params":{"job":"x"}}', "not-found", "there is no job x"),
        (b'{"op":"server.backup","params":{"path":"/there"}}', "failed", "/there exists"),
    ],
)
def test_a_bad_line_gets_one_clear_answer(
    node: FakeNode, line: bytes, code: str, text: str
) -> None:
    reply = node.say(line)
    assert reply["ok"] is False
    assert reply["error"]["code"] == code
    assert text in reply["error"]["text"]


def test_a_good_line_gets_its_result(node: FakeNode) -> None:
    assert node.say(b'{"op":"server.status"}') == {
        "ok": True,
        "result": {"version": "test", "pid": 1},
    }


NOUNS = [
    "server",
    "store",
    "jobs",
    "operations",
    "queues",
    "types",
    "workers",
    "schedules",
    "errors",
    "work",
    "audit",
]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_says_what_it_is_for_and_who_may_call_it(name: str) -> None:
    operation = OPERATIONS[name]
    noun, _, verb = name.partition(".")
    assert noun in NOUNS if verb else noun in ("overview", "counts", "known", "health", "history")
    assert operation.role in ("viewer", "operator", "admin")
    assert operation.summary
    assert len(operation.summary) < 60
    assert not operation.summary.endswith(".")
    assert getattr(operation.run, "func", operation.run).__doc__


@pytest.mark.parametrize("name", OPERATIONS)
def test_whoever_may_only_look_changes_nothing(name: str) -> None:
    looks = name.partition(".")[2] in ("", "list", "show", "find", "search", "get", "status")
    assert (looks and name != "audit.list") is (OPERATIONS[name].role == "viewer")


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_it_takes_and_answers_can_be_written_down(name: str) -> None:
    operation = OPERATIONS[name]
    msgspec.json.schema(operation.params)
    msgspec.json.schema(operation.result)


def test_stop_is_passed_on(node: FakeNode) -> None:
    assert node.do("server.stop") == {"stopping": True}
    assert node.stopping


def test_a_backup_needs_an_absolute_path(node: FakeNode) -> None:
    with pytest.raises(BadRequest):
        node.do("server.backup", path="here.db")


# -- queues -----------------------------------------------------------------------------------


def queues(node: FakeNode) -> dict[str, dict[str, Any]]:
    return {view["queue"]: view for view in node.do("queues.list")["queues"]}


def test_queues_are_counted(node: FakeNode) -> None:
    node.submit("b")
    node.submit("b")
    node.lease("b")
    node.submit("a", run_at=node.now + 1)
    node.submit_dead("a")
    node.now += 500

    listed = queues(node)
    assert list(listed) == ["a", "b"]
    assert (listed["a"]["scheduled"], listed["a"]["dead"], listed["a"]["oldest_ms"]) == (1, 1, None)
    assert (listed["b"]["ready"], listed["b"]["leased"], listed["b"]["oldest_ms"]) == (1, 1, 500)


def test_a_queue_is_paused_and_resumed(node: FakeNode) -> None:
    node.submit("a")
    node.do("queues.pause", queues=["a"])
    assert queues(node)["a"]["paused"] is True
    assert node.store.queues["a"].paused is True
    node.do("queues.resume", queues=["a"])
    assert queues(node)["a"]["paused"] is False


def test_a_purge_tells_how_many_jobs_it_ended(node: FakeNode) -> None:
    for _ in range(3):
        node.submit("a")
    node.submit("a", run_at=node.now + 1)
    assert node.do("queues.purge", queues=["a"])["jobs"] == 3
    assert (queues(node)["a"]["ready"], queues(node)["a"]["scheduled"]) == (0, 1)


@pytest.mark.parametrize("op", ["queues.pause", "queues.resume", "queues.purge"])
def test_one_unknown_queue_leaves_all_as_they_were(node: FakeNode, op: str) -> None:
    node.submit("a")
    with pytest.raises(NotFound):
        node.do(op, queues=["a", "nowhere"])
    assert (queues(node)["a"]["ready"], queues(node)["a"]["paused"]) == (1, False)
    assert "nowhere" not in queues(node)


# -- workers ----------------------------------------------------------------------------------


def test_workers_are_listed(node: FakeNode) -> None:
    listed = node.do("workers.list")["workers"]
    assert [(w["name"], w["protocol"], w["labels"]) for w in listed] == [
        ("anna", "some", ["blue"]),
        ("bert", "some", ["blue"]),
    ]


def test_who_serves_a_queue_is_counted_the_same_everywhere(node: FakeNode) -> None:
    node.two.queues = ["a", "a"]
    node.submit("a")
    node.submit("b")
    listed, recent = node.do("queues.list"), node.do("queues.list", recent=True)
    for rows in (listed["queues"], recent["queues"], node.do("overview")["queues"]):
        assert {row["queue"]: row["workers"] for row in rows} == {"a": 2, "b": 0}
    shown = node.do("queues.show", queue="a")
    assert (shown["workers"], shown["serving"]) == (2, ["anna", "bert"])
    node.two.queues = []
    node.now += 1_000
    node.do("queues.pause", queues=["b"])
    assert {row["workers"] for row in node.do("queues.list")["queues"]} == {0}
    assert node.do("queues.show", queue="a")["workers"] == 0


def test_many_workers_are_looked_at_a_few_in_each_pass_of_the_loop(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    [anna, _] = node.two.workers()
    passes, most = 0, 0
    made = 0

    def many(now: Millis = NEVER) -> Iterator[WorkerView]:
        nonlocal made
        for number in range(1_000):
            made += 1
            yield replace(anna, name=f"w{number}", queues=["a", "b"])

    async def count_passes(work: Coroutine[Any, Any, object]) -> object:
        nonlocal passes, most, made
        task = asyncio.ensure_future(work)
        while not task.done():
            before = made
            await asyncio.sleep(0)
            passes, most = passes + 1, max(most, made - before)
        return await task

    monkeypatch.setattr(node.two, "workers", many)
    monkeypatch.setattr(control_workers, "LOOKED_AT_ONCE", 30)
    monkeypatch.setattr(control_workers, "ACTED_WORKERS", 10)
    for name, params in (
        ("workers.list", b"{}"),
        ("workers.find", b"{}"),
        ("workers.quiet", b'{"all":true}'),
        ("overview", b"{}"),
        ("known", b"{}"),
        ("queues.list", b"{}"),
        ("queues.show", b'{"queue":"a"}'),
    ):
        node.submit("a")
        node.now += 30_000
        passes = most = made = 0
        asyncio.run(count_passes(perform(node, name, Raw(params))))
        # A look has 10 workers with what they serve; a few calls may look for two reasons.
        assert made >= 1_000, name
        assert passes >= (200 if "quiet" in name else 100), name
        assert most <= 10, name


def test_a_list_of_workers_is_bounded_and_says_how_many_there_are(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for op in ("workers.find", "workers.list"):
        found = node.do(op, limit=1)
        assert ([one["name"] for one in found["workers"]], found["total"]) == (["anna"], 2)
        found = node.do(op, name="bert", limit=1)
        assert ([one["name"] for one in found["workers"]], found["total"]) == (["bert"], 1)
        with pytest.raises(BadRequest):
            node.do(op, limit=control_workers.LISTED_MAX + 1)
    assert node.do("workers.find")["total"] == 2
    [anna, _] = node.two.workers()
    many = [replace(anna, name=f"w{number}") for number in range(control_workers.LISTED_MAX + 1)]
    monkeypatch.setattr(node.two, "workers", lambda now: iter(many))
    found = node.do("workers.find")
    assert (len(found["workers"]), found["total"]) == (10_000, 10_001)
    assert node.do("workers.quiet", all=True)["count"] == 0


def test_a_list_of_many_workers_is_made_once_for_a_crowd(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    [anna, _] = node.two.workers()
    looks = 0

    def many(now: Millis = NEVER) -> Iterator[WorkerView]:
        nonlocal looks
        looks += 1
        return (replace(anna, name=f"w{number}") for number in range(control_workers.MANY))

    async def ask_all() -> None:
        await asyncio.gather(*(perform(node, "workers.find") for _ in range(20)))

    monkeypatch.setattr(node.two, "workers", many)
    asyncio.run(ask_all())
    assert looks == 2, "one to know how many there are, and one for the list"
    node.do("workers.quiet", workers=["w1"])
    node.do("workers.find")
    assert looks == 3, "what was changed is seen at once"


def test_workers_are_asked_by_name_or_all(node: FakeNode) -> None:
    assert node.do("workers.quiet", workers=["anna", "zoe"]) == {"count": 1, "missing": ["zoe"]}
    assert node.do("workers.stop", all=True) == {"count": 2, "missing": []}
    assert node.two.asked == [("anna", "quiet"), ("anna", "stop"), ("bert", "stop")]


def test_many_workers_are_asked_a_few_in_each_turn(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_workers, "ACTED_WORKERS", 2)
    turns = 0
    ask = node.ask

    async def counted(act: Any) -> Any:
        nonlocal turns
        turns += 1
        return await ask(act)

    monkeypatch.setattr(node, "ask", counted)
    names = ["zoe", "anna", "yan", "xia", "wes"]
    answer = node.do("workers.quiet", workers=names)
    assert answer == {"count": 1, "missing": ["zoe", "yan", "xia", "wes"]}
    assert turns == 3


@pytest.mark.parametrize("params", [{}, {"workers": ["anna"], "all": True}])
def test_it_must_be_said_which_workers(node: FakeNode, params: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        node.do("workers.quiet", **params)


@pytest.mark.parametrize(
    ("protocol", "state", "shown"),
    [
        *(("faktory", state, "running") for state in ("busy", "idle", "stalled")),
        ("gearman", "quiet", "quiet"),
        ("faktory", "stopping", "terminate"),
        ("eventmq", "stopping", "leaving"),
        ("gearman", "stopping", "quiet"),
    ],
)
def test_the_state_of_a_worker_is_shown_in_the_words_of_earlier_versions(
    protocol: str, state: str, shown: str
) -> None:
    run = RunView(7, "k", "q", NOW)
    worker = WorkerView(
        name="w",
        protocol=protocol,
        host="h",
        state=state,
        started_at=NOW,
        seen_at=NOW,
        running=[run],
    )
    view = worker_view(worker)
    assert view["state"] == shown
    assert view["running"] == [{"id": 7, "type": "k", "queue": "q", "started_at": view["seen_at"]}]
    assert view["fetched_at"] is None
