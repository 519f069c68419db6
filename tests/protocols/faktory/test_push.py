"""What becomes of a pushed job: defaults, fidelity, limits, and a push said twice."""

from zlib import crc32

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from tests.protocols.faktory.puppet import OK, Puppet, World, err
from tests.support.faktory import JobDict, job, mutate_line, push_line, push_many_line


def delivered(text: str) -> JobDict:
    client = World().peer()
    assert client.call(f"PUSH {text}") == OK
    return client.fetch_job()


def unit(members: str = "", args: str = "[]") -> str:
    return f'{{"jid":"jid-0001","jobtype":"type","args":{args}{members}}}'


def test_what_the_producer_left_out_is_filled_in() -> None:
    assert delivered(unit()) == {
        "enqueued_at": "2026-09-21T14:13:20.000Z",
        "retry": 25,
        "jid": "jid-0001",
        "queue": "default",
        "jobtype": "type",
        "created_at": "2026-09-21T14:13:20.000Z",
        "args": [],
        "reserve_for": 1800,
    }


@pytest.mark.parametrize(
    ("members", "name", "value"),
    [
        (',"retry":3', "retry", 3),
        (',"retry":0', "retry", 0),
        (',"retry":-1', "retry", -1),
        (',"retry":null', "retry", 25),
        (',"queue":""', "queue", "default"),
        (',"queue":null', "queue", "default"),
        (',"reserve_for":5', "reserve_for", 5),
        (',"reserve_for":0', "reserve_for", 1800),
        (',"created_at":"whenever"', "created_at", "whenever"),
        (',"created_at":null', "created_at", "2026-09-21T14:13:20.000Z"),
        (',"enqueued_at":"1999-01-01T00:00:00Z"', "enqueued_at", "2026-09-21T14:13:20.000Z"),
        (',"at":"2020-01-01T00:00:00Z"', "at", "2020-01-01T00:00:00Z"),
        (',"backtrace":7', "backtrace", 7),
        (',"custom":{"b":1,"a":{"c":2}}', "custom", {"b": 1, "a": {"c": 2}}),
        (',"failure":{"message":"before"}', "failure", {"message": "before"}),
        (',"RETRY":3', "retry", 3),
        (',"retry":1,"retry":2', "retry", 2),
    ],
)
def test_what_the_producer_said_is_kept(members: str, name: str, value: object) -> None:
    assert delivered(unit(members))[name] == value


@pytest.mark.parametrize(
    "members",
    [',"priority":5', ',"x":1', ',"custom":null', ',"custom":{}', ',"custom": { }', ',"at":""',
     ',"at":null', ',"failure":null', ',"backtrace":null'],
)  # fmt: skip
def test_what_says_nothing_is_dropped(members: str) -> None:
    assert set(delivered(unit(members))) == set(delivered(unit()))


@pytest.mark.parametrize(
    "args",
    [
        "[3889108265204450030,9007199254740993]",
        "[1.0,1e5,1E+300,-0,0.1000,123456789012345678901234567890]",
        '[{"b":1,"a":2,"b":3}]',
        '["<script>&amp;</script>"," ","a b  c\\t"]',
        '["\\u003c\\ud83d\\ude00\\/","öä😀"]',
        "[null,true,false,[],{},[[[[]]]]]",
        '["a\\"b\\\\","[{,: "]',
    ],
)
def test_arguments_survive_to_the_letter(client: Puppet, args: str) -> None:
    assert client.call(f"PUSH {unit(args=args)}") == OK
    assert f'"args":{args},' in client.call("FETCH").text


def test_spaces_between_parts_are_dropped_and_kept_inside_strings(client: Puppet) -> None:
    text = '{ "jid" : "jid-0001", "jobtype":\t"a b", "args": [ 1.0 , "x  y", {"k" : [ ]} ] }'
    assert client.call(f"PUSH {text}") == OK
    assert client.call("FETCH").text == (
        '{"enqueued_at":"2026-09-21T14:13:20.000Z","retry":25,"jid":"jid-0001",'
        '"queue":"default","jobtype":"a b","created_at":"2026-09-21T14:13:20.000Z",'
        '"args":[1.0,"x  y",{"k":[]}],"reserve_for":1800}'
    )


def test_one_clients_retry_is_not_anothers_default(world: World) -> None:
    one, other = world.peer(), world.peer()
    one.push("jid-0001", retry=2)
    other.push("jid-0002")
    assert [one.fetch_job()["retry"] for _ in range(2)] == [2, 25]


def test_a_job_for_later_is_delivered_at_its_time(client: Puppet, world: World) -> None:
    assert client.push("jid-0001", at="2026-09-21T16:13:30.0005+02:00") == OK
    assert client.info()["faktory"]["sets"]["scheduled"] == 1
    world.pass_time(10_000 - 50)
    client.say("FETCH")
    world.pass_time(50)
    assert client.cut() is None
    world.pass_time(100)
    unit = client.read().json
    assert unit["at"] == "2026-09-21T16:13:30.0005+02:00"
    assert unit["enqueued_at"] >= "2026-09-21T14:13:30.001Z"


@pytest.mark.parametrize(
    "at", ["2026-09-21T14:13:20Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]
)
def test_a_time_in_the_past_is_now(client: Puppet, at: str) -> None:
    client.push("jid-0001", at=at)
    assert client.fetch() is not None


def test_a_push_said_again_makes_no_second_job(world: World, client: Puppet) -> None:
    for _ in range(3):
        assert client.push("jid-0001", 1, at="2020-01-01T00:00:00Z") == OK
    assert client.push_many([job("jid-0001", 1, at="2020-01-01T00:00:00Z")]) == {}
    assert len(world.jobs()) == 1


@pytest.mark.parametrize("members", [{}, {"custom": {"a": 1}}])
def test_jobs_that_differ_are_two_though_checksums_are_alike(
    world: World, client: Puppet, members: dict[str, object]
) -> None:
    assert crc32(b"[1054221393]") == crc32(b"[2530338831]")
    client.push("jid-0001", 1054221393, **members)
    client.push("jid-0001", 2530338831, **members)
    assert (len(world.jobs()), len({job.digest for job in world.jobs()})) == (2, 2)


def test_a_scheduled_push_said_again_later_is_no_second_job(client: Puppet, world: World) -> None:
    client.push("jid-0001", 1, at="2026-09-21T14:13:21Z")
    world.pass_time(3_000)
    client.push("jid-0001", 1, at="2026-09-21T14:13:21Z")
    assert len(world.jobs()) == 1


def test_a_worker_may_push_the_jid_that_it_runs(world: World, worker: Puppet) -> None:
    worker.push("jid-0001", 1)
    worker.fetch_job()
    worker.push("jid-0001", 1)
    worker.ack("jid-0001")
    assert [job.state for job in world.jobs()] == [State.READY]
    worker.fetch_job()


def test_limits_are_told_and_nothing_is_kept() -> None:
    world = World(limits=Limits(body_bytes_max=500, name_bytes_max=100))
    client = world.peer()
    assert client.push("jid-0001", "x" * 500) == err("jobs cannot be larger than 500 bytes")
    too_long = err("jid and jobtype cannot be longer than 100 bytes")
    assert (client.push("j" * 101), client.push("ö" * 51)) == (too_long, too_long)
    assert client.push("jid-0001", jobtype="t" * 101) == too_long
    assert (client.push("jid-0001", queue="q" * 101).kind, world.jobs()) == ("-", [])
    assert client.push("j" * 100, jobtype="t" * 100, queue="q" * 100) == OK


@pytest.mark.parametrize("limit", [10, 128])
@pytest.mark.parametrize(("more", "kind"), [(-1, "+"), (0, "-")])
def test_jobs_may_nest_as_deep_as_the_limit(limit: int, more: int, kind: str) -> None:
    client = World(limits=Limits(nesting_max=limit)).peer()
    depth = limit + more
    nested = "[" * depth + "]" * depth
    filler = ",".join(['"[[[["'] * 100)
    assert client.call(f"PUSH {unit(args=nested)}").kind == kind
    assert client.call(f"PUSH {unit(args=f'[{filler}]')}") == OK


def test_a_wide_job_is_not_a_deep_one(client: Puppet) -> None:
    assert client.call(f"PUSH {unit(args='[' + ','.join(['[{}]'] * 5_000) + ']')}") == OK


def test_no_new_jobs_when_the_disk_is_full_but_old_ones_go_on(world: World, client: Puppet) -> None:
    client.push("jid-0001")
    world.broker.refusing_new = True
    text = "the disk is nearly full; no new jobs are taken until there is room"
    assert client.push("jid-0002") == err(text)
    assert client.push_many([job("jid-0002")]) == {"jid-0002": text}
    client.fetch_job()
    assert (client.ack("jid-0001"), world.jobs()) == (OK, [])


def test_a_job_waits_for_the_disk_before_it_is_answered(client: Puppet) -> None:
    client.waited_for_commit = False
    for line in ("TRACK x", "PUSH {}", "INFO"):
        client.call(line)
    assert not client.waited_for_commit
    client.push("jid-0001")
    assert client.waited_for_commit


def test_a_thousand_jobs_at_once(world: World, client: Puppet) -> None:
    assert client.push_many([job(f"jid-{i:05}", i) for i in range(1_000)]) == {}
    assert (len(world.jobs()), world.broker.totals.pushed) == (1_000, 1_000)
    assert client.fetch_job()["jid"] == "jid-00000"


def test_very_many_jobs_are_taken_in_over_several_turns_and_answered_once(world: World) -> None:
    flooder, other = world.peer(), world.peer()
    jobs = [job(f"jid-{i:05}", i) for i in range(1_999)] + [job("short")]
    data = push_many_line(jobs).encode()
    world.engine.inputs.append((flooder.link, data[:50]))
    flooder.begin(data[50:], "TRACK x", turns=2)
    assert world.broker.totals.pushed == 500
    assert other.push("jid-other") == OK
    flooder.say("TRACK y")
    replies = flooder.heard()
    assert replies[0].json == {"short": "jobs must have a reasonable jid parameter"}
    assert [reply.kind for reply in replies] == ["$", "-", "-"]
    assert world.broker.totals.pushed == 2_000


@pytest.mark.parametrize("tail", [b"", b"TRACK x\r\n", b"TRACK"])
def test_very_many_jobs_are_all_pushed_though_the_client_is_gone(
    world: World, client: Puppet, tail: bytes
) -> None:
    client.begin(push_many_line(job(f"jid-{i:05}", i) for i in range(2_000)), turns=0)
    world.engine.inputs.append((client.link, tail))
    client.begin()
    client.hang_up()
    assert world.broker.totals.pushed == 2_000


SAID = {
    "retry": 7, "reserve_for": 70, "custom": {"a": 1}, "backtrace": 3, "at": "2030-01-01T00:00:00Z",
    "created_at": "2020-01-01T00:00:00Z", "queue": "other", "jobtype": "other", "args": [2],
    "failure": {"retry_count": 2, "message": "m"},
}  # fmt: skip


@pytest.mark.parametrize("member", SAID)
def test_a_push_that_differs_is_another_job(client: Puppet, world: World, member: str) -> None:
    plain, full = job("jid-0001", 1), job("jid-0001", 1) | SAID
    for one, other in (
        (plain, plain | {member: SAID[member]}),
        (full, {name: value for name, value in (plain | full).items() if name != member} | (
            {member: plain[member]} if member in plain else {})),
    ):  # fmt: skip
        before = world.broker.totals.pushed
        for unit in (one, other, one, other):
            assert client.call(push_line(unit)) == OK
        assert world.broker.totals.pushed - before == 2, member


@pytest.mark.parametrize(
    "again",
    [{}, {"retry": 25}, {"reserve_for": 1800}, {"custom": {}}, {"custom": None}, {"queue": "default"}, {"at": ""},
     {"backtrace": 0}, {"created_at": ""}, {"failure": None}, {"priority": 5}, {"x": 1}],
)  # fmt: skip
def test_saying_what_goes_without_saying_is_saying_the_same(
    world: World, client: Puppet, again: dict[str, object]
) -> None:
    for members in ({}, again):
        assert client.push("jid-0001", 1, **members) == OK
    assert world.broker.totals.pushed == 1


def test_the_same_push_is_recognised_in_the_tail_by_all_its_members() -> None:
    world = World(limits=Limits(window_jobs=2, supply_jobs=1))
    client = world.peer()
    for i in range(20):
        client.push(f"jid-{i:04}", custom={"a": i})
    assert world.store.tail
    client.push("jid-0019", custom={"a": 19})
    assert world.broker.totals.pushed == 20
    client.push("jid-0019", custom={"a": 20})
    assert world.broker.totals.pushed == 21


# -- failures elsewhere ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retry", "failure", "counts"),
    [
        (3, {"retry_count": 1, "remaining": 2}, [(2, 1), None]),
        (3, {"retry_count": 0, "remaining": 3}, [(1, 2), (2, 1), None]),
        (3, {"retry_count": 5, "remaining": 0}, [None]),
        (3, {"retry_count": 2}, [None]),
        (3, {"retry_count": 1, "remaining": 9}, [(2, 8), None]),
        (3, {"retry_count": 1, "remaining": 0}, [(2, 0), None]),
        (3, {"retry_count": -9}, [(0, 3), (1, 2), (2, 1), None]),
        (3, {}, [(1, 2), (2, 1), None]),
        (-1, {"retry_count": 1, "remaining": -1}, [None]),
        (2**62, {"retry_count": 2**62, "remaining": 2**62}, [(1_000_000, 2**62 - 1)]),
    ],
)
def test_a_failure_elsewhere_counts(
    world: World, worker: Puppet, retry: int, failure: JobDict, counts: list[tuple[int, int] | None]
) -> None:
    said = failure | {"failed_at": "2020-01-01T00:00:00Z", "message": "before"}
    worker.push("jid-0001", retry=retry, failure=said)
    assert worker.fetch_job()["failure"] == said
    for count in counts:
        assert worker.fail("jid-0001") == OK
        if count is None:
            assert [job.state for job in world.jobs()] == [State.DEAD]
            return
        worker.call(mutate_line("requeue", "retries"))
        told = worker.fetch_job()["failure"]
        assert (told["retry_count"], told["remaining"]) == count
        assert (told["failed_at"], told["message"]) == ("2020-01-01T00:00:00Z", "planned")


def test_the_wait_goes_by_all_failures(world: World, worker: Puppet) -> None:
    worker.push("jid-0001", failure={"retry_count": 9})
    worker.fetch()
    worker.fail("jid-0001")
    (failed,) = world.jobs()
    assert 10_015_000 <= failed.run_at - world.now <= 10_015_000 + 11 * 29_000


@pytest.mark.parametrize(
    "failure",
    [{"retry_count": "2"}, {"retry_count": 1.5}, {"backtrace": "x"}, {"message": 5}, [], 5],
)
def test_a_failure_of_another_shape_is_refused(client: Puppet, failure: object) -> None:
    assert client.push("jid-0001", failure=failure).text.startswith("ERR invalid JSON: ")


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00\\ud800"])
def test_broken_text_is_mended_wherever_it_is(world: World, client: Puppet, text: str) -> None:
    whole = "\ufffd" * (len(text) // 6)
    said = f'{{"jid":"jid-0001{text}","jobtype":"{text}","args":["{text}",{{"{text}":1.0}}],"custom":{{"k":"{text}"}}}}'
    assert client.call(f"PUSH {said}") == OK
    assert (client.call(f"PUSHB [{said}]").json, world.broker.totals.pushed) == ({}, 1)
    found = client.fetch_job()
    assert (found["jid"], found["jobtype"]) == (f"jid-0001{whole}", whole)
    assert (found["args"], found["custom"]) == ([whole, {whole: 1.0}], {"k": whole})
    assert (client.call(f'ACK {{"jid":"jid-0001{text}"}}'), world.jobs()) == (OK, [])


def test_nothing_of_many_is_pushed_if_one_has_no_shape(world: World, client: Puppet) -> None:
    for shapeless in ({"jid": 5}, job("jid-0002", custom=5)):
        reply = client.call(push_many_line([job("jid-0001"), shapeless]))
        assert (reply.text[:18], world.jobs()) == ("ERR invalid JSON: ", [])
