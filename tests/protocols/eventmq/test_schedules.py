"""SCHEDULE and UNSCHEDULE: on time, once for each moment, over restarts, in the queue they name."""

import json
from datetime import UTC, datetime

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.eventmq.schedules import schedule_id
from tests.protocols.eventmq.puppet import Puppet, World
from tests.protocols.world import START
from tests.support.eventmq import call, message

MINUTE = 60_000


def scheduled(
    client: Puppet, interval: str = "60", cron: str = "", *, headers: str = "",
    queue: str = "default", body: bytes = b"",
) -> None:  # fmt: skip
    client.say("SCHEDULE", queue, headers, interval, body or call(), cron)


def firings(world: World, worker: Puppet, ms: int, step: int = 1_000) -> list[int]:
    """At which seconds from now jobs came, each done at once."""
    found = []
    began = world.now
    while world.now < began + ms:
        world.pass_time(step, step=step)
        given = worker.given()
        found += [(world.now - began) // 1000] * len(given)
        for one in given:
            worker.done(one)
        worker.say("HEARTBEAT", "1")
    return found


@pytest.fixture
def worker(world: World) -> Puppet:
    return world.worker(slots=4)


def test_an_interval_runs_now_and_then_on_its_grid(world: World, worker: Puppet) -> None:
    scheduled(world.peer())
    assert firings(world, worker, 3 * MINUTE + 5_000) == [1, 60, 120, 180]


def test_the_hasty_run_happens_whatever_is_said_next(world: World, worker: Puppet) -> None:
    rule = (b"id", b"default", b"", b"60", call(), b"")
    said = message(b"SCHEDULE", *rule) * 2 + message(b"UNSCHEDULE", *rule)
    world.peer().send(said)
    assert (len(worker.given()), world.broker.schedules.by_id) == (2, {})


def test_without_room_the_hasty_run_waits_for_it(world: World, worker: Puppet) -> None:
    world.broker.refusing_new = True
    scheduled(world.peer())
    world.pass_time(5_000, worker)
    assert worker.given() == []
    world.broker.refusing_new = False
    world.pass_time(100)
    assert len(worker.given()) == 1


def test_a_hasty_run_refused_for_want_of_room_is_not_lost(world: World, worker: Puppet) -> None:
    world.broker.room_bytes = 0
    scheduled(world.peer(), headers="run_count:1")
    assert (worker.given(), world.service.refused) == ([], 0)
    world.broker.room_bytes = 1 << 40
    assert (firings(world, worker, 3 * MINUTE), world.broker.schedules.by_id) == ([1], {})


def test_a_rule_whose_first_job_is_refused_is_not_kept() -> None:
    world = World(limits=Limits(queues_bytes=0))
    scheduled(world.peer())
    assert (world.service.refused, world.broker.schedules.by_id) == (1, {})
    assert not world.broker.drain().schedules_saved


def test_without_haste_the_first_run_is_one_interval_later(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), headers="nohaste")
    assert firings(world, worker, 2 * MINUTE + 5_000) == [60, 120]


def test_a_run_count_ends_it_and_the_first_run_counts(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), headers="run_count:3")
    assert (firings(world, worker, 10 * MINUTE), world.broker.schedules.by_id) == ([1, 60, 120], {})
    scheduled(world.peer(), headers="nohaste,run_count:2")
    assert firings(world, worker, 10 * MINUTE) == [60, 120]
    scheduled(world.peer(), headers="run_count:0")
    assert firings(world, worker, 10 * MINUTE) == []


def test_a_fired_job_looks_like_a_schedulers_request(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), headers="guarantee", body=call("a.b", 1))
    world.pass_time(100)
    assert worker.take()[1:] == (b"default", b"reply-requested", call("a.b", 1))


def test_each_firing_has_an_id_of_its_own(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), "1")
    world.pass_time(3_100, worker)
    ids = [given.msgid for given in worker.given()]
    assert len(set(ids)) == len(ids) == 4


# -- cron ---------------------------------------------------------------------------------------------


def seconds_to(text: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(moment.timestamp()) - START // 1000


def test_cron_runs_now_and_when_it_says(world: World, worker: Puppet) -> None:
    """The world begins at 14:13:20 UTC."""
    scheduled(world.peer(), "-1", "*/15 * * * *", queue="default")
    assert firings(world, worker, 3_600_000, 10_000) == [10, 100, 1_000, 1_900, 2_800]


def test_cron_keeps_its_queue_and_its_count(world: World) -> None:
    worker = world.worker((10, "email"), slots=4)
    scheduled(world.peer(), "-1", "* * * * *", queue="email", headers="nohaste,run_count:2")
    assert firings(world, worker, 10 * MINUTE, 10_000) == [40, 100]


def test_six_fields_have_their_seconds_last_as_the_original(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), "-1", "* * * * * 30", headers="nohaste")
    assert firings(world, worker, 2 * MINUTE) == [10, 70]


@pytest.mark.parametrize("cron", ["@hourly", "0 * * * ?"])
def test_macros_and_question_marks(world: World, worker: Puppet, cron: str) -> None:
    scheduled(world.peer(), "-1", cron, headers="nohaste")
    assert firings(world, worker, 2 * 3_600_000, 5_000) == [2_800, 6_400]


@pytest.mark.parametrize(
    ("headers", "timezone", "moment"),
    [
        ("nohaste", "UTC", "2026-09-22T03:30"),
        ("nohaste,timezone:Europe/Berlin", "UTC", "2026-09-22T01:30"),
        ("nohaste", "Europe/Berlin", "2026-09-22T01:30"),
    ],
)
def test_cron_is_in_utc_by_default(headers: str, timezone: str, moment: str) -> None:
    world = World(timezone=timezone)
    scheduled(world.peer(), "-1", "30 3 * * *", headers=headers)
    (schedule,) = world.broker.schedules.by_id.values()
    assert (schedule.next_at - START) // 1000 == seconds_to(moment)


# -- the document's form --------------------------------------------------------------------------------


def test_seven_frames_take_their_time_from_the_headers(world: World, worker: Puppet) -> None:
    client = world.peer()
    client.say("SCHEDULE", "default", "interval:60,nohaste", call("a.b"))
    assert firings(world, worker, 2 * MINUTE + 1_000) == [60, 120]
    client.say("UNSCHEDULE", "default", "", call("a.b"))
    assert world.broker.schedules.by_id == {}
    client.say("SCHEDULE", "default", '{"cron": "0,30 * * * *", "nohaste": true}', call("a.b"))
    (schedule,) = world.broker.schedules.by_id.values()
    assert schedule.cron == "0,30 * * * *"
    client.say("SCHEDULE", "default", "cron:0,20 * * * *,nohaste", call("a.b"))
    (schedule,) = world.broker.schedules.by_id.values()
    assert schedule.cron == "0,20 * * * *"


@pytest.mark.parametrize(
    "parts",
    [
        ("default", "", call()),
        ("default", "interval:0", call()),
        ("default", "interval:x", call()),
        ("default", "cron:x", call()),
        ("default", "cron:0 0 31 2 *", call()),
        ("default", "timezone:Mars/Base,cron:* * * * *", call()),
        ("default", "", "-1", call(), ""),
        ("default", "", "0", call(), ""),
        ("default", "", "nan", call(), ""),
        ("default", "", "inf", call(), ""),
        ("default", "", "1e300", call(), ""),
        ("default", "", "-1", call(), "x" * 300),
        ("default", "", "-1", call(), "1 2 3"),
        ("default", "", "5", b"x" * 201, ""),
    ],
)
def test_a_schedule_without_a_time_is_refused(parts: tuple[str | bytes, ...]) -> None:
    world = World(limits=Limits(body_bytes_max=200))
    world.peer().say("SCHEDULE", *parts)
    assert (world.broker.schedules.by_id, world.service.refused) == ({}, 1)


# -- the same rule again, and none -------------------------------------------------------------------------


def test_the_same_call_again_replaces_it(client: Puppet, world: World, worker: Puppet) -> None:
    scheduled(client, "10", headers="nohaste", body=call("a.b", 1))
    scheduled(client, "-1", "0 0 1 1 *", headers="nohaste", body=call("a.b", 1))
    scheduled(client, "60", headers="nohaste", body=call("a.b", 1))
    scheduled(client, "90", headers="nohaste", body=call("a.b", 2))
    assert len(world.broker.schedules.by_id) == 2
    assert firings(world, worker, 95_000) == [60, 90]


@pytest.mark.parametrize(("interval", "cron"), [("60", ""), ("-1", "* * * * *")])
def test_unschedule_ends_it_by_interval_or_cron_whatever_else_it_says(
    client: Puppet, world: World, worker: Puppet, interval: str, cron: str
) -> None:
    scheduled(client, interval, cron, headers="nohaste")
    client.say("UNSCHEDULE", "other", "", "-1", call(), "")
    assert firings(world, worker, 5 * MINUTE, 10_000) == []


def test_the_digest_is_the_originals() -> None:
    """sha1 over the sorted JSON of six members, as its scheduler computes it."""
    body = json.dumps(
        ["run", {"path": "os.path", "callable": "basename", "args": ["/a"], "kwargs": {"b": 1},
                 "class_args": [], "class_kwargs": {}, "more": 1}]
    ).encode()  # fmt: skip
    assert schedule_id(body) == "eventmq:33a9ee44db861d308ab22a6fa32ba8af74f1b96d"


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'["run"]', b'["run", 5]', b"[" * 100_000])
def test_what_is_no_call_has_a_digest_too(body: bytes) -> None:
    assert schedule_id(body).startswith("eventmq:")


# -- queues -------------------------------------------------------------------------------------------------


def test_a_rule_for_a_queue_without_workers_runs_in_default(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), "10", queue="email")
    world.pass_time(100)
    given = worker.take()
    assert given.queue == b"email"
    world = world.restarted()
    mailer = world.worker((10, "email"), slots=1)
    world.pass_time(10_000, mailer)
    assert mailer.take().queue == b"email"
    world = world.restarted()
    world.pass_time(10_000)
    assert world.worker((10, "email"), slots=1).take().queue == b"email"


# -- restarts -------------------------------------------------------------------------------------------------


def test_rules_survive_a_restart_and_keep_to_their_grid(world: World, worker: Puppet) -> None:
    scheduled(world.peer())
    assert firings(world, worker, 90_000) == [1, 60]
    world = world.restarted()
    worker = world.worker(slots=1)
    assert firings(world, worker, 2 * MINUTE) == [30, 90]


def test_what_was_missed_while_the_server_was_off_is_run_once(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), "10")
    assert firings(world, worker, 5_000) == [1]
    world = world.restarted(world.now + 10 * MINUTE)
    worker = world.worker(slots=4)
    assert firings(world, worker, 21_000) == [1, 5, 15]


def test_a_firing_is_once_whether_the_server_dies_before_or_after_it(world: World) -> None:
    scheduled(world.peer(), "60", headers="nohaste")
    world.pass_time(MINUTE - 100)
    world = world.restarted()
    world.pass_time(200)
    assert len(world.jobs()) == 1
    world = world.restarted()
    world.pass_time(200)
    assert len(world.jobs()) == 1


def test_a_run_count_goes_on_where_it_was(world: World, worker: Puppet) -> None:
    scheduled(world.peer(), "60", headers="run_count:3")
    assert firings(world, worker, 70_000) == [1, 60]
    world = world.restarted()
    worker = world.worker(slots=4)
    assert firings(world, worker, 10 * MINUTE) == [50]


# -- schedulers of the original ---------------------------------------------------------------------------------


def test_a_scheduler_that_connects_is_obeyed_and_hears_of_unschedules(world: World) -> None:
    scheduler, client, worker = world.worker(role="scheduler"), world.peer(), world.worker(slots=1)
    msgid = scheduler.request(call(), headers="reply-requested").decode()
    assert scheduler.words() == [("REPLY", msgid)]
    worker.done(worker.take())
    scheduler.heard()
    scheduled(client, body=call("a.b"))
    assert scheduler.words() == []
    client.say("UNSCHEDULE", "default", "", "-1", call("a.b"), "")
    ((word, *rest),) = scheduler.words()
    assert (word, rest[3]) == ("UNSCHEDULE", call("a.b").decode())


def test_a_scheduler_takes_no_jobs(world: World) -> None:
    scheduler = world.worker(role="scheduler")
    scheduler.ready()
    world.peer().request()
    assert scheduler.given() == []


def test_there_may_be_only_so_many_rules_and_bytes_of_them() -> None:
    world = World(limits=Limits(rules_max=3, rules_bytes=1_000))
    client = world.peer()
    for number in range(5):
        scheduled(client, body=call("a.b", number))
    rules = world.broker.schedules
    assert len(rules.by_id) == 3
    scheduled(client, "30", body=call("a.b", 0))  # one that is there already may change
    assert world.service.refused == 2
    client.say("UNSCHEDULE", "default", "", "60", call("a.b", 0), "")
    scheduled(client, body=call("a.b", "x" * 900))
    assert (len(rules.by_id), world.service.refused) == (2, 3)
    for number in (1, 2):
        client.say("UNSCHEDULE", "default", "", "60", call("a.b", number), "")
    assert (rules.by_id, rules.bytes) == ({}, 0)


def test_a_rule_changed_very_often_leaves_nothing_behind(client: Puppet, world: World) -> None:
    for _ in range(3_000):
        scheduled(client, headers="nohaste")
    assert len(world.broker.schedules._heap) < 1_100


@pytest.mark.parametrize("interval", ["1e-9", "0.0001", "0.999"])
def test_an_interval_of_less_than_a_second_is_one(world: World, interval: str) -> None:
    scheduled(world.peer(), interval, headers="nohaste,run_count:1e300")
    (rule,) = world.broker.schedules.by_id.values()
    assert (rule.every_ms, rule.runs_left) == (1_000, 2**31 - 1)


def test_rules_of_several_queues_share_one_worker_of_all(client: Puppet, world: World) -> None:
    for queue in ("one", "two"):
        scheduled(client, queue=queue, headers="nohaste", body=call("a.b", queue))
    world.worker((10, "one"), (10, "two"))
    assert {rule.job.queue for rule in world.broker.schedules.by_id.values()} == {"one", "two"}


def test_a_rule_that_is_paused_stays_so_when_its_client_says_it_again(
    world: World, client: Puppet, worker: Puppet
) -> None:
    scheduled(client)
    assert len(worker.given()) == 1
    (rule_id,) = world.broker.schedules.by_id
    world.broker.pause_schedule(rule_id)
    scheduled(client, "30")
    assert firings(world, worker, 2 * MINUTE) == []
    world.broker.resume_schedule(rule_id, world.now)
    assert firings(world, worker, MINUTE) == [30, 60]


def test_it_is_known_who_made_a_rule_and_which_job_it_made_last(
    world: World, client: Puppet, worker: Puppet
) -> None:
    scheduled(client)
    (rule,) = world.broker.schedules.by_id.values()
    assert rule.last is not None
    (job,) = world.broker.jobs.values()
    assert (rule.source, rule.last.job_id, rule.last.state) == ("eventmq", job.id, State.READY)
    worker.done(worker.given()[0])
    assert rule.last.state is State.DONE
