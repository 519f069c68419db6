"""What is large is worked on a little each turn, and comes out as if it had been small."""

from itertools import pairwise

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.faktory.client_commands import JOBS_A_TURN
from franca.protocols.faktory.go_json import LARGE_BYTES
from tests.protocols.faktory.puppet import OK, Puppet, World
from tests.support.faktory import Reply

FILLER = b"x" * LARGE_BYTES
EMPTY_MAP = Reply("$", b"{}")
VERBS = [b"PUSH %b", b"PUSHB [%b]"]


def job_of(jid: bytes, args: bytes, more: bytes = b"") -> bytes:
    return b'{"jid":"%b","jobtype":"t","args":%b%b}' % (jid, args, more)


def test_a_large_job_takes_several_turns_and_arrives_as_it_was(world: World) -> None:
    client, other = world.peer(), world.peer()
    args = b'["%b", 1.50, {"b":1,"a":[]}]' % FILLER
    client.begin(b"PUSH " + job_of(b"jid-0001", args), "TRACK x")
    assert not client.link.out
    assert other.push("jid-0002", queue="other") == OK
    world.run()
    assert [reply.kind for reply in client.heard()] == ["+", "-"]
    assert f'"args":{args.decode()},' in client.call("FETCH").text
    assert client.ack("jid-0001") == OK


@pytest.mark.parametrize(
    ("broken", "mended"),
    [(b"\xff", "\ufffd"), (rb"\ud800", "\ufffd"), (rb"\ud83d\ude00", "😀"), ("ö".encode(), "ö")],
)
@pytest.mark.parametrize("verb", [b"PUSH %b", b"PUSHB [%b]", b"PUSHB [ %b ,%b ] "])
def test_broken_text_in_a_large_job(
    client: Puppet, verb: bytes, broken: bytes, mended: str
) -> None:
    unit = job_of(b"jid-0001", b'["%b%b"]' % (FILLER, broken), b',"custom":{"c":"%b"}' % broken)
    again = unit.replace(b"jid-0001", b"jid-0002")
    client.turns(verb % ((unit, again) if verb.count(b"%b") == 2 else unit))
    assert client.cut() == (EMPTY_MAP if b"PUSHB" in verb else OK)
    found = client.fetch_job()
    assert (found["args"], found["custom"]) == ([FILLER.decode() + mended], {"c": mended})


@pytest.mark.parametrize(
    "unit",
    [
        job_of(b"jid-0001", b'["%b",1e400]' % FILLER),
        job_of(b"jid-0001", b'["%b",%b]' % (FILLER, b"[" * 128 + b"]" * 128)),
        job_of(b"jid-0001", b'["%b",%b]' % (FILLER, b"[" * 5_000 + b"]" * 5_000)),
        job_of(b"jid-0001", b"[%b]" % (b"9" * LARGE_BYTES)),
        job_of(b"jid-0001", b'["%b"]' % FILLER, b',"custom":{"a":1e999}'),
        job_of(b"jid-0001", b'["%b"]' % FILLER, b',"custom":[]'),
        job_of(b"jid-0001", b'["%b"]' % FILLER, b',"failure":{"message":"%b"}' % FILLER),
        job_of(b"jid-0001", b'["%b"]' % FILLER, b',"failure":{"retry_count":"x"}'),
        job_of(b"jid-0001", b'["%b"]' % FILLER, b',"retry":"x"'),
        job_of(b"jid-0001", b'["%b"]' % FILLER, b',"retry":' + b"9" * 5_000),
        job_of(b"jid-0001", b'{"a":"%b"}' % FILLER),
        job_of(b"jid-0001", b'["%b"' % FILLER),
        job_of(b"jid-0001", b'["%b"]]' % FILLER),
        job_of(b"jid-0001", b'["%b"]' % FILLER, b',"queue":"no queue"'),
        job_of(b"short", b'["%b"]' % FILLER),
        b'{"args":["%b"]}' % FILLER,
        b'{"jid":"jid-0001","jobtype":"t","args":null,"x":"%b"}' % FILLER,
        b"[]" + b" " * LARGE_BYTES + b"x",
        b"[" * LARGE_BYTES,
        b'"' * LARGE_BYTES,
        b"\\" * LARGE_BYTES,
        b"\xff" * LARGE_BYTES,
    ],
    ids=range(22),
)
@pytest.mark.parametrize("verb", VERBS)
def test_a_large_job_that_is_none_is_refused_in_one_line(
    world: World, client: Puppet, verb: bytes, unit: bytes
) -> None:
    client.turns(verb % unit)
    (reply,) = client.heard()
    if b"PUSHB" in verb and reply.kind == "$":
        assert len(reply.json) == 1
    else:
        assert reply.kind == "-"
    assert (len(reply.text) < 2_000, world.jobs()) == (True, [])
    assert client.push("jid-0002") == OK


def test_unknown_members_of_a_large_job_are_dropped(client: Puppet) -> None:
    more = b',"priority":5,"x":[{}],"retry":3,"retry":4,"queue":null'
    client.turns(b"PUSH " + job_of(b"jid-0001", b'["%b"]' % FILLER, more))
    assert client.cut() == OK
    found = client.fetch_job()
    assert (found["retry"], found["queue"]) == (4, "default")
    assert "x" not in found


def test_a_large_array_is_pushed_part_by_part_in_its_order(world: World) -> None:
    client, other = world.peer(), world.peer()
    count = 10_000
    units = [job_of(b"jid-%06d" % i, b'[%d,{"a":["]},{",1]}]' % i) for i in range(count)]
    units[7_000] = job_of(b"jid-007000", b"[1e400]")
    units[8_000] = job_of(b"jid-008000", rb'["\ud800"]')
    units[9_000] = b'{"JID":"jid-009000","jobtype":"t","args":["\xff"],"x":1}'
    units[9_001] = job_of(b"short", b"[]")
    client.begin(b"PUSHB [ %b ]" % b" ,\t".join(units), turns=0)
    pushed = []
    while not client.link.out:
        world.engine.turn(world.now)
        pushed.append(world.broker.totals.pushed)
    assert max(b - a for a, b in pairwise(pushed)) <= JOBS_A_TURN
    assert other.push("jid-other", queue="other") == OK
    world.run()
    (reply,) = client.heard()
    assert set(reply.json) == {"jid-007000", "short"}
    assert world.broker.totals.pushed == count - 2 + 1
    jids = [found["jid"] for found in iter(client.fetch, None) if found]
    assert jids == [f"jid-{i:06}" for i in range(count) if i not in (7_000, 9_001)]


UNITS = [job_of(b"jid-%06d" % i, b"[%d]" % i) for i in range(15_000)]


@pytest.mark.parametrize(
    "spoiled",
    [
        [*UNITS[:-1], b'{"jid":5}'],
        [*UNITS[:-1], b"5"],
        [*UNITS, b""],
        [*UNITS, b"]"],
        [*UNITS[:9_000], b"[" * 2_000, *UNITS[9_000:]],
        [*UNITS[:9_000], UNITS[0] + UNITS[1], *UNITS[9_000:]],
        [*UNITS[:-1], UNITS[-1][:-1]],
        [*UNITS, *[b'{"a":1}'] * 100_000],
        [b'{"a":1}'] * 100_000,
    ],
    ids=range(9),
)
def test_one_shapeless_job_refuses_a_large_array(
    world: World, client: Puppet, spoiled: list[bytes]
) -> None:
    client.turns(b"PUSHB [%b]" % b",".join(spoiled))
    (reply,) = client.heard()
    assert (reply.kind, reply.text[:18]) == ("-", "ERR invalid JSON: ")
    assert world.broker.totals.pushed == 0


def refusable(count: int, at: bytes = b"x") -> bytes:
    units = (job_of(b"jid-%06d" % i, b"[]", b',"at":"%b"' % at) for i in range(count))
    return b",".join(units)


def test_what_is_told_of_jobs_that_were_not_taken_is_bounded(world: World, client: Puppet) -> None:
    taken = b",".join(job_of(b"taken-%04d" % i, b"[]") for i in range(700))
    client.turns(b"PUSHB [%b,%b]" % (taken, refusable(40_000)))
    (reply,) = client.heard()
    assert (reply.kind, "too many jobs were refused: 700 were taken" in reply.text) == ("-", True)
    assert (world.broker.totals.pushed, world.service.intake.refusal_bytes) == (700, 0)
    reply = client.call(b"PUSHB [%b]" % refusable(5_000))
    assert len(reply.json) == 5_000


def test_what_is_told_of_them_to_all_clients_together_is_bounded(world: World) -> None:
    clients, refused = [world.peer() for _ in range(12)], b"PUSHB [%b]" % refusable(5_000)
    for client in clients:
        client.begin(refused, turns=0)
    world.run()
    kinds = [reply.kind for reply in (client.cut() for client in clients) if reply]
    assert (set(kinds), len(kinds), world.service.intake.refusal_bytes) == ({"$", "-"}, 12, 0)


def test_what_a_client_that_is_gone_was_to_hear_is_forgotten(client: Puppet, world: World) -> None:
    client.begin(b"PUSHB [%b]" % refusable(3_000), turns=2)
    assert world.service.intake.refusal_bytes > 0
    client.link.conversation.hang_up(world.now, undelivered=True)
    assert world.service.intake.refusal_bytes == 0


def test_a_reason_repeats_little_of_what_was_said(client: Puppet) -> None:
    for more in (b',"at":"%b"', b',"queue":"%b"'):
        unit = job_of(b"jid-0001", b"[]", more % ("😀" * 300).encode())
        reply = client.call(b"PUSHB [%b]" % unit)
        assert len(reply.json["jid-0001"]) < 200


def test_a_large_failure_is_taken_as_far_as_it_is_kept(world: World, worker: Puppet) -> None:
    reports = [
        b'"message":"%b","errtype":"E"' % FILLER,
        b'"message":"x\\ud800%b","errtype":"E","backtrace":["a","b"]' % FILLER,
        b'"message":"x","errtype":"E","backtrace":[%b"a"]' % (b'"a",' * LARGE_BYTES),
        b'"message":"x","x":"%b"' % FILLER,
    ]
    for number, said in enumerate(reports):
        jid = b"jid-%04d" % number
        worker.push(jid.decode(), retry=-1)
        worker.fetch()
        assert len(worker.turns(b'FAIL {"jid":"%b",%b}' % (jid, said))) > 1
        assert worker.cut() == OK
    texts = [job.attempt_log[-1].error_text for job in world.jobs(State.DEAD) if job.attempt_log]
    assert texts == ["x" * 1_000, "x\ufffd" + "x" * 996, "x", "x"]


@pytest.mark.parametrize(
    "line",
    [b"FAIL " + b"[" * LARGE_BYTES * 2, b'FAIL {"jid":"x","y":"%b"}' % FILLER, b"FAIL {%b}" % FILLER,
     b'FAIL {"message":5,"y":"%b"}' % FILLER, b'ACK {"jid":"%b"}' % FILLER, b'BEAT {"wid":"%b"}' % FILLER,
     b"FETCH " + b"q" * 3_000_000, b"FETCH" + b" q" * 3_000, b"QUEUE PAUSE " + b"q" * 11_000_000,
     b'MUTATE {"cmd":"clear","target":"dead","x":"%b"}' % (FILLER * 9), FILLER * 3, b"\xff" * LARGE_BYTES],
    ids=range(12),
)  # fmt: skip
def test_other_large_commands_get_a_short_answer(client: Puppet, line: bytes) -> None:
    client.turns(line)
    (reply,) = client.heard()
    assert (reply.kind, len(reply.text) < 5_000) == ("-", True)
    assert client.push("jid-0001") == OK


def test_many_queues_are_changed_a_few_each_turn(world: World, client: Puppet) -> None:
    for number in range(1_000):
        world.broker.queue(f"q{number}")
    assert len(client.turns("QUEUE PAUSE *")) == 5
    assert client.cut() == OK
    assert all(queue.paused for queue in world.broker.queues.values())


@pytest.mark.parametrize(
    "filler",
    [b'["' + b"x" * (4 << 20) + b'"]', b"[" + b'{"a":"",' b'"b":[]},' * (1 << 16) + b"1]",
     b'["' + rb"\ud800" * (1 << 18) + b'"]', b'["' + b"\xff" * (4 << 20) + b'"]'],
    ids=["text", "objects", "escapes", "bytes"],
)  # fmt: skip
@pytest.mark.parametrize("verb", VERBS)
def test_no_turn_is_long(verb: bytes, filler: bytes) -> None:
    # A busy machine may count a pause of its own as ours, but not each time.
    assert any(
        World().peer().longest_turn(verb % job_of(b"jid-0001", filler)) < 0.1 for _ in range(4)
    )


@pytest.mark.parametrize(
    "filler", [rb"\ud800" * 42_000, b"\xff" * 255_000], ids=["escapes", "bytes"]
)
@pytest.mark.parametrize(
    "line",
    [b'PUSH {"jid":"jid-0001","jobtype":"t","args":["%b"]}',
     b'PUSHB [{"jid":"jid-0001","jobtype":"t","args":["%b"]}]',
     b'FAIL {"jid":"jid-0001","message":"%b"}', b'ACK {"jid":"%b"}', b'BEAT {"wid":"%b"}',
     b'MUTATE {"cmd":"kill","target":"dead","x":"%b"}'],
    ids=["PUSH", "PUSHB", "FAIL", "ACK", "BEAT", "MUTATE"],
)  # fmt: skip
def test_no_turn_is_long_for_what_is_nearly_large(line: bytes, filler: bytes) -> None:
    assert any(World().peer().longest_turn(line % filler) < 0.05 for _ in range(4))


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
@pytest.mark.parametrize(("broken", "mended"), [(b"\xff", "\ufffd"), (rb"\ud800", "\ufffd")])
def test_broken_text_in_reports_and_jobs_of_any_size(size: int, broken: bytes, mended: str) -> None:
    world = World(limits=Limits(error_text_chars=1_000_000))
    client = world.peer("w1")
    unit = job_of(b"jid-0001", b'["%b"]' % (broken * size), b',"retry":-1,"unknown":5')
    assert client.call(b"PUSH %b" % unit) == OK
    assert client.fetch_job()["args"] == [mended * size]
    kept = min(size, 40_000)
    fail = b'FAIL {"jid":"jid-0001","Message":"%b","errtype":"E"}' % (broken * kept)
    assert client.call(fail) == OK
    (dead,) = world.jobs(State.DEAD)
    assert [attempt.error_text for attempt in dead.attempt_log or []] == [mended * kept]


def test_what_takes_long_to_read_ends_the_share_of_a_turn(world: World, client: Puppet) -> None:
    units = (job_of(b"jid-%04d" % i, b'["%b"]' % (rb"\ud800" * 500)) for i in range(20))
    pushed = []
    client.begin(*(b"PUSH %b" % unit for unit in units), turns=0)
    while len(client.link.out) < 20:
        pushed.append(world.broker.totals.pushed)
        world.engine.turn(world.now)
    assert max(b - a for a, b in pairwise(pushed)) == 1
