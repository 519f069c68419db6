"""What each command does, beyond what the comparison with the original shows (`tests/real`)."""

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.beanstalkd import service
from tests.protocols.beanstalkd.puppet import Puppet, World
from tests.support.beanstalkd import put


def test_a_job_from_put_to_delete(world: World, client: Puppet, worker: Puppet) -> None:
    assert (client.ask(put(b"hello")), client.waited_for_commit) == ("INSERTED 1", True)
    assert worker.ask("reserve") == "RESERVED 1 5\nhello"
    assert (worker.ask("delete 1"), worker.waited_for_commit) == ("DELETED", True)
    assert not world.jobs()


def test_the_smallest_priority_comes_first_and_then_the_smallest_id(client: Puppet) -> None:
    for tube, pri in (("a", 5), ("b", 5), ("b", 4), ("a", 4_294_967_295), ("c", 0)):
        client.ask(f"use {tube}")
        client.put(pri=pri)
    client.ask("watch c", "watch b", "watch a")
    assert [client.ask("reserve").split()[1] for _ in range(5)] == ["5", "3", "1", "2", "4"]


@pytest.mark.parametrize("how", ["released", "kicked", "delayed", "timed out", "hung up"])
def test_a_job_that_comes_back_has_its_place_by_its_id(
    world: World, client: Puppet, worker: Puppet, how: str
) -> None:
    first = client.put(delay=5 if how == "delayed" else 0, ttr=2)
    client.put()
    if how != "delayed":
        assert worker.ask("reserve").startswith(f"RESERVED {first} ")
    if how == "released":
        worker.ask(f"release {first} 10 0")
    elif how == "kicked":
        worker.ask(f"bury {first} 10", "kick 1")
    elif how == "hung up":
        worker.hang_up()
    world.pass_time(6_000)
    assert client.ask("reserve").startswith(f"RESERVED {first} ")


def test_a_waiting_reserve_is_answered_by_a_job_or_in_time(
    world: World, client: Puppet, worker: Puppet
) -> None:
    worker.say("reserve-with-timeout 3")
    worker.say("list-tube-used")
    world.pass_time(2_900)
    assert worker.reply() == ""
    world.pass_time(200)
    assert (worker.reply(), worker.reply()) == ("TIMED_OUT", "USING default")
    worker.say("reserve")
    world.pass_time(100_000)
    assert worker.reply() == ""
    client.put(b"late")
    assert worker.reply() == "RESERVED 1 4\nlate"


def test_a_worker_is_warned_a_second_before_its_time_is_over(world: World, worker: Puppet) -> None:
    worker.put(ttr=3)
    assert worker.ask("reserve").startswith("RESERVED")
    worker.say("reserve")
    world.pass_time(1_900)
    assert worker.reply() == ""
    world.pass_time(200)
    assert worker.reply() == "DEADLINE_SOON"
    assert worker.ask("reserve-with-timeout 0") == "DEADLINE_SOON"
    assert worker.ask("touch 1") == "TOUCHED"
    assert worker.ask("reserve-with-timeout 0") == "TIMED_OUT"
    world.pass_time(3_200)
    assert worker.ask("delete 1") == "DELETED", "it is ready, and anybody may delete it"


def test_a_job_whose_time_is_over_is_ready_and_counted(
    world: World, client: Puppet, worker: Puppet
) -> None:
    client.put(ttr=1)
    worker.ask("reserve")
    world.pass_time(1_200)
    stats = client.stats("stats-job 1")
    assert (stats["state"], stats["reserves"], stats["timeouts"]) == ("ready", "1", "1")
    assert client.stats("stats")["job-timeouts"] == "1"
    assert worker.ask("release 1 1 0") == "NOT_FOUND"


def test_many_reserved_jobs_are_watched_for_the_first_deadline(
    world: World, worker: Puppet
) -> None:
    for number in range(300):
        worker.put(ttr=1_000 - number)
        worker.ask("reserve")
    for number in range(300, 1, -1):
        worker.ask(f"delete {number}")
    world.pass_time(998_500)
    assert worker.ask("reserve-with-timeout 0") == "TIMED_OUT"
    world.pass_time(1_000)
    assert worker.ask("reserve-with-timeout 0") == "DEADLINE_SOON"


def test_reserve_job_takes_ready_delayed_and_buried_jobs(client: Puppet, worker: Puppet) -> None:
    ready, delayed, buried = client.put(), client.put(delay=100), client.put(pri=1)
    client.ask(f"reserve-job {buried}", f"bury {buried} 1")
    for job in (ready, delayed, buried):
        assert worker.ask(f"reserve-job {job}").startswith(f"RESERVED {job} ")
        assert client.ask(f"reserve-job {job}") == "NOT_FOUND"
        assert client.stats(f"stats-job {job}")["time-left"] == "60"
    for job in (99, 18446744073709551615):
        assert worker.ask(f"reserve-job {job}") == "NOT_FOUND"


def test_kick_takes_buried_jobs_first_and_in_their_order(world: World, client: Puppet) -> None:
    delayed = client.put(delay=100)
    for _ in range(3):
        client.put()
    for job in (4, 2, 3):
        client.ask(f"reserve-job {job}", f"bury {job} 10")
        world.pass_time(50)
    assert client.ask("peek-buried").startswith("FOUND 4 ")
    assert client.ask("kick 2") == "KICKED 2"
    assert client.ask("peek-buried").startswith("FOUND 3 ")
    assert client.ask("kick 9") == "KICKED 1"
    assert client.ask("peek-delayed").startswith(f"FOUND {delayed} ")
    assert (client.ask("kick 9"), client.ask("kick 9")) == ("KICKED 1", "KICKED 0")
    assert client.ask("kick-job 1") == "NOT_FOUND"


def test_many_jobs_are_kicked() -> None:
    world = World(limits=Limits(window_jobs=20, supply_jobs=5))
    client = world.peer()
    for _ in range(350):
        client.put(delay=100)
    assert client.ask("kick 4294967295") == "KICKED 350"
    assert client.stats("stats-tube default")["current-jobs-ready"] == "350"


def test_jobs_that_only_the_store_has_are_found() -> None:
    world = World(limits=Limits(window_jobs=4, supply_jobs=1, recent_names=1))
    client = world.peer()
    for number in range(40):
        client.put(b"%d" % number, pri=number)
    assert client.ask("peek 40") == "FOUND 40 2\n39"
    assert client.stats("stats-job 39")["pri"] == "38"
    assert client.ask("delete 38") == "DELETED"
    assert client.ask("reserve-job 37") == "RESERVED 37 2\n36"
    assert client.ask("release 37 0 0") == "RELEASED"
    assert client.ask("peek-ready") == "FOUND 1 1\n0"
    assert [client.ask("reserve").split()[1] for _ in range(4)] == ["1", "37", "2", "3"]
    assert client.stats("stats-tube default")["current-jobs-urgent"] == "35"


def test_a_paused_tube_gives_no_jobs_until_its_time(
    world: World, client: Puppet, worker: Puppet
) -> None:
    client.put()
    assert client.ask("pause-tube default 10") == "PAUSED"
    worker.say("reserve")
    world.pass_time(9_900)
    assert worker.reply() == ""
    assert client.stats("stats-tube default")["pause"] == "10"
    world.pass_time(300)
    assert worker.reply().startswith("RESERVED 1 ")
    client.ask("pause-tube default 100", "pause-tube default 0")
    client.put()
    assert worker.ask("reserve").startswith("RESERVED 2 ")
    assert client.ask("pause-tube nosuch 1") == "NOT_FOUND"


def test_what_is_known_of_jobs_and_pauses_outlives_the_server(world: World, client: Puppet) -> None:
    for _ in range(4):
        client.put(ttr=100)
    client.ask("reserve", "release 1 77 0", "reserve-job 2", "bury 2 5", "kick-job 2")
    client.ask("reserve-job 3", "bury 3 9", "pause-tube default 100")
    again = world.restart().peer()
    first, second, third = (again.stats(f"stats-job {number}") for number in (1, 2, 3))
    assert (first["pri"], first["releases"], first["reserves"]) == ("77", "1", "1")
    assert (second["pri"], second["buries"], second["kicks"]) == ("5", "1", "1")
    assert (third["state"], third["pri"]) == ("buried", "9")
    assert again.ask("reserve-with-timeout 0") == "TIMED_OUT"
    assert again.ask("kick 10") == "KICKED 1"


def test_buried_jobs_are_never_thrown_away() -> None:
    world = World(limits=Limits(dead_jobs=1, dead_ms=1_000))
    client = world.peer()
    for number in (1, 2, 3):
        client.put()
        client.ask(f"reserve-job {number}", f"bury {number} 1")
    world.pass_time(200_000, step=1_000)
    assert len(world.jobs(State.DEAD)) == 3


def test_tubes_exist_while_somebody_uses_or_watches_them_or_they_have_jobs(world: World) -> None:
    client, other = world.peer(), world.peer()
    assert client.ask("use a", "watch b", "list-tubes") == "OK 22\n---\n- default\n- a\n- b\n"
    client.put()
    client.ask("use default", "ignore b")
    assert other.ask("list-tubes") == "OK 18\n---\n- default\n- a\n"
    assert other.stats("stats-tube a")["total-jobs"] == "1"
    assert other.ask("delete 1", "stats-tube a") == "NOT_FOUND"
    other.ask("use a")
    assert other.stats("stats-tube a")["total-jobs"] == "0", "it is another tube"


def test_a_peer_that_sends_no_more_is_answered_and_then_hung_up_on(
    world: World, client: Puppet
) -> None:
    client.say(b"reserve\r\nlist-tube-used\r\nstats-job 1\r\n")
    client.send(b"")
    assert [client.reply() for _ in range(3)] == ["TIMED_OUT", "USING default", "NOT_FOUND"]
    assert client.is_hung_up
    late = world.peer()
    late.world.engine.inputs.append((late.link, b"reserve\r\nreserve\r\nput 1 0 1"))
    late.send(b"")
    assert [late.reply() for _ in range(2)] == ["TIMED_OUT", "TIMED_OUT"]
    assert late.is_hung_up


def test_draining(world: World, client: Puppet) -> None:
    client.put()
    world.service.drain()
    assert client.ask(put(b"more")) == "DRAINING"
    assert client.ask("reserve").startswith("RESERVED 1 ")
    assert client.stats("stats")["draining"] == "true"


def test_a_web_page_is_hung_up_on(client: Puppet) -> None:
    client.say(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nput 1 0 60 1\r\nx\r\n")
    assert (client.bytes_heard(), client.is_hung_up) == (b"", True)


# -- bounds ----------------------------------------------------------------------------------------


def test_a_body_may_have_so_many_bytes() -> None:
    client = World({"max_job_size": 10}).peer()
    assert client.ask(put(b"x" * 11)) == "JOB_TOO_BIG"
    assert client.ask(put(b"x" * 10)) == "INSERTED 1"
    assert client.stats("stats")["max-job-size"] == "10"


def test_a_connection_may_watch_a_few_tubes_whatever_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "EXTRA_BYTES_MAX", 5_000)
    world = World()
    greedy, other = world.peer(), world.peer()
    answers = [greedy.ask(f"watch t{number}") for number in range(40)]
    assert answers.count("OUT_OF_MEMORY") == 40 - 15 - 10
    assert [other.ask(f"watch t{number}")[:8] for number in range(15)] == ["WATCHING"] * 15
    greedy.ask("ignore t1")
    assert greedy.ask("watch again") == "WATCHING 26"
    greedy.hang_up()
    assert other.ask("watch t99") == "WATCHING 17"


def test_a_job_that_there_is_no_room_for_is_refused(world: World, client: Puppet) -> None:
    world.broker.refusing_new = True
    assert client.ask(put(b"work")) == "OUT_OF_MEMORY"
    assert world.engine.notices


# -- the delivery of jobs ------------------------------------------------------------------------------


def test_a_job_that_never_left_was_never_reserved(client: Puppet, worker: Puppet) -> None:
    worker.say("reserve")
    client.put()
    worker.hang_up(undelivered=True)
    stats = client.stats("stats-job 1")
    assert (stats["state"], stats["reserves"]) == ("ready", "0")


def test_who_waits_while_the_server_stops_is_answered_in_time_and_given_nothing(
    world: World, client: Puppet, worker: Puppet
) -> None:
    worker.say("reserve-with-timeout 2")
    world.stop()
    client.put()
    world.pass_time(1_900)
    assert worker.reply() == ""
    world.pass_time(200)
    assert worker.reply() == "TIMED_OUT"
    assert client.ask("reserve-job 1") == "NOT_FOUND"
    assert client.ask("reserve-with-timeout 0") == "TIMED_OUT"


def test_a_job_whose_worker_hangs_up_is_ready_again(
    world: World, client: Puppet, worker: Puppet
) -> None:
    client.put()
    worker.ask("reserve", "list-tube-used")
    worker.hang_up()
    stats = client.stats("stats-job 1")
    assert (stats["state"], stats["reserves"], stats["timeouts"]) == ("ready", "1", "0")
    assert not world.service.references.keys() - {"default"}


def test_jobs_cross_to_and_from_another_protocol(world: World) -> None:
    gearman, client = world.gearman(), world.peer()
    gearman.submit_bg("resize", "a.png", "u1")
    assert client.ask("watch resize", "reserve") == "RESERVED 1 5\na.png"
    assert client.ask("delete 1") == "DELETED"
    client.ask("use resize")
    client.put(b"b.png")
    job = gearman.can_do("resize").grab()
    assert job is not None
    assert (job.function, job.body) == (b"resize", b"b.png")
    assert client.stats("stats-job 2")["state"] == "reserved"


def test_workers_are_listed(world: World, client: Puppet, worker: Puppet) -> None:
    client.put()
    worker.ask("watch mail")
    worker.say("reserve")
    [view] = world.service.workers()
    assert (view.protocol, view.queues) == ("beanstalkd", ["default", "mail"])
    assert client.stats("stats")["current-workers"] == "1"
