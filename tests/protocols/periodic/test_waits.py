"""Many who wait for one job, or for many: what that takes is bounded, in memory and in a turn."""

import os
import time

import pytest

from franca.core.limits import Limits
from franca.core.model import State
from franca.protocols.periodic import alarms, client_commands, service
from franca.protocols.periodic.client_commands import NAMESAKES_MAX
from tests.protocols.periodic.puppet import Puppet, World
from tests.support import periodic as p
from tests.support.periodic import packed

MANY = NAMESAKES_MAX


def say_many(peer: Puppet, command: int, *args: bytes) -> None:
    """The same command with each of these arguments, in one breath."""
    said = [peer.message(command, one, b"%04d" % n) for n, one in enumerate(args)]
    peer.send(b"".join(said))


def followed(world: World, times: int = MANY) -> tuple[Puppet, Puppet, bytes]:
    """A worker with a job, a client that waits for its stream many times, and the handle."""
    worker, client = world.worker("f"), world.peer()
    say_many(client, p.RECV_DATA, *[packed("f", "n")] * times)
    world.peer().submit("f", "n")
    client.heard()
    return worker, client, worker.grab().handle


def watched(peer: Puppet) -> list[int]:
    """The jobs that the broker would tell this peer about."""
    return list(peer.conversation.session.watches)


def one_turn(world: World, peer: Puppet, *messages: bytes) -> None:
    world.turn((peer, b"".join(messages)))


# -- one answer for many ---------------------------------------------------------------------------


def test_one_job_is_waited_for_a_few_times_on_a_connection_and_no_more(world: World) -> None:
    world.worker("f")
    client = world.peer()
    say_many(client, p.RUN_JOB, *[packed("f", "n")] * (MANY + 2))
    assert client.words() == [p.UNKNOWN] * 2
    say_many(client, p.RECV_DATA, packed("f", "other"))
    assert client.words() == [p.SUCCESS], "other jobs can be waited for"


@pytest.mark.parametrize("size", [700, 60_000])
def test_what_goes_to_many_is_not_copied_for_each(world: World, size: int) -> None:
    worker, client, handle = followed(world)
    others = [world.peer() for _ in range(3)]
    for other in others:
        other.run_job("f", "n", timeout=9)
    data = os.urandom(size)
    one_turn(world, worker, worker.message(p.WORK_DATA, handle + data, b"data"))
    pieces = [piece for piece in client.link.out if len(piece) >= size]
    assert len(pieces) == MANY
    assert len({id(piece) for piece in pieces}) <= 2, "one copy for the first, one for all others"
    world.run()
    assert [m.data for m in client.heard()] == [data] * MANY
    result = os.urandom(size)
    one_turn(world, worker, worker.message(p.WORK_DONE, handle + result, b"done"))
    pieces = [p for other in others for p in other.link.out if len(p) >= size]
    assert len({id(piece) for piece in pieces}) <= 2
    world.run()
    assert [other.heard()[0].data for other in others] == [result] * 3


def test_what_goes_to_one_alone_goes_out_in_one_piece(world: World) -> None:
    worker, client, handle = followed(world, 1)
    one_turn(world, worker, worker.message(p.WORK_DATA, handle + bytes(4_000), b"data"))
    assert len(client.link.out) == 1


def test_more_than_may_wait_unsent_is_not_said_to_one_at_once() -> None:
    world = World(limits=Limits(output_hard_bytes=1_000_000))
    worker, client, handle = followed(world)
    one_turn(world, worker, worker.message(p.WORK_DATA, handle + bytes(400_000), b"data"))
    assert sum(map(len, client.link.out)) < 1_000_000
    assert client.link.closing
    assert any("at once" in notice.reason for notice in world.engine.notices)
    world.run()
    assert (client.is_hung_up, worker.is_hung_up, world.service.waits.taken) == (True, False, 0)
    assert not world.service.streams


def test_one_answer_of_any_size_may_be_said() -> None:
    world = World(limits=Limits(output_hard_bytes=1_000_000))
    worker, client, handle = followed(world, 1)
    worker.say(p.WORK_DATA, handle + bytes(2_000_000))
    assert [len(m.data) for m in client.heard()] == [2_000_000]


# -- a share of a turn -----------------------------------------------------------------------------


def test_a_piece_that_many_hear_ends_its_workers_share_of_the_turn(world: World) -> None:
    worker, client, handle = followed(world)
    before = world.service.commands
    one_turn(world, worker, worker.message(p.WORK_DATA, handle + b"x", b"data") * 60)
    assert world.service.commands - before == 13, "each costs as much as five others"
    world.run()
    assert len(client.heard()) == 60 * MANY


def test_beyond_so_many_pieces_workers_wait_for_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SENT_A_TICK", 3 * MANY)
    world = World()
    worker, client, handle = followed(world)
    world.pass_time(100)
    worker.send(worker.message(p.WORK_DATA, handle + b"x", b"data") * 7)
    assert len(client.heard()) == 3 * MANY
    assert worker.link.conversation.unread()
    assert not world.engine.has_input(), "it is not asked again and again"
    world.pass_time(50)
    assert len(client.heard()) == 3 * MANY
    world.pass_time(50)
    assert len(client.heard()) == MANY
    assert (worker.words().count(p.SUCCESS), world.service.postponed) == (7, {})


def test_workers_wait_once_for_a_client_that_does_not_take_its_stream(world: World) -> None:
    worker, client, handle = followed(world, 1)
    client.link.full = True
    worker.send(worker.message(p.WORK_DATA, handle + b"x", b"data") * 3)
    worker.say(p.WORK_DONE, handle + b"r")
    assert [m.data for m in client.heard()] == [b"x"]
    world.pass_time(5_000)
    assert client.heard() == []
    client.link.full = False
    world.pass_time(100)
    assert [m.data for m in client.heard()] == [b"x", b"x", b"EOF"]

    worker, client, handle = followed(world, 1)
    client.link.full = True
    worker.send(worker.message(p.WORK_DATA, handle + b"x", b"data") * 3)
    world.pass_time(service.PACE_MS + 100)
    assert [m.data for m in client.heard()] == [b"x", b"x", b"x"], "no worker need care any more"
    worker.say(p.WORK_DATA, handle + b"y")
    assert [m.data for m in client.heard()] == [b"y"]


def test_the_last_words_of_a_worker_that_was_kept_waiting_count(world: World) -> None:
    worker, client, handle = followed(world, 1)
    client.link.full = True
    worker.send(worker.message(p.WORK_DATA, handle + b"x", b"data") * 3)
    worker.say(p.WORK_DONE, handle + b"r")
    assert world.jobs(State.LEASED)
    worker.hang_up()
    assert not world.jobs()
    assert (client.heard()[-1].data, world.service.postponed) == (b"EOF", {})


def test_a_worker_that_is_hung_up_on_because_of_what_another_says_is_not_asked_again() -> None:
    """Both were kept waiting, and one of them also follows what the other has to say."""
    world = World(limits=Limits(output_hard_bytes=1_000_000))
    first, second, slow = world.worker("f"), world.worker("g"), world.peer()
    for func in ("f", "g"):
        say_many(slow, p.RECV_DATA, packed(func, "n"))
        world.peer().submit(func, "n")
    handles = [worker.grab().handle for worker in (first, second)]
    say_many(second, p.RECV_DATA, *[packed("f", "n")] * MANY)
    slow.link.full = True
    for worker, handle in zip((first, second), handles, strict=True):
        worker.say(p.WORK_DATA, handle + b"x")
        worker.say(p.WORK_DATA, handle + bytes(60_000))
    assert list(world.service.postponed) == [first.conversation, second.conversation]
    slow.link.full = False
    world.pass_time(100)
    assert (second.is_hung_up, world.service.postponed) == (True, {})
    assert len(slow.heard()[-1].data) == 60_000
    first.say(p.WORK_DONE, handles[0])
    assert slow.heard()[-1].data == b"EOF", "everybody else goes on"


# -- the end of waiting ----------------------------------------------------------------------------


def test_a_wait_that_is_refused_is_not_another_of_the_same_id(world: World) -> None:
    """They are equal in all they say, and yet one has its job and the other has not."""
    client, worker = world.peer(), world.worker("f")
    client.submit("f", "n")
    job = worker.grab()
    world.broker.refusing_new = True
    run = worker.message(p.RUN_JOB, packed("f", "n", timeout=5), b"same")
    worker.send(run + worker.message(p.WORK_FAIL, job.handle, b"fail") + run)
    worker.heard()
    world.pass_time(10_000)
    assert (world.engine.notices, worker.is_hung_up, world.service.waits.taken) == ([], False, 0)


def test_of_equal_waits_the_one_that_is_meant_is_removed() -> None:
    waiting = World().peer().conversation.waits
    one, other = (waiting.add(("f", "n"), b"abcd", is_stream=False) for _ in range(2))
    assert (waiting.remove(("f", "n"), other), waiting._by_name["f", "n"]) == (False, [one])
    assert waiting.remove(("f", "n"), one)


def test_waits_that_end_together_are_told_so_a_slice_at_a_time(world: World) -> None:
    world.worker("f")
    client, other = world.peer(), world.peer()
    say_many(client, p.RUN_JOB, *[packed("f", f"n{n}", timeout=8) for n in range(9_000)])
    other.run_job("f", "mine", timeout=8)
    assert len(watched(client)) == 9_000
    world.pass_time(8_000)
    spans: list[float] = []
    while len(world.service.alarms.pending._heap) and len(spans) < 40:
        world.now += 50
        began = time.thread_time()
        world.engine.turn(world.now)
        spans.append(time.thread_time() - began)
        world.run()
    assert max(spans) < 0.1
    assert len(spans) >= 9_000 / alarms.RUNG_A_TICK
    assert [m.data for m in client.heard()] == [b"expired"] * 9_000
    assert [m.data for m in other.heard()] == [b"expired"]
    assert (watched(client), world.service.waits.taken) == ([], 0)


def test_who_no_longer_waits_for_a_job_in_the_tail_does_not_watch_it() -> None:
    world = World(limits=Limits(window_jobs=2, supply_jobs=1))
    world.worker("f")
    client = world.peer()
    say_many(client, p.RUN_JOB, *[packed("f", f"n{n}", timeout=2) for n in range(9)])
    assert any(job_id not in world.broker.jobs for job_id in watched(client))
    world.pass_time(3_000)
    assert len(client.heard()) == 9
    assert (watched(client), world.broker.watches.by_job) == ([], {})


def test_grabs_owed_an_answer_have_it_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms, "RUNG_A_TICK", 10)
    world = World()
    worker = world.worker("f")
    for _ in range(2):
        worker.grab_many(25)
    worker.heard()
    world.pass_time(4_900)
    assert worker.heard() == []
    heard = []
    for _ in range(8):
        world.pass_time(50)
        heard.append(len(worker.words()))
    assert max(heard) <= 10
    assert sum(heard) == 25


# -- room ------------------------------------------------------------------------------------------


@pytest.fixture
def no_room_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("franca.protocols.periodic.client_commands.WAITS_BYTES_FREE", 0)


@pytest.mark.usefixtures("no_room_of_ones_own")
def test_all_waits_together_take_a_bounded_amount_of_room(world: World) -> None:
    world.worker("f")
    world.service.waits.most = 20 * client_commands.WAIT_BYTES
    clients = [world.peer() for _ in range(3)]
    for number, client in enumerate(clients):
        names = [packed("f", f"{number} {n}", timeout=5) for n in range(15)]
        say_many(client, p.RUN_JOB, *names)
    refused = [client.words().count(p.UNKNOWN) for client in clients]
    assert refused[0] == 0
    assert refused[1] > 5
    assert refused[2] == 15
    clients[0].hang_up()
    assert clients[2].run_job("f", "x")
    assert not clients[2].heard()
    world.pass_time(7_000)
    for client in clients[1:]:
        client.hang_up()
    assert not world.service.waits.taken


def test_waits_that_are_answered_leave_nothing_behind(world: World) -> None:
    waiting = world.peer().conversation.waits
    for number in range(5_000):
        name = ("f", f"n{number}")
        wait = waiting.add(name, b"abcd", is_stream=False)
        waiting.expire_at(name, wait, 10_000_000 + 100 * number)
        assert waiting.remove(name, wait)
    assert len(world.service.alarms.pending._heap) <= 1_001
    assert (world.service.alarms.pending.next_at(), waiting._by_name) == (None, {})
    assert world.service.waits.taken == 0


def test_the_first_waits_of_a_connection_always_have_room(world: World) -> None:
    world.worker("f")
    world.service.waits.most = 0
    client = world.peer()
    say_many(client, p.RUN_JOB, *[packed("f", f"n{n}") for n in range(9)])
    assert len(client.words()) == 5
    client.hang_up()
    assert not world.service.waits.taken


@pytest.mark.usefixtures("no_room_of_ones_own")
def test_a_job_whose_wait_was_refused_is_not_taken_in(world: World) -> None:
    world.worker("f")
    world.service.waits.most = 0
    assert world.peer().word(p.RUN_JOB, packed("f", "n")) == p.UNKNOWN
    assert (world.peer().word(p.RECV_DATA, packed("f", "n")), world.jobs()) == (p.UNKNOWN, [])
    assert not world.service.streams
    world.peer().remove()
