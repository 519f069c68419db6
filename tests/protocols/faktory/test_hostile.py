"""Whatever comes in: nothing is raised, nothing hangs, and cuts in the stream change nothing."""

import json
import re
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from franca.control.views import whole
from franca.core.limits import Limits
from franca.protocols.bodies import as_bytes, as_json_args
from franca.protocols.faktory.go_json import Unfit, check, run_steps
from tests.protocols.faktory.puppet import Puppet, World
from tests.support.faktory import ack_line, fail_line, job, mutate_line, said

JIDS = st.sampled_from(["jid-0001", "jid-0002", "short", "jid-\0000"])
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)  # fmt: skip
MEMBERS = st.dictionaries(
    st.sampled_from(
        ["jid", "JID", "jobtype", "args", "queue", "retry", "at", "custom", "failure",
         "reserve_for", "created_at", "enqueued_at", "backtrace", "priority", "x"]
    ),
    JUNK,
)  # fmt: skip
UNITS = st.builds(lambda jid, extra: job(jid) | extra, JIDS, MEMBERS)


# Values as nobody's encoder writes them. The long ones are written as what they are made of.
LONG = {
    "<digits>": "9" * 400, "<more digits>": "9" * 5_000, "<digits and exponent>": "1" * 300 + "e99",
    "<deep>": "[" * 130 + "]" * 130, "<deeper>": "[" * 1_100 + "]" * 1_100, "<objects>": '{"a":' * 130 + "1" + "}" * 130,
}  # fmt: skip
TEXTS = st.sampled_from(
    [*LONG, "1e400", "-1e999", "1e308", "-99999999999999999999", "0.5", "1.0", "9223372036854775807", "9223372036854775808",
     "-9223372036854775809", "01", "1e", "-", "NaN", "null", "true", "{}", "[]", '"x"', '""', '"\x01"', '"\x7f"',
     '{"retry_count":2}', '{"retry_count":9223372036854775807,"remaining":-9223372036854775808}',
     '{"retry_count":-5,"backtrace":[null,"x"]}', '{"remaining":"x"}', r'"\ud800"', r'"\ude00\ud83d"', r'"\u0000"', r'"\x"',
     '"2030-01-01T00:00:00Z"', '"0000-00-00T00:00:00Z"', '"9999-12-31T23:59:60.999999999999-23:59"', "[1e400]",
     r'["\ud800",{"\udfff":[1E+999]}]', "[1, 2\t,3 ]", '{"wid":"w1"}', r'{"jids":["\ud800"]}', r'{"jobtype":"[*?\\"}',
     r'{"regexp":"[^\ud800-"}', '"clear"', '"requeue"', '"dead"', '"scheduled"']
).map(lambda text: LONG.get(text, text))  # fmt: skip
NAMES = st.sampled_from(
    ["jid", "JID", "jobtype", "args", "queue", "retry", "at", "custom", "failure", "reserve_for", "created_at",
     "enqueued_at", "backtrace", "priority", "x", "wid", "message", "errtype", "v", "pid", "labels", "rss_kb",
     "current_state", "cmd", "target", "filter", r"\ud800", "k\xff"]
)  # fmt: skip
OBJECTS = st.lists(st.tuples(NAMES, TEXTS), max_size=6).map(
    lambda members: "{" + ",".join(f'"{name}":{value}' for name, value in members) + "}"
)
JOBS = st.builds(
    lambda jid, members: f'{{"jid":"{jid}","jobtype":"t","args":[1],{members[1:]}', JIDS, OBJECTS
)
ODD_LINES = st.builds(
    lambda verb, text: f"{verb} {text}".encode("latin-1"),
    st.sampled_from(["PUSH", "ACK", "FAIL", "BEAT", "MUTATE", "HELLO"]),
    OBJECTS | JOBS | TEXTS,
) | st.lists(OBJECTS | JOBS | TEXTS, max_size=3).map(
    lambda texts: f"PUSHB [{','.join(texts)}]".encode("latin-1")
)


def dumps(value: object) -> str:
    return json.dumps(value, allow_nan=True)


LINES = st.one_of(
    ODD_LINES,
    UNITS.map(lambda unit: f"PUSH {dumps(unit)}".encode()),
    st.lists(UNITS, max_size=3).map(lambda units: f"PUSHB {dumps(units)}".encode()),
    st.sampled_from([b"FETCH", b"FETCH default", b"FETCH a b", b"FETCH  x", b"FETCH a a"]),
    JIDS.map(lambda jid: ack_line(jid).encode()),
    st.builds(lambda jid, text: fail_line(jid, text).encode(), JIDS, st.text(max_size=20)),
    st.builds(lambda wid, state: f"BEAT {dumps({'wid': wid, 'current_state': state})}".encode(),
              st.sampled_from(["w1", "w2", ""]), JUNK),
    st.builds(lambda cmd, target, junk: f"MUTATE {dumps({'cmd': cmd, 'target': target, 'filter': junk})}".encode(),
              st.sampled_from(["clear", "kill", "requeue", "x"]),
              st.sampled_from(["dead", "retries", "scheduled", "x"]), JUNK),
    st.sampled_from([b"INFO", b"FLUSH", b"INFO x", b"QUEUE PAUSE *", b"QUEUE RESUME *", b"QUEUE",
                     b"QUEUE REMOVE default", b"QUEUE LATENCY default x", b"TRACK", b"BATCH", b"",
                     b"\xff\xfe", b"PUSH \xff", b"A\rB", b"ACK {", b"HELLO {}"]),
    st.binary(max_size=40).filter(lambda data: b"\n" not in data),
)  # fmt: skip
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\r\n", b"\n"])), max_size=12).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def converse(pieces: list[bytes], *, wid: str = "w1") -> tuple[bytes, bool]:
    """Everything that a worker hears who sends these pieces, with time for each answer."""
    world = World(limits=Limits(turn_messages=4, frame_bytes_max=5_000))
    client = world.peer(wid)
    for piece in pieces:
        client.send(piece)
    for _ in range(30):
        if not client.conversation.holding:
            break
        world.pass_time(1_950, step=650)
    assert client.is_hung_up or not client.conversation.holding
    assert world.engine.unhandled == 0
    return client.bytes_heard(), client.is_hung_up


@settings(max_examples=100, deadline=None)
@given(STREAMS, st.data())
def test_any_cut_of_any_lines_gives_the_same_replies(stream: bytes, data: st.DataObject) -> None:
    pieces = []
    rest = stream
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        pieces.append(rest[:size])
        rest = rest[size:]
    # Times differ by how long a FETCH waited, which depends on nothing else.
    whole, closed = converse([stream])
    cut, cut_closed = converse(pieces)
    assert (_timeless(cut), cut_closed) == (_timeless(whole), closed)
    if not closed:
        assert len(list(said(whole))) == stream.count(b"\n")


def _timeless(heard: bytes) -> bytes:
    return re.sub(rb"\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9:]{8} UTC", b"T", heard)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans())
def test_any_bytes_are_survived(pieces: list[bytes], known: bool) -> None:
    world = World(limits=Limits(frame_bytes_max=100))
    client = world.peer("w1") if known else world.connect()
    for piece in pieces:
        client.send(piece)
    world.pass_time(3_000, step=500)
    witness = world.peer()
    assert witness.push("jid-0001").kind == "+"
    assert witness.fetch() is not None


@settings(max_examples=100, deadline=None)
@given(st.lists(ODD_LINES, min_size=1, max_size=8), st.booleans())
def test_whatever_is_pushed_may_be_taken_shown_and_run(lines: list[bytes], known: bool) -> None:
    world = World()
    client = world.peer("w1") if known else world.connect()
    worker = world.peer("w2")
    for line in lines:
        client.send(line + b"\r\n")
    for found in world.jobs():
        json.loads(found.body)
        assert json.loads(as_json_args(found.media, found.body)) is not None
        as_bytes(found.media, found.body)
        msgspec.json.decode(msgspec.json.encode(whole(found)))
        json.loads(world.service.renderer.stored(found))
    for _ in range(3):
        unit = worker.fetch()
        if unit is not None:
            assert worker.fail(unit["jid"], "x").kind == "+"
    worker.call(mutate_line("requeue", "retries"))
    while (unit := worker.fetch()) is not None:
        assert worker.ack(unit["jid"]).kind == "+"
    client.hang_up(undelivered=True)
    assert world.engine.unhandled == 0


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"a":' * 100_000, b'"' + b"\\" * 100_001, b'{"jid":"' + b"\\ud800" * 1_000 + b'"',
     b"9" * 100_000, b'{"jid":' + b"9" * 100_000 + b"}", b'{"v":' + b"[" * 60_000, b"\0" * 10_000,
     b'{"args":' + b"[" * 990 + b" " + b"]" * 990 + b',"jid":"jid-0001","jobtype":"t"}',
     b'{"custom":' + b'{"a":' * 990 + b" 1" + b"}" * 990 + b',"args":[],"jid":"jid-0001","jobtype":"t"}'],
)  # fmt: skip
@pytest.mark.parametrize("verb", [b"PUSH", b"PUSHB", b"ACK", b"FAIL", b"BEAT", b"MUTATE", b"HELLO", b"QUEUE", b"FETCH"])  # fmt: skip
def test_input_made_to_hurt_gets_one_line_or_none(verb: bytes, line: bytes, known: bool) -> None:
    world = World()
    client = world.peer() if known else world.connect()
    client.bytes_heard()
    client.send(verb + b" " + line + b"\r\n")
    world.pass_time(2_000)
    heard = client.bytes_heard()
    if known:
        assert (len(list(said(heard))), heard.startswith((b"-ERR ", b"$-1"))) == (1, True)
        assert len(heard) < 5_000
    else:
        assert (heard, client.is_hung_up) == (b"", True)
    assert not world.jobs()


def test_a_flood_takes_its_share_of_a_turn_and_no_more(world: World) -> None:
    flooder, other = world.peer(), world.peer()
    flooder.begin(*["TRACK x"] * 1_000, turns=0)
    other.begin("TRACK y")
    assert (len(flooder.link.out), len(other.link.out)) == (world.limits.turn_messages, 1)
    assert world.engine.has_input()
    world.run()
    assert len(flooder.heard()) == 1_000


@given(st.recursive(st.just("[]"), lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]")))  # fmt: skip
def test_depth_is_counted_outside_of_strings(text: str) -> None:
    value = json.loads(text)

    def levels(value: list[object]) -> int:
        return 1 + max((levels(each) for each in value if isinstance(each, list)), default=0)

    assert depth(text.encode()) == levels(value)
    noisy = json.dumps([value, '[[[{"\\[['], separators=(",", ":"))
    assert depth(noisy.encode()) == levels(value) + 1


def test_what_is_wide_is_not_deep() -> None:
    assert (depth(b"[" * 300 + b"]" * 300), depth(b"[" + b"[]," * 300 + b"[]]")) == (300, 2)


def depth(text: bytes) -> int:
    """The least limit that a text keeps to."""
    for most in range(1_000):
        with suppress(Unfit):
            run_steps(check(text, most))
            return most
    raise AssertionError("deeper than anything")


@pytest.mark.parametrize("thing", [b"{}", b'{"a":1}'])
def test_a_large_frame_of_no_jobs_is_refused_before_it_comes(client: Puppet, thing: bytes) -> None:
    reply = client.call(b"PUSHB [%b]" % b",".join([thing] * 50_000))
    assert (reply.kind, "too short to be jobs" in reply.text) == ("-", True)
    assert client.call(b"PUSHB [{}]").kind == "$"


@pytest.mark.parametrize(("queues", "is_old"), [(900, False), (1_100, True)])
def test_info_about_very_many_queues_may_be_a_second_old_and_no_older(
    world: World, client: Puppet, queues: int, is_old: bool
) -> None:
    for number in range(queues):
        world.broker.queue(f"q{number}")
    assert client.info()["faktory"]["total_enqueued"] == 0
    client.push("job-00001", queue="q1")
    assert client.info()["faktory"]["total_enqueued"] == (0 if is_old else 1)
    world.now += 1_000
    assert client.info()["faktory"]["total_enqueued"] == 1
