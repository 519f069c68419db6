"""Numbers, lists and texts of operations, at their bounds and beyond them."""

import difflib
import json
import typing
from typing import Any

import msgspec
import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from franca.control import jobs, queues, views
from franca.control.operations import OPERATIONS
from franca.control.port import BadRequest
from franca.core.errors import NotFound
from franca.core.model import State
from tests.control.kit import NOW, FakeNode

PUSH: dict[str, Any] = {"queue": "q", "type": "t"}
ID_MAX = 2**63 - 1


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_number_and_list_has_a_bound(name: str) -> None:
    hints = typing.get_type_hints(OPERATIONS[name].params, include_extras=True)
    for field, hint in hints.items():
        text = str(hint)
        bounds = [meta for meta in _metas(hint) if meta.le is not None or meta.max_length]
        if "int" in text.replace("Constraint", "") or "list" in text:
            assert bounds, f"{name}: {field} is {text}"


def _metas(hint: Any) -> list[Meta]:
    found = [meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, Meta)]
    for inner in typing.get_args(hint):
        found += _metas(inner)
    return found


@pytest.mark.parametrize(
    ("op", "params", "good", "bad"),
    [
        ("jobs.push", PUSH, {"in_ms": jobs.LATEST_MS - NOW}, {"in_ms": jobs.LATEST_MS - NOW + 1}),
        ("jobs.push", PUSH, {"in_ms": 0}, {"in_ms": 17_280_000_000_000_000_000}),
        ("jobs.push", PUSH, {"in_ms": 1}, {"in_ms": -1}),
        ("jobs.push", PUSH, {"retry": 2**31 - 1}, {"retry": 2**31}),
        ("jobs.push", PUSH, {"retry": 0}, {"retry": 2**64}),
        ("jobs.push", PUSH, {"retry": 1}, {"retry": 10**40}),
        ("jobs.push", PUSH, {"lease_ms": 1_000}, {"lease_ms": 999}),
        ("jobs.push", PUSH, {"lease_ms": 86_400_000}, {"lease_ms": 86_400_001}),
        ("jobs.push", PUSH, {"at": "9999-12-31T23:59:59Z"}, {"at": "9999-12-31T23:59:59-23:59"}),
        ("jobs.push", PUSH, {"at": "0001-01-01T00:00:00+14:00"}, {"at": "10000-01-01T00:00:00Z"}),
        ("jobs.find", {}, {"limit": 1_000}, {"limit": 1_001}),
        ("jobs.find", {}, {"limit": 1}, {"limit": 0}),
        ("jobs.find", {}, {"after": ID_MAX - 1}, {"after": ID_MAX}),
        ("jobs.find", {}, {"after": 0}, {"after": -1}),
        ("jobs.find", {}, {"after": ID_MAX - 1, "newest_first": True}, {"after": 10**40}),
        ("jobs.find", {}, {"states": ["ready"] * 6}, {"states": ["ready"] * 7}),
        ("jobs.retry", {}, {"jobs": [1] * 10_000}, {"jobs": [1] * 10_001}),
        ("jobs.retry", {}, {"jobs": [ID_MAX, -ID_MAX]}, {"jobs": [ID_MAX + 1]}),
        ("queues.pause", {}, {"queues": ["q"] * 10_000}, {"queues": ["q"] * 10_001}),
        ("workers.quiet", {}, {"workers": ["w"] * 10_000}, {"workers": ["w"] * 10_001}),
    ],
)
def test_what_is_at_its_bound_is_taken_and_what_is_beyond_it_is_not(
    node: FakeNode, op: str, params: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    node.submit()
    node.do(op, **params | good)
    line = json.dumps({"op": op, "params": params | bad}).encode()
    assert node.say(line)["error"]["code"] == "bad-request"


@pytest.mark.parametrize("digits", [str(ID_MAX + 1), "9" * 5_000])
def test_a_number_that_can_be_no_id_is_refused(node: FakeNode, digits: str) -> None:
    reply = node.say(b'{"op":"jobs.show","params":{"job":%s}}' % digits.encode())
    assert reply["error"]["code"] == "bad-request"


def test_a_moment_long_past_is_now(node: FakeNode) -> None:
    pushed = node.do("jobs.push", **PUSH, at="0001-01-01T00:00:00Z")
    assert pushed["state"] == "ready"
    assert node.broker.jobs[pushed["id"]].state is State.READY


@pytest.mark.parametrize(
    ("args", "fits"),
    [
        (b"[" * 128 + b"]" * 128, True),
        (b"[" * 129 + b"]" * 129, False),
        (b"[" * 900 + b"]" * 900, False),
        (b"[" + b'{"a":' * 127 + b"1" + b"}" * 127 + b"]", True),
        (b"[" + b'{"a":' * 128 + b"1" + b"}" * 128 + b"]", False),
        (b"[" + b",".join([b"[[]]"] * 500) + b"]", True),
        (b'["' + b"[" * 500 + b'"]', True),
        (b'["\\"' + b"[" * 500 + b'\\\\"]', True),
        (b'["\\\\",' + b"[" * 500 + b"]" * 500 + b"]", False),
    ],
)
def test_arguments_are_nested_no_deeper_than_any_message(
    node: FakeNode, args: bytes, fits: bool
) -> None:
    reply = node.say(b'{"op":"jobs.push","params":{"queue":"q","type":"t","args":%s}}' % args)
    assert reply["ok"] is fits
    assert fits or "nested" in reply["error"]["text"]


def test_large_arguments_are_taken_as_they_are(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LARGE_BYTES", 10)
    args = b'[ 1, "\xc3\xa9", 3, 4 ]'
    reply = node.say(b'{"op":"jobs.push","params":{"queue":"q","type":"t","args":%s}}' % args)
    assert node.broker.jobs[reply["result"]["id"]].body == args
    bad = args.replace(b"\xa9", b"")
    reply = node.say(b'{"op":"jobs.push","params":{"queue":"q","type":"t","args":%s}}' % bad)
    assert reply["error"]["code"] == "bad-request"


def test_a_long_name_of_an_operation_is_not_compared_with_those_there_are(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(*_: object) -> list[str]:
        raise AssertionError("it takes longer than anybody would wait")

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    reply = node.say(b'{"op":"' + b"server.status" * 100_000 + b'"}')
    assert reply["error"]["code"] == "bad-request"
    assert len(reply["error"]["text"]) < 200


@pytest.mark.parametrize(
    "params",
    [
        b'{"queues":[' + b",".join([b'"q"'] * 200_000) + b"]}",
        b'{"queues":["' + b"q" * (13 << 20) + b'"]}',
    ],
)
def test_a_list_that_is_too_long_is_not_even_read(
    node: FakeNode, params: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = replace(OPERATIONS["queues.pause"], params=Unreadable)
    monkeypatch.setitem(OPERATIONS, "queues.pause", unreadable)
    reply = node.say(b'{"op":"queues.pause","params":%s}' % params)
    assert reply["error"]["code"] == "too-much"


class Unreadable(Struct):
    """Parameters that nobody may read."""

    def __post_init__(self) -> None:
        raise AssertionError("they are read")


def test_a_refusal_quotes_no_more_than_somebody_would_read(node: FakeNode) -> None:
    reply = node.say(
        msgspec.json.encode({"op": "queues.pause", "params": {"queues": ["q" * 10**6]}})
    )
    assert reply["error"]["code"] == "not-found"
    assert len(reply["error"]["text"]) < 3_000


def test_large_bodies_are_shown_as_small_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [b"[1, 2]", b"[1,\n2]", b"[1,", "\u00e9\u00e9\u00e9".encode(), b"\xc3", b"ab\xffcd"]
    small = [msgspec.json.decode(msgspec.json.encode(views.content(body))) for body in bodies]
    monkeypatch.setattr(views, "LARGE_BYTES", 3)
    large = [msgspec.json.decode(msgspec.json.encode(views.content(body))) for body in bodies]
    assert small == large
    assert all(b"\n" not in msgspec.json.encode(views.content(body)) for body in bodies)


def test_a_backup_has_no_path_with_a_nul(node: FakeNode) -> None:
    with pytest.raises(BadRequest, match="NUL"):
        node.do("server.backup", path="/tmp/a\0b")


def test_many_queues_are_listed_and_acted_on_some_at_a_time(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "LISTED_QUEUES", 3)
    monkeypatch.setattr(queues, "ACTED_QUEUES", 3)
    names = [f"q{number:02}" for number in range(20)]
    for name in reversed(names):
        node.submit(name)
    asked = 0
    ask = node.ask

    async def counted(act: Any) -> Any:
        nonlocal asked
        asked += 1
        return await ask(act)

    node.ask = counted  # type: ignore[method-assign]
    assert [view["queue"] for view in node.do("queues.list")["queues"]] == names
    assert asked == 8
    assert node.do("queues.pause", queues=names)["queues"] == names
    assert all(queue.paused for queue in node.broker.queues.values())
    assert node.do("queues.purge", queues=names)["jobs"] == 20
    assert asked == 8 + 2 * 8
    with pytest.raises(NotFound):
        node.do("queues.resume", queues=[*names, "none"])
    assert all(queue.paused for queue in node.broker.queues.values())
    assert FakeNode().do("queues.list") == {"queues": []}
