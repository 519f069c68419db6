"""Workers: BEAT, quiet and terminate on every connection, and those that fall silent."""

import pytest

from franca.core.model import State
from tests.protocols.faktory.puppet import NULL, OK, Puppet, World, err
from tests.protocols.world import START
from tests.support.faktory import Reply

QUIET = Reply("$", b'{"state":"quiet"}')
TERMINATE = Reply("$", b'{"state":"terminate"}')


def test_a_beat_is_answered_ok_until_there_is_an_order(worker: Puppet, world: World) -> None:
    assert worker.beat("w1", rss_kb=54_176) == OK
    assert world.service.ask_worker("w1", "quiet")
    assert (worker.beat("w1"), worker.beat("w1", current_state="quiet")) == (QUIET, QUIET)
    assert world.service.ask_worker("w1", "stop")
    assert (worker.beat("w1"), worker.beat("w1")) == (TERMINATE, TERMINATE)


def test_a_state_never_goes_back(world: World, worker: Puppet) -> None:
    world.service.ask_worker("w1", "stop")
    world.service.ask_worker("w1", "quiet")
    assert worker.beat("w1", current_state="quiet") == TERMINATE
    assert worker.beat("w1", current_state="running") == TERMINATE


@pytest.mark.parametrize("state", ["running", "bogus", "", None])
def test_a_state_that_means_nothing_is_ignored(state: str | None) -> None:
    assert World().peer("w1").beat("w1", current_state=state) == OK


@pytest.mark.parametrize(("state", "answer"), [("quiet", QUIET), ("terminate", TERMINATE)])
def test_a_worker_may_say_itself_what_it_does(worker: Puppet, state: str, answer: object) -> None:
    assert (worker.beat("w1", current_state=state), worker.beat("w1")) == (answer, answer)


def test_a_beat_may_come_from_any_connection_and_in_any_company(world: World) -> None:
    world.peer("w1")
    assert world.peer().beat("w1", extra={"x": [1]}) == OK
    assert world.peer().call('BEAT {"WID":"w1","RSS_KB":7}') == OK
    assert next(world.service.workers()).rss_kb == 7


def test_nobody_is_not_a_worker() -> None:
    assert World().peer("w1").beat("w2") == err("unknown worker w2")
    assert World().peer().call("BEAT {}") == err("unknown worker ")
    assert not World().service.ask_worker("w1", "quiet")
    world = World()
    world.peer("w1")
    assert not world.service.ask_worker("w1", "dance")


@pytest.mark.parametrize("what", ["quiet", "stop"])
def test_quiet_holds_for_every_connection_of_one_worker_only(world: World, what: str) -> None:
    producer, one, two, other = (world.peer(wid) for wid in ("", "w1", "w1", "w2"))
    one.say("FETCH")
    world.pass_time(500)
    world.service.ask_worker("w1", what)
    producer.push("jid-0001")
    assert one.cut() is None
    two.say("FETCH")
    assert two.cut() is None
    world.pass_time(1_500)
    assert (one.cut(), two.cut()) == (NULL, None)
    world.pass_time(500)
    assert two.cut() == NULL
    assert other.fetch() is not None


def test_a_quiet_worker_may_still_finish_push_and_fail(worker: Puppet) -> None:
    for jid in ("jid-0001", "jid-0002"):
        worker.push(jid)
        worker.fetch()
    worker.beat("w1", current_state="terminate")
    said = worker.ack("jid-0001"), worker.fail("jid-0002"), worker.push("jid-0003")
    assert (*said, worker.fetch()) == (OK, OK, OK, None)


def test_a_worker_without_a_beat_for_a_minute_is_hung_up_on(world: World) -> None:
    one, two, other = world.peer("w1"), world.peer("w1"), world.peer("w2")
    one.push("jid-0001")
    assert one.fetch() is not None
    world.pass_time(59_000, step=500)
    assert one.ack("nothing-1") == OK
    one.say("FETCH")
    other.beat("w2")
    world.pass_time(2_000)
    assert (one.is_hung_up, two.is_hung_up, other.is_hung_up) == (True, True, False)
    assert other.beat("w1") == err("unknown worker w1")
    assert other.info()["faktory"]["tasks"]["Workers"] == {"reaped": 1, "size": 1}
    assert [job.state for job in world.jobs()] == [State.LEASED]
    other.push("jid-0002")
    assert other.fetch() is not None


def test_a_worker_that_beats_stays(world: World, worker: Puppet) -> None:
    for _ in range(10):
        world.pass_time(59_000, step=500)
        assert worker.beat("w1") == OK


def test_a_name_without_a_beat_is_hung_up_on_too_but_not_one_without_a_name(world: World) -> None:
    named, nobody = world.peer("w1"), world.peer()
    world.pass_time(62_000, step=500)
    assert (named.is_hung_up, nobody.is_hung_up) == (True, False)


def test_a_worker_is_forgotten_with_its_last_connection(world: World) -> None:
    one, two = world.peer("w1"), world.peer("w1")
    world.service.ask_worker("w1", "quiet")
    one.hang_up()
    assert two.beat("w1") == QUIET
    two.say("END")
    assert not list(world.service.workers())
    assert world.peer("w1").beat("w1") == OK


def test_a_reaped_worker_that_comes_back_is_not_hurt_by_its_old_connections(world: World) -> None:
    old = world.peer("w1")
    world.pass_time(59_900, step=100)
    assert not old.is_hung_up
    world.now += 200
    world.engine.tick(world.now)
    new = world.peer("w1")
    world.run()
    assert old.is_hung_up
    assert new.beat("w1") == OK


def test_operators_see_who_is_there(world: World) -> None:
    one = world.peer("w1", hostname="host", pid=77, labels=["python", "blue"], rss_kb=5)
    two = world.peer("w1", hostname="else", pid=78)
    one.push("jid-0001", queue="b")
    one.fetch("b", "a")
    two.fetch("c")
    world.service.ask_worker("w1", "quiet")
    (view,) = world.service.workers()
    assert (view.name, view.protocol) == ("w1", "faktory")
    assert (view.host, view.pid, view.labels) == ("host", 77, ["python", "blue"])
    assert (view.state, view.started_at, view.seen_at) == ("quiet", START, START)
    assert (view.connections, view.queues) == (2, ["a", "b", "c"])


def test_a_worker_is_described_as_far_as_anybody_looks(world: World) -> None:
    world.peer("w1", hostname="h" * 3_000, labels=["l" * 120] * 80)
    (view,) = world.service.workers()
    assert (view.host, list(view.labels)) == ("h" * 255, ["l" * 100] * 32)


def test_descriptions_of_all_workers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.faktory.workers.DESCRIPTIONS_BYTES_MAX", 3_000)
    world = World()
    clients = [world.peer(f"w{i}", hostname="h" * 200, labels=["l"]) for i in range(5)]
    assert [view.host for view in world.service.workers()] == ["h" * 200] * 3 + [""] * 2
    for client in clients:
        client.hang_up()
    assert world.service.registry.described_in == 0
    world.peer("w9", hostname="h")
    assert [view.host for view in world.service.workers()] == ["h"]


def test_some_of_very_many_queues_are_shown(world: World, worker: Puppet) -> None:
    names = [f"q{i:04}" for i in range(1_000)]
    worker.say(" ".join(["FETCH", *names]))
    (view,) = world.service.workers()
    assert list(view.queues) == names[:100]


def test_a_worker_that_missed_a_beat_is_shown_as_stalled_until_it_is_taken_for_gone(
    world: World,
) -> None:
    worker = world.peer("w1")
    worker.push("jid-0001", queue="q")
    worker.fetch("q")
    for after, state in ((30_000, "busy"), (30_001, "stalled"), (60_000, "stalled")):
        (view,) = world.service.workers(START + after)
        assert (view.state, view.fetched_at) == (state, START)
        assert [(run.type, run.queue) for run in view.running] == [("prove", "q")]
    world.service.ask_worker("w1", "stop")
    (view,) = world.service.workers(START + 60_000)
    assert view.state == "stopping"
