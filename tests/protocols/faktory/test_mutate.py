"""MUTATE: which jobs are meant, what becomes of them, and what waits behind it."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from franca.core.limits import Limits
from franca.core.model import JobQuery, State
from franca.core.wants import Recaller
from franca.protocols.faktory.glob import Glob, Share
from franca.protocols.faktory.go_json import run_steps
from tests.protocols.faktory.puppet import OK, Puppet, World
from tests.support.faktory import job, mutate_line

LATER = "2030-01-01T00:00:00Z"


def populated() -> tuple[World, Puppet]:
    """Two jobs of each set and two that are merely ready."""
    world = World()
    client = world.peer("w1")
    for i in (1, 2):
        client.push(f"ready-000{i}", i, jobtype=f"type{i}", queue="other")
    for i in (1, 2):
        client.push(f"retry-000{i}", i, jobtype=f"type{i}")
        client.push(f"dead-0000{i}", i, jobtype=f"type{i}", retry=-1)
        client.fetch()
        client.fetch()
        client.fail(f"retry-000{i}", f"error {i}")
        client.fail(f"dead-0000{i}")
    for i in (1, 2):
        client.push(f"later-000{i}", i, "fizz", jobtype=f"type{i}", at=LATER)
    assert sets(world) == EVERYTHING
    return world, client


def sets(world: World) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {"ready": [], "retries": [], "scheduled": [], "dead": []}
    for found in sorted(world.jobs(), key=lambda found: found.id):
        if found.state is State.WAITING:
            name = "retries" if found.failures else "scheduled"
        else:
            name = found.state.name.lower()
        named[name].append(found.name)
    return named


EVERYTHING = {
    "ready": ["ready-0001", "ready-0002"],
    "retries": ["retry-0001", "retry-0002"],
    "scheduled": ["later-0001", "later-0002"],
    "dead": ["dead-00001", "dead-00002"],
}
FIRST = {"retries": "retry-0001", "scheduled": "later-0001", "dead": "dead-00001"}
SECOND = {"retries": "retry-0002", "scheduled": "later-0002", "dead": "dead-00002"}


@pytest.mark.parametrize("target", ["retries", "scheduled", "dead"])
@pytest.mark.parametrize(
    ("cmd", "filters"),
    [
        *product(
            ["clear", "discard", "kill", "requeue"],
            [{}, {"jids": []}, {"jobtype": "", "regexp": ""}, {"regexp": "*"}, {"jids": None}],
        ),
        ("clear", {"jids": ["nobody-1"]}),
    ],
)
def test_without_a_filter_all_are_meant(cmd: str, target: str, filters: dict[str, object]) -> None:
    world, client = populated()
    assert client.call(mutate_line(cmd, target, **filters)) == OK
    after = EVERYTHING | {target: []}
    if (goes_to := {"kill": "dead", "requeue": "ready"}.get(cmd)) is not None:
        after[goes_to] = after[goes_to] + EVERYTHING[target]
    assert {name: sorted(jids) for name, jids in sets(world).items()} == {
        name: sorted(jids) for name, jids in after.items()
    }


@pytest.mark.parametrize("target", ["retries", "scheduled", "dead"])
@pytest.mark.parametrize(
    "filters",
    [
        {"jobtype": "type1"},
        {"regexp": "*[_x]type1*", "jobtype": "nope", "jids": "first"},
        {"regexp": '*"args":\\[1[\\],]*'},
        {"regexp": '*"jid":"*1","queue":"default"*'},
        {"regexp": '*"jobtype":"type?"*', "jobtype": "type1"},
        {"regexp": '{"retry":*"jid":"????????01"*}'},
        {"jids": "first"},
        {"jids": "many"},
    ],
)
def test_a_filter_chooses(target: str, filters: dict[str, object]) -> None:
    world, client = populated()
    if filters.get("jids") == "first":
        filters = filters | {"jids": [FIRST[target]]}
    if filters.get("jids") == "many":
        filters = filters | {"jids": [f"nobody-{i}" for i in range(500)] + [FIRST[target]]}
    assert client.call(mutate_line("discard", target, **filters)) == OK
    assert sets(world) == EVERYTHING | {target: [SECOND[target]]}


@pytest.mark.parametrize(
    "filters",
    [
        {"jobtype": "type"},
        {"jobtype": "TYPE1"},
        {"jobtype": "type*", "regexp": "*"},
        {"regexp": "type1"},
        {"regexp": "*type1"},
        {"regexp": "*[]*"},
        {"jids": ["ready-0001"]},
        {"jids": ["nobody-1"], "jobtype": "type1"},
        {"regexp": "*type1*", "jobtype": "type2"},
        {"regexp": "*[^a-z]ype1*"},
    ],
)
@pytest.mark.parametrize("target", ["retries", "scheduled", "dead"])
def test_a_filter_that_fits_nobody_changes_nothing(target: str, filters: dict[str, object]) -> None:
    world, client = populated()
    assert client.call(mutate_line("discard", target, **filters)) == OK
    assert sets(world) == EVERYTHING


KINDS = ["SendMail", "SendSms", "a*b", 'a"b']


@pytest.mark.parametrize(
    ("jobtype", "meant"),
    [
        ("SendMail", KINDS[:1]), ("Send*", KINDS[:2]), ("*Sms", KINDS[1:2]), ("S?ndMail", KINDS[:1]),
        ("[RS]end[^S]ail", KINDS[:1]), ("*", KINDS), ("?", []), ("a*b", KINDS[2:]), ('a"*', []),
        ('a"b', KINDS[3:]), ("send*", []),
    ],
)  # fmt: skip
def test_a_jobtype_alone_is_a_pattern(
    world: World, client: Puppet, jobtype: str, meant: list[str]
) -> None:
    for number, kind in enumerate(KINDS):
        client.push(f"jid-000{number}", jobtype=kind, at=LATER)
    assert client.call(mutate_line("discard", "scheduled", jobtype=jobtype)) == OK
    assert [found.kind for found in world.jobs()] == [kind for kind in KINDS if kind not in meant]


def test_many_names_are_looked_for_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(limits=Limits(window_jobs=10, supply_jobs=5))
    client = world.peer()
    client.push_many(job(f"jid-{i:05}", i, at=LATER) for i in range(1_000))
    client.push_many(job("jid-00500", i, at=LATER) for i in range(700))
    asked: list[JobQuery] = []
    recall = world.broker.recall

    def noted(query: JobQuery, by: Recaller) -> None:
        asked.append(query)
        recall(query, by)

    monkeypatch.setattr(world.broker, "recall", noted)
    names = [f"jid-{i:05}" for i in range(2_000)]
    assert (client.call(mutate_line("discard", "scheduled", jids=names)), world.jobs()) == (OK, [])
    assert {(len(query.names), query.limit, query.states) for query in asked} == {
        (200, 200, (State.WAITING,))
    }
    # Two pages for every 200 names, and those that a name of many jobs needs.
    assert len(asked) <= 2 * 10 + 4


def test_a_pattern_sees_the_failure_and_the_time_as_the_original_would_write_them() -> None:
    world, client = populated()
    assert client.call(mutate_line("kill", "retries", regexp='*"message":"error 2"*')) == OK
    assert sets(world)["retries"] == ["retry-0001"]
    pattern = f'*"created_at":"2026-09-21T14:13:20.000Z","at":"{LATER}","args":[[]2,"fizz"],*'
    assert client.call(mutate_line("kill", "scheduled", regexp=pattern)) == OK
    assert sets(world)["scheduled"] == ["later-0001"]


def test_the_pattern_of_the_rust_suite_fits_compact_arguments(world: World, client: Puppet) -> None:
    line = f'{{"jid": "jid-0001", "jobtype": "t", "args": ["fizz"], "at": "{LATER}"}}'
    assert client.call(f"PUSH {line}") == OK
    mutate = mutate_line("discard", "scheduled", regexp=r'*"args":\["fizz"\]*')
    assert (client.call(mutate), world.jobs()) == (OK, [])


def test_a_killed_job_in_the_dead_set_starts_its_time_anew() -> None:
    world, client = populated()
    world.pass_time(5_000)
    assert client.call(mutate_line("kill", "dead")) == OK
    assert {job.run_at for job in world.jobs(State.DEAD)} == {world.now}


def test_a_killed_job_that_would_have_vanished_is_kept(world: World, client: Puppet) -> None:
    client.push("jid-0001", retry=0, at=LATER)
    assert client.call(mutate_line("kill", "scheduled")) == OK
    assert [job.state for job in world.jobs()] == [State.DEAD]


def test_a_requeued_job_goes_to_whoever_waits() -> None:
    world, client = populated()
    worker = world.peer("w2")
    worker.say("FETCH")
    assert client.call(mutate_line("requeue", "scheduled", jids=["later-0001"])) == OK
    assert worker.read().json["jid"] == "later-0001"


def test_jobs_in_the_tail_are_meant_too() -> None:
    world = World(limits=Limits(window_jobs=10, supply_jobs=5))
    client = world.peer()
    client.push_many(job(f"jid-{i:05}", i, at=LATER) for i in range(1_000))
    assert len(world.store.tail) > 900
    assert client.call(mutate_line("kill", "scheduled", regexp="*7,*")).kind == "+"
    assert client.call(mutate_line("discard", "scheduled", regexp="*9]*")) == OK
    assert len(world.jobs()) == 900
    assert client.info()["faktory"]["sets"]["scheduled"] == 900
    assert client.call(mutate_line("requeue", "scheduled")) == OK
    assert client.info()["faktory"]["queues"] == {"default": 900}
    assert sum(client.fetch() is not None for _ in range(900)) == 900


def test_a_page_of_jobs_that_left_the_set_is_not_the_end(client: Puppet, world: World) -> None:
    client.push_many(job(f"jid-{i:05}", i, at=LATER) for i in range(250))
    client.begin(mutate_line("discard", "scheduled"))
    (want,) = world.broker.take_wants()
    (page,) = world.store.write(world.broker.drain(), [want])
    for early in page:
        world.broker.retry(early, world.now)
    world.engine.supplied(want, page, world.now)
    world.run()
    assert (client.cut(), {left.state for left in world.jobs()}) == (OK, {State.READY})
    assert len(world.jobs()) == len(page) == 200


def test_what_lies_behind_a_mutation_waits_for_it() -> None:
    _world, client = populated()
    client.say(mutate_line("requeue", "dead"), "FETCH", *["TRACK x"] * 200)
    replies = client.heard()
    assert (replies[0], replies[1].json["jid"]) == (OK, "dead-00001")
    assert len(replies) == 202


def test_a_mutation_goes_on_when_its_client_is_gone() -> None:
    world, client = populated()
    client.begin(mutate_line("discard", "dead"))
    client.hang_up()
    assert sets(world)["dead"] == []


def test_a_mutation_is_answered_after_the_commit() -> None:
    _world, client = populated()
    client.waited_for_commit = False
    client.call(mutate_line("discard", "dead"))
    assert client.waited_for_commit


@pytest.mark.parametrize(
    "line",
    [
        'MUTATE {"cmd":1}',
        'MUTATE {"cmd":"kill","target":"dead","filter":[]}',
        mutate_line("kill", "dead", jids="x"),
        mutate_line("kill", "dead", regexp=1),
        mutate_line("kill", "dead", regexp="*" * 5_000),
        mutate_line("discard", "dead", jids=["dead-00001", *map(str, range(10_000))]),
        mutate_line("discard", "dead", jids=["x" * 600_000]),
        mutate_line("discard", "dead", regexp="".join(f"[^{chr(0x100 + i)}]" for i in range(65))),
        "MUTATE kill dead",
        "MUTATE {",
        "MUTATE " + '{"filter":' * 50_000,
    ],
    ids=range(11),
)
def test_what_is_no_mutation_is_refused(line: str) -> None:
    world, client = populated()
    assert client.call(line).kind == "-"
    assert sets(world) == EVERYTHING


def test_members_in_any_case_and_company() -> None:
    world, client = populated()
    line = 'MUTATE {"CMD":"discard","Target":"dead","x":1,"Filter":{"JIDS":["dead-00001"],"y":2}}'
    assert client.call(line) == OK
    assert sets(world)["dead"] == ["dead-00002"]


# -- patterns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "fits", "fails"),
    [
        (b"abc", [b"abc"], [b"abcd", b"ab", b""]),
        (b"", [b""], [b"a"]),
        (b"*", [b"", b"abc", b"a\nb"], []),
        (b"a*c", [b"ac", b"abc", b"abcbc"], [b"acb", b"bac"]),
        (b"*b*", [b"b", b"abc"], [b"ac"]),
        (b"a?c", [b"abc", b"a\nc"], [b"ac", b"abbc"]),
        (b"[a-c]x", [b"ax", b"cx"], [b"dx", b"x"]),
        (b"[c-a]x", [b"bx"], [b"dx"]),
        (b"[^a-c]x", [b"dx"], [b"ax"]),
        (b"[]x", [], [b"x", b"]x", b"ax"]),
        (b"[^]x", [b"]x", b"ax"], [b"x"]),
        (b"[abc", [b"a", b"c"], [b"d", b"[abc"]),
        (b"[\\]a]", [b"]", b"a"], [b"\\"]),
        (b"[a-]", [b"a"], [b"b"]),
        (b"\\*\\?\\[", [b"*?["], [b"abc"]),
        (b"a\\", [b"a\\"], [b"a"]),
        (b"(a|b)+.$^", [b"(a|b)+.$^"], [b"a"]),
        (b"*a*b*a", [b"aba", b"xxaxxbxxa", b"abba"], [b"ab", b"ba"]),
        (b"**a", [b"a", b"xa"], [b"b"]),
    ],
)
def test_patterns_mean_what_redis_means(glob: bytes, fits: list[bytes], fails: list[bytes]) -> None:
    assert all(matches(glob, text) for text in fits)
    assert not any(matches(glob, text) for text in fails)


def matches(glob: bytes, text: bytes) -> bool:
    return run_steps(Glob(glob).match(text, Share()))


def plain_match(glob: bytes, text: bytes) -> bool:
    """The textbook meaning of `*` and `?`."""
    if not glob:
        return not text
    if glob[:1] == b"*":
        return any(plain_match(glob[1:], text[i:]) for i in range(len(text) + 1))
    return bool(text) and glob[:1] in (b"?", text[:1]) and plain_match(glob[1:], text[1:])


@given(
    st.lists(st.sampled_from([b"*", b"?", b"a", b"b"]), max_size=8).map(b"".join),
    st.lists(st.sampled_from([b"a", b"b"]), max_size=10).map(b"".join),
)
def test_giving_way_to_the_first_fit_misses_nothing(glob: bytes, text: bytes) -> None:
    assert matches(glob, text) == plain_match(glob, text)


@given(st.binary(max_size=30))
def test_any_bytes_are_some_pattern(glob: bytes) -> None:
    Glob(glob)
