"""Jobs and results that cross from one protocol to another."""

import json

import pytest

from franca.protocols.bodies import JSON_CALL, as_json_args
from franca.protocols.eventmq.results import bare_value
from tests.support.eventmq import call


@pytest.mark.parametrize(
    ("body", "args"),
    [
        (call("a.b", 1, "two"), b'[1, "two"]'),
        (b'["run", {"path": "a", "callable": "b"}]', b"[]"),
        (b'["run",{"path":"a","callable":"b","args":[1.0,  2]}]', b"[1.0,  2]"),
        (b'["run", {"args": 5}]', b'[{"args": 5}]'),
        (b'["run", {"args": [1], "kwargs": {"a": 2}}]', b'[{"args": [1], "kwargs": {"a": 2}}]'),
        (b'["run", {"args": [], "class_args": [3]}]', b'[{"args": [], "class_args": [3]}]'),
    ],
)
def test_a_call_is_shown_to_others_as_its_arguments(body: bytes, args: bytes) -> None:
    assert as_json_args(JSON_CALL, body) == args
    json.loads(args)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (b'{"value": "text"}', b"text"),
        (b'{"value": "\xc3\xbc"}', "ü".encode()),
        (b'{"value": null}', b""),
        (b'{"value": [1, 2]}', b"[1, 2]"),
        (b'{"value": 5}', b"5"),
        (b"no json", b"no json"),
        (b'{"other": 1}', b'{"other": 1}'),
        (b"[" * 100_000, b"[" * 100_000),
        (b'{"value": NaN}', b'{"value": NaN}'),
    ],
)
def test_a_result_is_shown_to_others_as_its_bare_value(result: bytes, shown: bytes) -> None:
    assert bare_value(result) == shown
