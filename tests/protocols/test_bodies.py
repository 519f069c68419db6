"""Every body has a rendering, however it is nested and however long it is."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from unittest.mock import patch

import pytest

from franca.core.model import Job, NewJob, Policy
from franca.protocols import bodies
from franca.protocols.bodies import BYTES, JSON_ARGS, as_bytes, as_json_args
from franca.protocols.eventmq.jobs import request_of
from tests.protocols.eventmq.puppet import World as EventmqWorld
from tests.protocols.faktory.puppet import World as FaktoryWorld
from tests.protocols.memodb.puppet import World as MemoDBWorld
from tests.support.memory import traced

MIB = 1024 * 1024
DEPTHS = [100, bodies.NESTING_MAX, 300, *range(900, 1_001, 5), 5_000]


def nested(depth: int, inside: bytes = b"\n") -> bytes:
    return b"[" * depth + inside + b"]" * depth


# -- nesting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        (nested(bodies.NESTING_MAX), False),
        (nested(bodies.NESTING_MAX + 64), True),
        (b"[" + b"[[]]," * 100_000 + b"1]", False),
        (b"[" + b'"[[[",' * 100_000 + b"1]", False),
        (b"[" + rb'"\"[\\",' * 100_000 + b"1]", False),
        (b"[" + b'{"a":"]",' * 400 + b"1]", True),
        (b'["' + b"\\\\" * 200_001 + b'",' + nested(400) + b"]", True),
        (b'["x' + b"\\\\" * 200_001 + b'",' + nested(400) + b"]", True),
        (b'["' + b"[" * 1_000 + b'\\""]', False),
        (b"[" + nested(120) * 10_000 + b"]", False),
    ],
)
def test_nesting_is_counted_outside_of_strings(text: bytes, deep: bool) -> None:
    assert bodies.is_deep(text) is deep


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_nested_body_is_shown_to_every_faktory_worker(depth: int) -> None:
    world = FaktoryWorld()
    worker = world.peer("w1")
    for media, body in (
        (BYTES, nested(depth)),
        (bodies.JSON_CALL, b'["run",{"args":%b,"kwargs":{"x":1}}]' % nested(depth)),
    ):
        world.broker.submit(NewJob("q", "fn", body, Policy(), "name-0001", media, "x"), world.now)
        reply = worker.call("FETCH q")
        assert "\n" not in reply.text
        args = reply.json["args"]
        if depth > bodies.NESTING_MAX:
            assert args == [body.decode()]
        assert worker.ack("name-0001").body == b"OK"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_nested_body_is_shown_to_every_memodb_worker(depth: int) -> None:
    world = MemoDBWorld()
    worker = world.worker("q")
    body = b'["run",{"path":"a","callable":"b","args":%b,"kwargs":{"x":1}}]' % nested(depth)
    world.foreign_job("q", body, bodies.JSON_CALL)
    payload = worker.given().payload
    if depth > bodies.NESTING_MAX:
        assert payload == body
    else:
        assert payload == b"[%b]" % body[7:-1]


@pytest.mark.parametrize("body", [b"", b"{", b"nul", b"\xff", b'{"args":1', nested(2_000)])
@pytest.mark.parametrize("media", [bodies.JSON_JOB, bodies.JSON_CALL])
def test_a_body_that_is_not_what_its_label_says_is_shown_whole(media: str, body: bytes) -> None:
    assert as_bytes(media, body) == body
    assert isinstance(json.loads(as_json_args(media, body)), list)


# -- size ------------------------------------------------------------------------------------------


def peak_of(media: str, body: bytes, shown: bytes | None) -> int:
    with traced() as memory:
        given = as_bytes(media, body) if media != BYTES else as_json_args(media, body)
        assert shown is None or given == shown
    return memory.peak


@pytest.mark.parametrize("char", [b"\0", b"\x7f", b"\n", b"[", b'["",', "é".encode(), b"\xff"])
def test_arguments_take_no_more_room_than_base64_in_two_copies(char: bytes) -> None:
    body = char * (12 * MIB // len(char))
    assert peak_of(BYTES, body, None) < 3 * len(body)
    assert as_bytes(JSON_ARGS, as_json_args(BYTES, body)) == body


@pytest.mark.parametrize("size", [bodies.CHUNK_BYTES, bodies.CHUNK_BYTES + 1, MIB])
def test_a_text_of_control_characters_is_shown_as_base64(size: int) -> None:
    assert as_json_args(BYTES, bytes(10)) == b'["%b"]' % (b"\\u0000" * 10)
    assert len(as_json_args(BYTES, bytes(size))) < 1.4 * size
    assert as_bytes(JSON_ARGS, as_json_args(BYTES, bytes(size))) == bytes(size)


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (b'["%b"]', None),
        ('["%b\U0001f600"]'.encode(), None),
        (b'["%b\\ud83d\\ude00"]', b'["%b\\ud83d\\ude00"]'),
        (b'["%b","b"]', b'["%b","b"]'),
        (b'["%b\\"]"]', b'["%b\\"]"]'),
        (b'[ "%b"]', b'[ "%b"]'),
    ],
)
def test_one_long_string_is_its_text_without_decoding(args: bytes, shown: bytes | None) -> None:
    long = b"x" * (bodies.LOOK_BYTES_MAX + 1)
    text = args[2:-2].replace(b"%b", long) if shown is None else shown.replace(b"%b", long)
    body = args.replace(b"%b", long)
    assert peak_of(JSON_ARGS, body, text) < 1.2 * len(body)


@pytest.mark.parametrize("inside", [b"", b'","x":"', b"A=A=", b"\xc3\xa9", b"AA"])
def test_long_base64_alone_is_what_it_stands_for(inside: bytes) -> None:
    long = b"AAAA" * (bodies.LOOK_BYTES_MAX // 4)
    args = b'[{"base64":"%b%b"}]' % (long, inside)
    assert as_bytes(JSON_ARGS, args) == (args if inside else bytes(bodies.LOOK_BYTES_MAX // 4 * 3))
    job = b'{"jid":"j","args":%b,"x":[2]}' % args
    assert as_bytes(bodies.JSON_JOB, job) == as_bytes(JSON_ARGS, args)


def test_long_base64_in_a_job_is_decoded_without_a_copy() -> None:
    meant = bytes(12 * MIB)
    job = b'{"jid":"j","args":%b}' % as_json_args(BYTES, meant)
    assert peak_of(bodies.JSON_JOB, job, meant) < 1.1 * len(meant)


@pytest.mark.parametrize("jid", ["jid-0001", 'a,"args":[1', 'a\\","args":["', "jid-é\n,\\"])
@pytest.mark.parametrize("args", ['["%s"]', '[[["%s"]],"]",[]]', '["%s],\\"reserve_for\\":1}"]'])
@pytest.mark.parametrize("members", [{}, {"backtrace": 5}, {"custom": {"args": [{"a": "]"}]}}])
def test_a_long_jobs_arguments_are_kept(jid: str, args: str, members: dict[str, object]) -> None:
    world = FaktoryWorld()
    client = world.peer("w1")
    text = args.replace("%s", "x" * bodies.LOOK_BYTES_MAX)
    unit = json.dumps({"jid": jid, "jobtype": jid, "queue": "q", **members})
    client.send(b'PUSH %b,"args":%b}\r\n' % (unit[:-1].encode(), text.encode()))
    (job,) = world.jobs()
    with patch.object(bodies, "_JOB", wraps=bodies._JOB) as reader:
        assert as_json_args(job.media, job.body) == text.encode()
        assert reader.decode.called is ("custom" in members)
        assert as_bytes(job.media, job.body) == as_bytes(JSON_ARGS, text.encode())


@pytest.mark.parametrize(
    "body", [b"{" + b"x" * bodies.LOOK_BYTES_MAX, b'{"args":[' + b"1," * 3 * MIB]
)
def test_a_long_job_that_cannot_be_read_is_shown_as_it_is(body: bytes) -> None:
    assert as_bytes(bodies.JSON_JOB, body) is body


@pytest.mark.parametrize("more", range(1, 5))
def test_a_long_value_in_one_piece_is_written_once(more: int) -> None:
    raw = b"\xff\x01" * (6 * MIB) + b"\x02" * more
    shown = b'{"value":{"base64":"%b"}}' % b64encode(raw)
    with traced() as memory:
        assert bodies.in_one_piece(b'{"value":', raw, b"}") == shown
    assert memory.peak < 1.6 * len(raw)


@pytest.mark.parametrize("raw", [b"", b"text", b"\xff", b"x" * bodies.LOOK_BYTES_MAX])
def test_a_value_in_one_piece_is_the_same_as_in_many(raw: bytes) -> None:
    assert bodies.in_one_piece(b"<", raw, b">") == b"<%b>" % b"".join(bodies.json_value(raw))


# -- what workers are sent -------------------------------------------------------------------------


def peak_of_rendering(render: Callable[[Job], list[bytes]], job: Job) -> tuple[bytes, int]:
    with traced() as memory:
        pieces = render(job)
    return b"".join(pieces), memory.peak


def test_a_long_body_is_written_once_for_a_faktory_worker() -> None:
    world = FaktoryWorld()
    body = b"\xff" * 12 * MIB
    new = NewJob("q", "fn", body, Policy(), "name-0001", BYTES, "x")
    job = world.broker.submit(new, world.now)
    reply, peak = peak_of_rendering(world.service.renderer.long_reply, job)
    assert peak < 2.2 * len(body)  # what the encoder takes for a moment
    assert reply == world.service.renderer.reply(job)
    size, _, unit = reply.partition(b"\r\n")
    assert int(size[1:]) == len(unit) - 2
    assert json.loads(unit)["args"] == [{"base64": b64encode(body).decode()}]
    worker = world.peer("w1")
    assert (worker.call("FETCH q").body, worker.waited_for_commit) == (unit[:-2], True)


@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1, 12 * MIB])
def test_a_long_body_is_written_once_for_an_eventmq_worker(size: int) -> None:
    world = EventmqWorld()
    worker = world.worker((10, "default"), slots=1)
    body = b"\xff" * size
    new = NewJob("default", "a.b.c", body, Policy(lease_ms=7_000), "name-1", BYTES, "x")
    job = world.broker.submit(new, world.now)
    request, peak = peak_of_rendering(request_of, job)
    assert peak < 2.2 * size or size < MIB
    world.run()
    assert request in worker.unread
    given = worker.take()
    assert given[:3] == (b"name-1", b"default", b"timeout:7,reply-requested")
    call = {"callable": "c", "path": "a.b", "args": [{"base64": b64encode(body).decode()}]}
    empty: dict[str, object] = {"kwargs": {}, "class_args": [], "class_kwargs": {}}
    assert json.loads(given.body) == ["run", call | empty]
